"""G of a kernel that has no reduction, by autodiff over pairs: slow, for kernels a user wrote.

What a point y with features (b, m) sends out is the field g(x) = K(x, y) b + [∇ᵧK(x, y) : m], and
G φ at x are its value and its Jacobian there.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float

from .._types import Array, MatrixKernel, Point, Scalar
from ..stein import matrix_fields
from .forms import Features
from .operator import AbstractOperator

_ROWS = 16
"""Rows of pairs that are in memory at once."""


class ByAutodiff(AbstractOperator):
    """The kernel is differentiated at every pair."""

    kernel: MatrixKernel
    x: Float[Array, "N d"]
    real: Bool[Array, " N"]

    def apply(self, phis, *, still=False, once=False):
        rows = jnp.arange(self.x.shape[0])

        def row(i: Array) -> Features:
            weights = (self.real & self.real[i] & (rows != i)).astype(self.x.dtype)
            # a kernel may have no derivative at x = y
            apart = jnp.where(weights[:, None] > 0, self.x, self.x[i] + 1)
            sent = jax.vmap(self._send, (None, 0, 1))(self.x[i], apart, phis)
            return jax.tree.map(lambda part: jnp.tensordot(weights, part, 1), sent)

        fields = lax.map(row, rows, batch_size=_ROWS)
        return jax.tree.map(lambda part: jnp.moveaxis(part, 0, 1), fields)

    def own(self, phis):
        return jax.vmap(self._send, (0, 0, 1), 1)(self.x, self.x, phis)

    def matrix(self, phi: Features) -> Float[Array, "N N"]:
        """k⁰(xᵢ, xⱼ) for every pair."""

        def pair(x: Point, at_x: Features, y: Point, at_y: Features) -> Scalar:
            field = self._send(x, y, jax.tree.map(lambda part: part[None], at_y))
            return jnp.vdot(at_x.t, field.t[0]) + jnp.vdot(at_x.m, field.m[0])

        def row(one: tuple[Point, Features]) -> Float[Array, " N"]:
            return jax.vmap(lambda y, at_y: pair(one[0], one[1], y, at_y))(self.x, phi)

        return lax.map(row, (self.x, phi))

    def _send(self, x: Point, y: Point, phis: Features) -> Features:
        """G φ at x from the features of a batch at y."""
        return jax.vmap(lambda phi: self._send_one(x, y, phi))(phis)

    def _send_one(self, x: Point, y: Point, phi: Features) -> Features:
        axes = jnp.eye(x.shape[0], dtype=x.dtype)

        def field(x: Point) -> Point:
            along = lambda v: lambda y: matrix_fields.apply(jnp.asarray(self.kernel(x, y)), v)
            column = lambda e: jax.jvp(along(matrix_fields.transpose_apply(phi.m, e)), (y,), (e,))[
                1
            ]
            return jnp.sum(jax.vmap(column)(axes), 0) + along(phi.t)(y)

        slopes = jax.jacfwd(field)(x).T
        match phi.m.ndim:
            case 0:
                return Features(field(x), jnp.trace(slopes))
            case 1:
                return Features(field(x), jnp.diagonal(slopes))
            case _:
                return Features(field(x), slopes)
