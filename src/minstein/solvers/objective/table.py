"""Means over rows on disk, and over pairs of them: a block, or two, in memory at a time, and
nothing as long as n.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array, Scalar, Theta, is_symbolic_zero
from ...data.disk import disk_is_traced
from ...data.rows import disk_steps
from ...data.sample import Sample, Table
from ...discrepancies.base import AbstractPointwise
from ...discrepancies.ksd import DKSD
from ...pairs.by_blocks import ByBlocks
from ...pairs.forms import Features
from ...pairs.operator import inner
from ._objective import AbstractObjective, Jet, Second
from .pairs import PairObjective, jet_of
from .points import PointObjective


@jax.custom_jvp
def _loss(objective: Any, vector: Theta) -> Scalar:
    """The loss, whose gradient comes with it, in the same pass."""
    return objective.value(vector)


@partial(_loss.defjvp, symbolic_zeros=True)
def _loss_jvp(primals, tangents):
    (objective, vector), (still, along) = primals, tangents
    if not all(map(is_symbolic_zero, jax.tree.leaves(still, is_leaf=is_symbolic_zero))):
        raise disk_is_traced()
    value, gradient = objective.value_and_grad(vector)
    return value, jnp.zeros_like(value) if is_symbolic_zero(along) else gradient @ along


def _root(M: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """L with LLᵀ = M, for M positive semi-definite: in a second moment it stands for what M is the
    sum of.
    """
    w, Q = jnp.linalg.eigh(M)
    return Q * jnp.sqrt(jnp.maximum(w, 0))


class TableObjective(AbstractObjective):
    """The mean of a discrepancy's contributions over rows on disk."""

    model: Any
    sample: Table
    natural: bool = eqx.field(static=True)
    discrepancy: AbstractPointwise

    def __call__(self, vector):
        return _loss(self, vector)

    def value(self, vector: Theta) -> Scalar:
        return self._mean(lambda block: block(vector))

    def value_and_grad(self, vector: Theta) -> tuple[Scalar, Theta]:
        return self._mean(lambda block: jax.value_and_grad(block)(vector))

    def jet(self, vector):
        def one(block: PointObjective) -> Jet:
            jet = block.jet(vector)
            return jet._replace(noise=jet.noise * block.sample.size / self.sample.size)

        return self._mean(one)

    def second(self, vector):
        def one(block: PointObjective) -> tuple[Array, Array, Array]:
            hessian, gradient, rows = block.second_by_columns(vector)
            return hessian, gradient, rows @ rows.T / block.sample.size

        hessian, gradient, moment = self._mean(one)
        return Second(hessian, gradient, _root(moment * self.sample.size))

    def shares(self, vector, z):
        return self._on(Sample(z, jnp.asarray(len(z)), self.sample.centre)).shares(vector, z)

    def part(self, rows, vector, key, chains):
        raise disk_steps("A search by minibatches")

    def _on(self, block: Sample) -> PointObjective:
        return PointObjective(self.model, block, self.natural, self.discrepancy)

    def _mean(self, fn: Callable[[PointObjective], Any]) -> Any:
        """Σ fn(block) n_b/n."""
        share = lambda block: block.size / self.sample.size
        return self.sample.sum(
            lambda block: jax.tree.map(lambda part: share(block) * part, fn(self._on(block)))
        )


class TablePairs(AbstractObjective):
    """The mean of k⁰ over pairs of rows on disk: every block meets every block.

    A pair of blocks serves value and jet once for both of its orders; gradient and Hessian need the
    fields at a block from all others, so for them it is gone through twice. Terms of finite rank
    need no pairs.
    """

    model: Any
    sample: Table
    natural: bool = eqx.field(static=True)
    discrepancy: DKSD
    diagonal: Scalar
    sums_pairs: ClassVar[bool] = True

    def __call__(self, vector):
        return _loss(self, vector)

    @property
    def pairs(self) -> Scalar:
        """The number of pairs in the mean."""
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    def value(self, vector: Theta) -> Scalar:
        off, on = self._by_blocks(lambda block: _alone(block.features(vector))).products()
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
        return Second(2 * curvature / self.pairs, gradient / self.sample.size, 2 * _root(moment))

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
        terms, still = self.discrepancy.terms(), self.discrepancy.still
        return ByBlocks(terms, self.sample, lambda sample: batch(self._on(sample)), still)


def _alone(phi: Features) -> Features:
    return jax.tree.map(lambda part: part[None], phi)
