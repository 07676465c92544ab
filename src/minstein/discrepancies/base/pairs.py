"""Means over pairs of observations: the discrepancy and its objective."""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from ... import errors
from ..._types import Array, LogDensity, Scalar, Theta
from ...data.memory import tangents_at_once
from ...data.sample import AnySample, Sample, bucket
from ...pairs import between
from ...pairs.backends import Summand, radial, spans
from ...pairs.forms import Features
from ...pairs.operator import AbstractOperator, Fields, Products, fields, inner, pair_sum, products
from ...pairs.stored import Stored, stored_products, stored_sum
from ...params import unwrap
from .discrepancy import AbstractDiscrepancy
from .groups import ByGroups, by_groups
from .objective import AbstractObjective, Jet, Second, Zeroth


class AbstractPairwise(AbstractDiscrepancy):
    """A mean over pairs of a symmetric bilinear form in per-point features φ = (t, m)."""

    unbiased: eqx.AbstractVar[bool]

    @property
    @abc.abstractmethod
    def still(self) -> bool:
        """Whether m in φ = (t, m) is the same for every θ."""

    @abc.abstractmethod
    def features(self, model: LogDensity, sample: Sample) -> Features:
        """φ at each row, zero in padding."""

    @abc.abstractmethod
    def operator(self, sample: Sample) -> AbstractOperator:
        """G on the points of a sample."""

    @abc.abstractmethod
    def stored(self, model: LogDensity, sample: Sample) -> tuple[Stored, ...] | None:
        """The part of the pair sum that does not depend on θ, or None if it is too large or empty."""

    @abc.abstractmethod
    def as_v(self) -> "AbstractPairwise":
        """Return the V-statistic instead of the U-statistic."""

    def visited_terms(self, sample: Sample) -> tuple[Summand, ...] | None:
        """The terms of the kernel if the backend visits pairs one by one, else None."""
        return None

    def on_few_rows(self) -> "AbstractPairwise":
        """Return a copy that sums pairs in the way that suits a minibatch."""
        return self

    def objective(self, model, sample, *, natural=False, keep=False):
        stored = self.stored(model, sample) if keep else None
        return PairObjective(model, sample, natural, self, self.diagonal(sample), stored)

    def loss(self, model, sample):
        # a constant, so that a U-statistic does not compute the pairs of a point with itself
        model = unwrap(model)
        target = dataclasses.replace(self.objective(model, sample), diagonal=not self.unbiased)
        return target.value(model)

    def diagonal(self, sample: AnySample) -> Scalar:
        """The weight of pairs of a point with itself: 0 in a U-statistic, 1 in a V-statistic."""
        return jnp.asarray(0 if self.unbiased else 1, sample.x.dtype)


class PairObjective(AbstractObjective):
    """The mean of k⁰ over pairs: a U-statistic, or a V-statistic if `diagonal` is one rather than
    zero.
    """

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: AbstractPairwise
    diagonal: Any  # a number, or a bool if it is part of the program
    stored: tuple[Stored, ...] | None
    sums_pairs: ClassVar[bool] = True

    def value(self, model):
        phi = self.discrepancy.features(model, self.sample)
        if self.stored is None:
            return pair_sum(self.operator, phi, self.diagonal) / self.pairs
        return stored_sum(self.stored, self.sample, phi, diagonal=self.diagonal) / self.pairs

    @property
    def operator(self) -> AbstractOperator:
        """G on the sample."""
        return self.discrepancy.operator(self.sample)

    def fields(self, phis: Features, *, once: bool = False) -> Fields:
        """G applied to φ and its derivatives."""
        return fields(self.operator, phis, still=self.discrepancy.still, once=once)

    @property
    def pairs(self) -> Scalar:
        """The number of pairs in the mean."""
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    def zeroth(self, vector):
        phis = jax.tree.map(lambda part: part[None], self.features(vector))
        G = self.fields(phis, once=True).together(self.diagonal)
        return _zeroth_of((_row_sums(phis.t * G.t) + _row_sums(phis.m * G.m))[0], self)

    def jet(self, vector):
        size = self._at_once(vector)
        if size < vector.size:
            return jet_of(self._by_groups(vector, size).products, self)
        return jet_of(self._products(self.batch(vector)), self)

    def second(self, vector):
        size = self._at_once(vector)
        if size < vector.size:
            found = self._by_groups(vector, size)
            metric = _mean_products(found.products, self)[1:, 1:]
            rest = (
                self._curvature_of_features(vector, found.fields.together(self.diagonal))
                / self.pairs
            )
            return Second(2 * (metric + rest), *_projections(found.rows, self))
        phis = self.batch(vector)
        G = self.fields(phis, once=True).together(self.diagonal)
        return Second(
            2 * self.curvature(vector, phis, G) / self.pairs,
            *_projections(self.rows(phis, G), self),
        )

    def curvature(self, vector: Theta, phis: Features, G: Features) -> Float[Array, "p p"]:
        """Half the second derivative of ⟨φ, G φ⟩, from φ with its derivatives and their fields."""
        witness = jax.tree.map(lambda part: part[0], G)
        return products(phis, Fields(G, G)).off[1:, 1:] + self._curvature_of_features(
            vector, witness
        )

    def _curvature_of_features(self, vector: Theta, witness: Features) -> Float[Array, "p p"]:
        """⟨∂∂φ, G φ⟩."""
        return jax.jacfwd(jax.grad(lambda vector: inner(self.features(vector), witness)))(vector)

    def rows(self, phis: Features, G: Features) -> Float[Array, "p N"]:
        """Half the derivative in each parameter of the contribution of each point to ⟨φ, G φ⟩."""
        return (
            _row_sums(phis.t * G.t[0] + phis.t[0] * G.t)
            + _row_sums(phis.m * G.m[0] + phis.m[0] * G.m)
        )[1:]

    def shares(self, vector, z):
        """Evaluate G φ of the sample at the points z, which contribute nothing to it themselves."""
        terms = self.discrepancy.visited_terms(self.sample)
        if terms is not None:
            return self._shares_between(terms, vector, z)
        extended, of_sample, places = self.sample.with_points(z)
        everywhere = dataclasses.replace(self, sample=extended, stored=None)
        phis = everywhere.batch(vector)
        keep = lambda part: jnp.where(of_sample.reshape((1, -1) + (1,) * (part.ndim - 2)), part, 0)
        G = everywhere.fields(jax.tree.map(keep, phis), once=True).off
        return 2 * self.rows(phis, G)[:, places] / self.sample.size

    def _shares_between(
        self, terms: tuple[Summand, ...], vector: Theta, z: Float[Array, "k d"]
    ) -> Float[Array, "p k"]:
        """The same, visiting only the pairs of a point of z with an observation."""
        k = len(z)
        padded = jnp.concatenate([z, jnp.broadcast_to(z[:1], (bucket(k) - k, z.shape[1]))])
        there = Sample(padded, jnp.asarray(k), self.sample.centre)
        here, phis = (
            dataclasses.replace(self, sample=there, stored=None).batch(vector),
            self.batch(vector),
        )
        flat = spans(terms)
        G = between.fields(
            radial(terms),
            there,
            self.sample,
            phis,
            same=jnp.asarray(False),
            still=self.discrepancy.still,
        )
        more = between.received(
            flat, between.sent(flat, self.sample, phis), there, here, among=False
        )
        return 2 * self.rows(here, jax.tree.map(jnp.add, G, more))[:, :k] / self.sample.size

    def part(self, rows, vector, key, chains):
        sample = self.on_rows(rows)
        share = self.diagonal * (sample.size - 1) / jnp.maximum(self.sample.size - 1, 1)
        few = self.discrepancy.on_few_rows()
        return dataclasses.replace(
            self, discrepancy=few, sample=sample, diagonal=share, stored=None
        ), chains

    def as_v(self):
        if not self.discrepancy.unbiased:
            return None
        return dataclasses.replace(self, diagonal=jnp.ones_like(self.diagonal))

    def features(self, vector: Theta) -> Features:
        return self.discrepancy.features(self.at(vector), self.sample)

    def batch(self, vector: Theta) -> Features:
        """φ and its derivative in each parameter."""
        phi, push = jax.linearize(self.features, vector)
        tangents = jax.vmap(push)(jnp.eye(vector.size, dtype=vector.dtype))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), phi, tangents)

    def _at_once(self, vector: Theta) -> int:
        """How many derivatives of φ to hold at once; all if rows are spread over devices, which must
        agree.
        """
        if self.sample.blocks is not None or self.stored is not None:
            return vector.size
        phi = jax.eval_shape(self.features, vector)
        rows = phi.t.shape[0]
        return tangents_at_once(rows, (phi.t.size + phi.m.size) // rows, phi.t.dtype, vector.size)

    def _by_groups(self, vector: Theta, size: int) -> ByGroups:
        return by_groups(self.features, self.fields, vector, self.diagonal, size)

    def _products(self, phis: Features) -> Products:
        if self.stored is None:
            return products(phis, self.fields(phis))
        return stored_products(self.stored, self.sample, phis)


def jet_of(pairs: Products, target: Any) -> Jet:
    """The loss around a point, from the products of φ and its derivatives."""
    mean, n2 = _mean_products(pairs, target), target.sample.size**2
    on = jnp.where(jnp.isfinite(pairs.on), pairs.on, 0)  # the loss itself may do without
    metric = (pairs.off + on)[1:, 1:] / n2
    return Jet(mean[0, 0], 2 * mean[0, 1:], mean[1:, 1:], metric, on[0, 0] / n2)


def _mean_products(pairs: Products, target: Any) -> Float[Array, "q q"]:
    """⟨φ_a, G φ_b⟩ averaged as the loss is."""
    own = jnp.where(target.diagonal > 0, target.diagonal * pairs.on, 0)
    return (pairs.off + own) / target.pairs


def _row_sums(batch: Float[Array, "q N *r"]) -> Float[Array, "q N"]:
    return jnp.sum(batch.reshape(*batch.shape[:2], -1), axis=2)


def _projections(rows: Array, pairs: "PairObjective") -> tuple[Array, Array]:
    """ā and 2aᵢ, where aᵢ = Σⱼ ∂k⁰(xᵢ, xⱼ)/(n − 1) and its mean ā is the gradient."""
    a = pairs.sample.zero_padding_of_columns(rows / (pairs.sample.size - 1 + pairs.diagonal))
    return jnp.sum(a, axis=1) / pairs.sample.size, 2 * a


def _zeroth_of(rows: Float[Array, " N"], pairs: "PairObjective") -> Zeroth:
    """The mean of aᵢ = Σⱼ k⁰(xᵢ, xⱼ)/(n − 1), and 2aᵢ."""
    a = pairs.sample.zero_padding(rows / (pairs.sample.size - 1 + pairs.diagonal))
    return Zeroth(jnp.sum(a) / pairs.sample.size, 2 * a)


@errors.explained("choosing.md")
def too_few(n: int) -> ValueError:
    return ValueError(
        f"A U-statistic of degree two needs at least 2 observations, got {n}. "
        "Use unbiased=False for the V-statistic, or give more data."
    )
