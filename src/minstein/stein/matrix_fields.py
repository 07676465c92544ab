"""Matrix fields: a scalar h means h·I, a vector diag(h), and a matrix itself."""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .. import errors
from .._types import Array, Field, MatrixField, Point


def check(name: str, field: MatrixField, x: Point) -> MatrixField:
    """Return the field, or raise unless its value at x has one of the three shapes.

    If d = 1, the values of the field that is returned are scalars.
    """
    d = x.shape[0]
    shape = jax.eval_shape(lambda x: jnp.asarray(field(x)), x).shape
    if shape not in ((), (d,), (d, d)):
        raise bad_field(name, shape, d)
    return lambda x: jnp.reshape(jnp.asarray(field(x), jnp.result_type(x)), () if d == 1 else shape)


def as_matrix(h: Field, d: int) -> Float[Array, "d d"]:
    """The value of a field as a matrix."""
    return h if jnp.ndim(h) == 2 else jnp.diag(jnp.broadcast_to(h, (d,)))


def transpose_apply(h: Field, v: Point) -> Point:
    """hᵀv."""
    return h.T @ v if jnp.ndim(h) == 2 else h * v


def apply(h: Field, v: Point) -> Point:
    """h v."""
    return h @ v if jnp.ndim(h) == 2 else h * v


def divergence(field: MatrixField, x: Point) -> Point:
    """(∇·h)_r = Σ_j ∂_j h_jr, the divergence of each column."""
    match len(jax.eval_shape(field, x).shape):
        case 0:
            return jax.grad(field)(x)
        case 1:
            return jnp.diagonal(jax.jacfwd(field)(x))
        case _:
            return jnp.einsum("jrj->r", jax.jacfwd(field)(x))


@errors.explained("choosing.md")
def bad_field(name: str, shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"{name} must return a scalar, a vector of shape ({d},) or a matrix of shape ({d}, {d}) "
        f"for a point of shape ({d},), got shape {shape}."
    )
