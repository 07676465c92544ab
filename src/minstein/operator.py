"""The diffusion Stein operator S[g] = ⟨b, g⟩ + ⟨m, ∇g⟩ with b = mᵀ∇log p + ∇·m, and what follows from it.

These are functions of single points, plain JAX and in JAX's own precision: call them inside `jax.enable_x64(True)` for
double. The pair sums of the package are built from `features`; `stein_kernel` is the same kernel straight from its
definition, and serves as the yardstick.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from . import _fields, errors
from ._types import Field, LogDensity, MatrixField, MatrixKernel, Point, Scalar
from .diffusions import as_diffusion
from .params import unwrap

__all__ = ["features", "score", "stein", "stein_kernel"]


def score(model: LogDensity, x: Point) -> Point:
    """∇log p(x).

    >>> ms.operator.score(ms.models.Gaussian(0.0, 2.0), jnp.array([1.0])).tolist()
    [-0.25]
    """
    shape = jax.eval_shape(model, x).shape
    if shape != ():
        raise errors.not_scalar(shape, x.shape[0])
    return jax.grad(model)(x)


def field_at(model: LogDensity, m: Any, x: Point) -> MatrixField:
    """The diffusion's field at this model, with its shape checked."""
    return _fields.check("diffusion", as_diffusion(m).at(model), x)


def features(model: LogDensity, m: Any, x: Point) -> tuple[Point, Field]:
    """(b, m) at one point: all that the Stein operator needs to know of the model and the diffusion.

    Args:
        model: log p up to a constant.
        m: a diffusion: None for the identity, a number, an array, a function of one point, or `of_model`.
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
    """Refuse a kernel whose value has none of the three shapes."""
    d, shape = x.shape[0], jax.eval_shape(kernel, x, x).shape
    if shape not in ((), (d,), (d, d)):
        raise errors.bad_field("kernel", shape, d)


def stein_kernel(model: LogDensity, m: Any, kernel: MatrixKernel) -> Callable[[Point, Point], Scalar]:
    """The Stein kernel k⁰(x, y) = (1/p(x)p(y)) ∇_y·∇_x·(p(x) m(x) K(x, y) m(y)ᵀ p(y)), by autodiff.

    Args:
        model: log p up to a constant.
        m: a diffusion, as in `features`.
        kernel: a kernel of `ms.kernels` or any function K(x, y) that returns a scalar, a vector or a matrix.

    >>> k0 = ms.stein_kernel(ms.models.Gaussian(0.0, 1.0), None, ms.kernels.Gaussian(1.0))
    >>> round(float(k0(jnp.array([1.0]), jnp.array([1.0]))), 6)          # x² + 1/ℓ² on the diagonal
    2.0
    """
    model = unwrap(model)

    def k0(x: Point, y: Point) -> Scalar:
        d = x.shape[0]
        field = field_at(model, m, x)
        check_kernel(kernel, x)

        def conjugated(x: Point, y: Point):
            K = _fields.as_matrix(kernel(x, y), d)
            return _fields.as_matrix(field(x), d) @ K @ _fields.as_matrix(field(y), d).T

        def in_y(x: Point) -> Point:
            divergence = jnp.einsum("ill->i", jax.jacfwd(conjugated, argnums=1)(x, y))
            return divergence + conjugated(x, y) @ score(model, y)

        return jnp.trace(jax.jacfwd(in_y)(x)) + jnp.vdot(score(model, x), in_y(x))

    return k0
