"""Means over pairs of rows on disk: two blocks in memory at a time, and nothing as long as n."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._types import Array, Scalar, Theta
from ...data.rows import disk_steps
from ...data.sample import Sample, Table
from ...pairs.backends import Summand
from ...pairs.by_blocks import ByBlocks
from ...pairs.forms import Features
from ...pairs.operator import inner
from .objective import AbstractObjective, Second
from .on_disk import loss_on_disk, root
from .pairs import AbstractPairwise, PairObjective, jet_of


class TablePairs(AbstractObjective):
    """The mean of k⁰ over pairs of rows on disk: every block meets every block.

    Value and jet visit each pair of blocks once. Gradient and Hessian need the fields at a block from
    all others, and visit it twice. Terms of finite rank need no pairs.
    """

    model: Any
    sample: Table
    natural: bool = eqx.field(static=True)
    discrepancy: AbstractPairwise
    diagonal: Any  # a number, or a bool if it is part of the program
    terms: tuple[Summand, ...]
    sums_pairs: ClassVar[bool] = True

    def __call__(self, vector):
        return loss_on_disk(self, vector)

    @property
    def pairs(self) -> Scalar:
        """The number of pairs in the mean."""
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    def value(self, model):
        features = lambda block: _alone(block.discrepancy.features(model, block.sample))
        off, on = self._by_blocks(features).products()
        return (off + self.diagonal * on)[0, 0] / self.pairs

    def value_and_grad(self, vector: Theta) -> tuple[Scalar, Theta]:
        fields = self._by_blocks(lambda block: _alone(block.features(vector))).fields(self.diagonal)

        def one(sample: Sample) -> tuple[Scalar, Theta]:
            block, witness = self._on(sample), jax.tree.map(lambda part: part[0], fields(sample))
            value, gradient = jax.value_and_grad(
                lambda vector: inner(block.features(vector), witness)
            )(vector)
            return value, 2 * gradient

        return jax.tree.map(lambda total: total / self.pairs, self.sample.sum(one))

    def jet(self, vector):
        return jet_of(self._by_blocks(lambda block: block.batch(vector)).products(), self)

    def second(self, vector):
        fields = self._by_blocks(lambda block: block.batch(vector)).fields(self.diagonal)

        def one(sample: Sample) -> tuple[Array, Array, Array]:
            block, G = self._on(sample), fields(sample)
            phis = block.batch(vector)
            a = sample.zero_padding_of_columns(
                block.rows(phis, G) / (self.sample.size - 1 + self.diagonal)
            )
            return block.curvature(vector, phis, G), jnp.sum(a, 1), a @ a.T

        curvature, gradient, moment = self.sample.sum(one)
        return Second(2 * curvature / self.pairs, gradient / self.sample.size, 2 * root(moment))

    def shares(self, vector, z):
        there = Sample(z, jnp.asarray(len(z)), self.sample.centre)
        G = self._by_blocks(lambda block: block.batch(vector)).fields_elsewhere(there)
        return 2 * self._on(there).rows(self._on(there).batch(vector), G) / self.sample.size

    def part(self, rows, vector, key, chains):
        raise disk_steps("A search by minibatches")

    def as_v(self):
        if not self.discrepancy.unbiased:
            return None
        return replace(self, diagonal=jnp.ones_like(self.diagonal))

    def _on(self, sample: Sample) -> PairObjective:
        return PairObjective(
            self.model, sample, self.natural, self.discrepancy, self.diagonal, None
        )

    def _by_blocks(self, batch: Callable[[PairObjective], Features]) -> ByBlocks:
        still = self.discrepancy.still
        return ByBlocks(self.terms, self.sample, lambda sample: batch(self._on(sample)), still)


def _alone(phi: Features) -> Features:
    return jax.tree.map(lambda part: part[None], phi)
