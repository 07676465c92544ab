"""G of a kernel that is not reducible, by autodiff over pairs: slow, for kernels that a user wrote.

A point y with features (b, m) contributes the field g(x) = K(x, y) b + [∇ᵧK(x, y) : m], and G φ at x
consists of the value and the Jacobian of g there.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float

from .._types import Array, MatrixKernel, Point
from ..stein import matrix_fields
from .forms import Features
from .operator import AbstractOperator, inner

_ROWS = 16
"""Targets whose pairs are in memory at once: few, because each pair takes several d×d matrices of
derivatives.
"""


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
            others = jnp.where(weights[:, None] > 0, self.x, self.x[i] + 1)
            sent = jax.vmap(self._send_batch, (None, 0, 1))(self.x[i], others, phis)
            return jax.tree.map(lambda part: jnp.tensordot(weights, part, 1), sent)

        fields = lax.map(row, rows, batch_size=_ROWS)
        return jax.tree.map(lambda part: jnp.moveaxis(part, 0, 1), fields)

    def own(self, phis):
        return jax.vmap(self._send_batch, (0, 0, 1), 1)(self.x, self.x, phis)

    def matrix(self, phi: Features) -> Float[Array, "N N"]:
        """k⁰(xᵢ, xⱼ) for every pair."""

        def row(one: tuple[Point, Features]) -> Float[Array, " N"]:
            x, at_x = one
            return jax.vmap(lambda y, at_y: inner(at_x, self._send(x, y, at_y)))(self.x, phi)

        return lax.map(row, (self.x, phi))

    def _send_batch(self, x: Point, y: Point, phis: Features) -> Features:
        return jax.vmap(lambda phi: self._send(x, y, phi))(phis)

    def _send(self, x: Point, y: Point, phi: Features) -> Features:
        """G φ at x from the features φ at y."""
        axes = jnp.eye(x.shape[0], dtype=x.dtype)

        def field(x: Point) -> Point:
            along = lambda v: lambda y: matrix_fields.apply(jnp.asarray(self.kernel(x, y)), v)

            def column(e: Point) -> Point:
                Km = along(matrix_fields.transpose_apply(phi.m, e))
                return jax.jvp(Km, (y,), (e,))[1]

            return jnp.sum(jax.vmap(column)(axes), 0) + along(phi.t)(y)

        slopes = jax.jacfwd(field)(x).T
        match phi.m.ndim:
            case 0:
                return Features(field(x), jnp.trace(slopes))
            case 1:
                return Features(field(x), jnp.diagonal(slopes))
            case _:
                return Features(field(x), slopes)
