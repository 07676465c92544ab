"""Contrastive divergence, with the chain's law held."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array, LogDensity, Theta
from ...data.sample import Sample
from ...discrepancies.contrastive import CD, growth
from ...params import unwrap
from ._objective import AbstractObjective, Jet


class ChainObjective(AbstractObjective):
    """mean log p(end) − mean log p(observation) for chains whose ends are given; its gradient is
    the CD update.
    """

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: CD
    ends: Float[Array, "N d"] | None

    def __call__(self, vector):
        return jnp.sum(self.sample.zero_padding(self.growth(vector))) / self.sample.size

    def growth(self, vector: Theta) -> Float[Array, " N"]:
        """log p(end) − log p(observation) for each chain."""
        return growth(self.at(vector), self.sample, self._ends())

    def jet(self, vector):
        """With half the covariance of ∂log p at the ends as metric, the Fisher information of the
        model over two.
        """
        value, gradient = jax.value_and_grad(self)(vector)
        log_p = lambda vector: jax.vmap(self.at(vector))(self._ends())
        slopes = jax.jacfwd(log_p)(vector)
        centred = self.sample.zero_padding(
            slopes - jnp.sum(self.sample.zero_padding(slopes), 0) / self.sample.size
        )
        g = centred.T @ centred / (2 * self.sample.size)
        return Jet(value, gradient, g, g, jnp.zeros_like(value))

    def second(self, vector):
        raise TypeError(self.discrepancy.irregular)

    def shares(self, vector, z):
        raise TypeError(self.discrepancy.irregular)

    def part(self, rows, vector, key, chains):
        sample = self.on_rows(rows)
        begin = chains if self.discrepancy.persistent else sample.x
        ends, _ = self.discrepancy.ends(self.at(vector), begin, key)
        part = dataclasses.replace(self, sample=sample, ends=ends)
        return part, ends if self.discrepancy.persistent else chains

    def _ends(self) -> Float[Array, "N d"]:
        if self.ends is None:
            raise TypeError("Contrastive divergence is evaluated on chains that have been run.")
        return self.ends


def chain_objective(
    discrepancy: CD, model: LogDensity, sample: Sample, natural: bool
) -> ChainObjective:
    """The objective at this model, with chains from the observations where the discrepancy has a
    key, else without.
    """
    key = discrepancy.key
    ends = None if key is None else discrepancy.ends(unwrap(model), sample.x, key)[0]
    return ChainObjective(model, sample, natural, discrepancy, ends)
