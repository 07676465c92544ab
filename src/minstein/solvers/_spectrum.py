"""A symmetric matrix by its eigenvalues, in units in which its diagonal is one."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Scalar


class Spectrum(NamedTuple):
    """A = D^½ Q diag(w) Qᵀ D^½ with D the diagonal of A; `unit` is D^(−½), zero if the diagonal
    is zero.
    """

    unit: Float[Array, " p"]
    w: Float[Array, " p"]
    Q: Float[Array, "p p"]

    @classmethod
    def of(cls, A: Float[Array, "p p"]) -> "Spectrum":
        D = jnp.abs(jnp.diagonal(A))
        unit = jnp.where(D > 0, 1 / jnp.sqrt(jnp.where(D > 0, D, 1)), 0)
        w, Q = jnp.linalg.eigh(unit[:, None] * A * unit)
        return cls(unit, w, Q)

    def solve(self, b: Float[Array, " p"], damping: Scalar | float = 0.0) -> Float[Array, " p"]:
        """(A + damping D)⁻¹ b."""
        return self.unit * (self.Q @ (self.Q.T @ (self.unit * b) / (self.w + damping)))

    def square(self, v: Float[Array, " p"]) -> Scalar:
        """vᵀ|A|v, with the absolute values of the eigenvalues."""
        inside = jnp.where(self.unit > 0, v / jnp.where(self.unit > 0, self.unit, 1), 0)
        return jnp.sum(jnp.abs(self.w) * (self.Q.T @ inside) ** 2)
