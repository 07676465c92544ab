"""Means over observations."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array, Theta
from ...data.sample import Sample
from ...discrepancies.base import AbstractPointwise, looks_up
from ...stein.tangents import by_batches, gram_of_tangents, tangents
from ._objective import AbstractObjective, Jet, Second, Zeroth


class PointObjective(AbstractObjective):
    """The mean of a discrepancy's contributions over observations."""

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: AbstractPointwise

    def __call__(self, vector):
        return self.discrepancy.loss(self.at(vector), self.sample)

    def zeroth(self, vector):
        rows = self.sample.zero_padding(
            self.discrepancy.contributions(self.at(vector), self.sample)
        )
        return Zeroth(jnp.sum(rows) / self.sample.size, rows)

    def jet(self, vector):
        value, gradient = jax.value_and_grad(self)(vector)
        residuals = lambda vector: self.discrepancy.residuals(self.at(vector), self.sample)
        g = gram_of_tangents(residuals, vector) / self.sample.size
        return Jet(value, gradient, g, g, jnp.sum(residuals(vector) ** 2) / self.sample.size**2)

    def second(self, vector):
        contributions = lambda vector: self.discrepancy.contributions(self.at(vector), self.sample)

        def gradient(vector: Theta) -> tuple[Array, Array]:
            rows = self.sample.zero_padding_of_columns(jax.jacfwd(contributions)(vector).T)
            return self._mean(rows), rows

        if vector.size**2 * self._entries(vector) > _ENTRIES:
            return self.second_by_columns(vector)
        hessian, rows = jax.jacfwd(gradient, has_aux=True)(vector)
        return Second(hessian, self._mean(rows), rows)

    def second_by_columns(self, vector: Theta) -> Second:
        """The same, in reverse mode: it takes longer to compile, and less time and memory for much
        data.
        """
        push = lambda e: jax.jvp(jax.grad(self), (vector,), (e,))[1]
        hessian = by_batches(push, jnp.eye(vector.size, dtype=vector.dtype), self._entries(vector))
        contributions = lambda vector: self.discrepancy.contributions(self.at(vector), self.sample)
        rows = self.sample.zero_padding_of_columns(tangents(contributions, vector))
        return Second(hessian, self._mean(rows), rows)

    def _entries(self, vector: Theta) -> int:
        """Those of one derivative of the residuals."""
        return jax.eval_shape(
            lambda v: self.discrepancy.residuals(self.at(v), self.sample), vector
        ).size

    def _mean(self, rows: Float[Array, "p N"]) -> Float[Array, " p"]:
        return jnp.sum(rows, axis=1) / self.sample.size

    def shares(self, vector, z):
        there = Sample(z, jnp.asarray(z.shape[0]), self.sample.centre)
        return jax.jacfwd(lambda vector: self.discrepancy.contributions(self.at(vector), there))(
            vector
        ).T

    def part(self, rows, vector, key, chains):
        if self.discrepancy.looks_up:
            raise looks_up()
        return dataclasses.replace(self, sample=self.on_rows(rows)), chains


_ENTRIES = 1 << 24
"""Second derivatives of contributions that are in memory at once."""
