"""The diffusion Stein operator S[g] = ⟨b, g⟩ + ⟨m, ∇g⟩ with b = mᵀ∇log p + ∇·m.

These are functions of single points in plain JAX and in JAX's own precision: call them inside
`jax.enable_x64(True)` for double precision. The package builds its pair sums from `features`;
`stein_kernel` computes the same kernel directly from its definition, as a reference.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .. import errors
from .._types import Array, Field, LogDensity, MatrixField, MatrixKernel, Point, Scalar
from ..params import unwrap
from . import matrix_fields as _fields
from .diffusions import as_diffusion
from .matrix_fields import bad_field

__all__ = ["features", "score", "stein", "stein_kernel"]


def score(model: LogDensity, x: Point) -> Point:
    """∇log p(x).

    >>> ms.operator.score(ms.models.Gaussian(0.0, 2.0), jnp.array([1.0])).tolist()
    [-0.25]
    """
    check_density(model, x)
    return jax.grad(model)(x)


def check_density(model: LogDensity, x: Point) -> None:
    """Raise unless the value of a model at a point is one real floating-point number."""

    def value(x: Point) -> Any:
        found = model(x)
        if not eqx.is_array_like(found):
            raise _not_real("None" if found is None else type(found).__name__)
        return found

    found = jax.eval_shape(value, x)
    if found.shape != ():
        raise _not_scalar(found.shape, x.shape[0])
    if not jnp.issubdtype(found.dtype, jnp.floating):
        kind = "an integer" if jnp.issubdtype(found.dtype, jnp.integer) else "a number"
        raise _not_real(f"{kind} ({found.dtype})")


def field_at(model: LogDensity, m: Any, x: Point) -> MatrixField:
    """Return the field of a diffusion at this model, after checking its shape."""
    return _fields.check("diffusion", as_diffusion(m).at(model), x)


def features(model: LogDensity, m: Any, x: Point) -> tuple[Point, Field]:
    """The features (b, m) at one point, which determine the Stein operator there.

    Args:
        model: log p up to a constant.
        m: a diffusion: None for the identity, a number, an array, a function of one point, or
            `of_model`.
        x: one point of shape (d,).

    >>> b, m = ms.features(ms.models.Gaussian(0.0, 2.0), None, jnp.array([1.0]))
    >>> b.tolist(), float(m)                                             # the score −x/σ², and the identity
    ([-0.25], 1.0)
    """
    model = unwrap(model)
    field = field_at(model, m, x)
    value = field(x)
    return _fields.transpose_apply(value, score(model, x)) + _fields.divergence(field, x), value


def stein(model: LogDensity, m: Any, g: Callable[[Point], Point]) -> Callable[[Point], Scalar]:
    """The function S[g](x) = ⟨∇log p, m g⟩ + ∇·(m g), whose mean under p is zero.

    Args:
        model: log p up to a constant.
        m: a diffusion, as in `features`.
        g: a vector field, a function of one point that returns shape (d,).

    >>> standard = ms.models.Gaussian(0.0, 1.0)
    >>> float(ms.stein(standard, None, lambda x: x)(jnp.array([2.0])))    # 1 − x²
    -3.0
    """
    model = unwrap(model)

    def stein_g(x: Point) -> Scalar:
        field = field_at(model, m, x)
        mg = lambda x: _fields.apply(field(x), g(x))
        return jnp.vdot(score(model, x), mg(x)) + jnp.trace(jax.jacfwd(mg)(x))

    return stein_g


def check_kernel(kernel: MatrixKernel, x: Point) -> None:
    """Raise unless the value of a kernel is a scalar, a vector of shape (d,) or a (d, d) matrix."""
    d, shape = x.shape[0], jax.eval_shape(kernel, x, x).shape
    if shape not in ((), (d,), (d, d)):
        raise bad_field("kernel", shape, d)


def stein_kernel(
    model: LogDensity, m: Any, kernel: MatrixKernel
) -> Callable[[Point, Point], Scalar]:
    """The Stein kernel k⁰(x, y) = (1/p(x)p(y)) ∇_y·∇_x·(p(x) m(x) K(x, y) m(y)ᵀ p(y)), by autodiff.

    Args:
        model: log p up to a constant.
        m: a diffusion, as in `features`.
        kernel: a kernel of `ms.kernels` or any function K(x, y) that returns a scalar, a vector or
            a matrix.

    >>> k0 = ms.stein_kernel(ms.models.Gaussian(0.0, 1.0), None, ms.kernels.Gaussian(1.0))
    >>> round(float(k0(jnp.array([1.0]), jnp.array([1.0]))), 6)          # x² + 1/ℓ² on the diagonal
    2.0
    """
    model = unwrap(model)

    def k0(x: Point, y: Point) -> Scalar:
        field, axes = field_at(model, m, x), jnp.eye(x.shape[0], dtype=x.dtype)
        check_kernel(kernel, x)

        def conjugate(x: Point, y: Point, v: Point) -> Point:
            """m(x) K(x, y) m(y)ᵀ v."""
            Kv = _fields.apply(jnp.asarray(kernel(x, y)), _fields.transpose_apply(field(y), v))
            return _fields.apply(field(x), Kv)

        def in_y(x: Point) -> Point:
            column = lambda e: jax.jvp(lambda y: conjugate(x, y, e), (y,), (e,))[1]
            return jnp.sum(jax.vmap(column)(axes), 0) + conjugate(x, y, score(model, y))

        slope = lambda e: jnp.vdot(e, jax.jvp(in_y, (x,), (e,))[1])
        return jnp.sum(_map_axes(slope, axes)) + jnp.vdot(score(model, x), in_y(x))

    return k0


_ABREAST = 4
"""Up to this dimension all directions are differentiated at once, which is faster; in higher
dimensions one after another, so that memory is O(d²) and not O(d³).
"""


def _map_axes(fn: Callable, axes: Float[Array, "d d"]) -> Float[Array, " d"]:
    """Apply fn to each axis; a gradient then keeps the intermediate values of one axis at a time."""
    return jax.vmap(fn)(axes) if len(axes) <= _ABREAST else jax.lax.map(jax.checkpoint(fn), axes)


@errors.explained("your-own-model.md")
def _not_scalar(shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"model(x) must return a scalar, got shape {shape}. It is called on one point x of shape ({d},), "
        "not on the whole sample: "
        + ("use x[0]" if d == 1 else "sum over the coordinates")
        + " inside the model."
    )


@errors.explained("your-own-model.md")
def _not_real(got: str) -> TypeError:
    return TypeError(
        f"model(x) must return a real floating-point number, log p(x) up to a constant, got {got}. "
        "Usual causes: (a) a missing return statement; (b) integer arithmetic: write 1.0 instead of 1; "
        "(c) a complex intermediate result: take its real part, jnp.real(...)."
    )
