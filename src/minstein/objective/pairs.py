"""Means over pairs of observations."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .. import _fields, errors
from .._types import Array, Scalar, Theta
from ..discrepancies import DKSD
from ..discrepancy import AbstractPairwise
from ..kernels import Span, Term
from ..memory import tangents_at_once
from ..operator import field_at, score, stein_kernel
from ..pairs import Fields, Products, autodiff, between, inner, products
from ..pairs.forms import Features
from ..pairs.nystrom import Nystrom
from ..pairs.stored import Stored, stored_products, stored_sum
from ..sample import Sample, bucket
from ._objective import AbstractObjective, Jet, Second
from .groups import Grouped, grouped


class PairObjective(AbstractObjective):
    """The mean of k⁰ over pairs: a U-statistic, or a V-statistic if `diagonal` is one rather than zero."""

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: AbstractPairwise
    diagonal: Scalar
    stored: tuple[Stored, ...] | None

    def __call__(self, vector):
        phi = self.features(vector)
        if self.stored is None:
            return self.discrepancy.pair_sum(self.sample, phi, self.diagonal) / self.pairs
        return stored_sum(self.stored, self.sample, phi, diagonal=self.diagonal) / self.pairs

    @property
    def pairs(self) -> Scalar:
        """The number of pairs in the mean."""
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    def jet(self, vector):
        size = self._at_once(vector)
        if size < vector.size:
            return jet_of(self._grouped(vector, size).products, self)
        return jet_of(self._products(self.batch(vector)), self)

    def second(self, vector):
        size = self._at_once(vector)
        with_own = lambda off, on: jax.tree.map(lambda a, b: a + self.diagonal * b, off, on)
        if size < vector.size:
            found = self._grouped(vector, size)
            metric, witness, rows = with_own(*found.products)[1:, 1:], with_own(*found.fields), found.rows
            return Second(2 * (metric + self._bent(vector, witness)) / self.pairs, *_projected(rows, self))
        phis = self.batch(vector)
        G = with_own(*self.discrepancy.pair_fields(self.sample, phis, once=True))
        return Second(2 * self.curvature(vector, phis, G) / self.pairs, *_projected(self.rows(phis, G), self))

    def curvature(self, vector: Theta, phis: Features, G: Features) -> Float[Array, "p p"]:
        """Half the second derivative of ⟨φ, G φ⟩, from φ with its derivatives and their fields."""
        witness = jax.tree.map(lambda part: part[0], G)
        return products(phis, Fields(G, G)).off[1:, 1:] + self._bent(vector, witness)

    def _bent(self, vector: Theta, witness: Features) -> Float[Array, "p p"]:
        """⟨∂∂φ, G φ⟩."""
        return jax.jacfwd(jax.grad(lambda vector: inner(self.features(vector), witness)))(vector)

    def rows(self, phis: Features, G: Features) -> Float[Array, "p N"]:
        """Half the derivative of what each point has in ⟨φ, G φ⟩, in each parameter, with G φ moving along."""
        return (_row_sums(phis.t * G.t[0] + phis.t[0] * G.t) + _row_sums(phis.m * G.m[0] + phis.m[0] * G.m))[1:]

    def shares(self, vector, z):
        """φ at z meets G φ of the sample: the points z are targets, and as sources they count nothing."""
        if isinstance(self.discrepancy, DKSD) and isinstance(self.discrepancy.backend, Nystrom):
            raise errors.landmarks_elsewhere()
        if isinstance(self.discrepancy, DKSD) and self.discrepancy.visits_pairs(self.sample):
            return self._shares_between(self.discrepancy, vector, z)
        extended, of_sample, places = self.sample.with_points(z)
        everywhere = dataclasses.replace(self, sample=extended, stored=None)
        phis = everywhere.batch(vector)
        keep = lambda part: jnp.where(of_sample.reshape((1, -1) + (1,) * (part.ndim - 2)), part, 0)
        G = self.discrepancy.pair_fields(extended, jax.tree.map(keep, phis), once=True).off
        return 2 * self.rows(phis, G)[:, places] / self.sample.size

    def _shares_between(self, discrepancy: DKSD, vector: Theta, z: Float[Array, "k d"]) -> Float[Array, "p k"]:
        """Every point of z with every observation, and no other pairs."""
        k = len(z)
        padded = jnp.concatenate([z, jnp.broadcast_to(z[:1], (bucket(k) - k, z.shape[1]))])
        there = Sample(padded, jnp.asarray(k), self.sample.centre)
        here, phis = dataclasses.replace(self, sample=there, stored=None).batch(vector), self.batch(vector)
        terms = discrepancy.terms() or ()
        radial = tuple(term for term in terms if isinstance(term, Term))
        spans = tuple(term for term in terms if isinstance(term, Span))
        G = between.fields(radial, there, self.sample, phis, same=jnp.asarray(False), still=discrepancy.still)
        more = between.received(spans, between.sent(spans, self.sample, phis), there, here, among=False)
        return 2 * self.rows(here, jax.tree.map(jnp.add, G, more))[:, :k] / self.sample.size

    def part(self, rows, vector, key, chains):
        sample = self.on_rows(rows)
        share = self.diagonal * (sample.size - 1) / jnp.maximum(self.sample.size - 1, 1)
        return dataclasses.replace(self, sample=sample, diagonal=share, stored=None), chains

    def features(self, vector: Theta) -> Features:
        return self.discrepancy.features(self.at(vector), self.sample)

    def batch(self, vector: Theta) -> Features:
        """φ and its derivative in each parameter."""
        phi, push = jax.linearize(self.features, vector)
        tangents = jax.vmap(push)(jnp.eye(vector.size, dtype=vector.dtype))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), phi, tangents)

    def _at_once(self, vector: Theta) -> int:
        """How many derivatives of φ fit into memory; where rows are spread over hosts, these must agree: all."""
        if self.sample.blocks is not None or self.stored is not None:
            return vector.size
        phi = jax.eval_shape(self.features, vector)
        rows = phi.t.shape[0]
        return tangents_at_once(rows, (phi.t.size + phi.m.size) // rows, phi.t.dtype, vector.size)

    def _grouped(self, vector: Theta, size: int) -> Grouped:
        apply = lambda phis: self.discrepancy.pair_fields(self.sample, phis)
        return grouped(self.features, apply, vector, self.diagonal, size)

    def _products(self, phis: Features) -> Products:
        if self.stored is None:
            return products(phis, self.discrepancy.pair_fields(self.sample, phis))
        return stored_products(self.stored, self.sample, phis)


def jet_of(pairs: Products, target: Any) -> Jet:
    """The loss around a point, from the products of φ and its derivatives."""
    off, on = pairs
    mean, n2 = (off + target.diagonal * on) / target.pairs, target.sample.size**2
    return Jet(mean[0, 0], 2 * mean[0, 1:], mean[1:, 1:], (off + on)[1:, 1:] / n2, on[0, 0] / n2)


def _row_sums(batch: Float[Array, "q N *r"]) -> Float[Array, "q N"]:
    return jnp.sum(batch.reshape(*batch.shape[:2], -1), axis=2)


def _projected(rows: Array, pairs: "PairObjective | PlainObjective") -> tuple[Array, Array]:
    """ā and 2aᵢ, where aᵢ = Σⱼ ∂k⁰(xᵢ, xⱼ)/(n − 1) and its mean ā is the gradient."""
    a = pairs.sample.zero_padding_of_columns(rows / (pairs.sample.size - 1 + pairs.diagonal))
    return jnp.sum(a, axis=1) / pairs.sample.size, 2 * a


class PlainObjective(AbstractObjective):
    """As `PairObjective`, for a kernel that a user wrote as a function, by autodiff over pairs."""

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: DKSD
    diagonal: Scalar

    def __call__(self, vector):
        k0 = stein_kernel(self.at(vector), self.discrepancy.diffusion, self.discrepancy.kernel)
        return autodiff.pair_sum(k0, self.sample, with_diagonal=self.diagonal > 0) / self.pairs

    @property
    def pairs(self) -> Scalar:
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    def jet(self, vector):
        value, gradient = jax.value_and_grad(self)(vector)
        t = _score_tangents(self, vector)
        kernel, sample = self.discrepancy.kernel, self.sample
        everything = autodiff.pair_products(kernel, sample, t, with_diagonal=True)
        of_loss = autodiff.pair_products(kernel, sample, t, with_diagonal=self.diagonal > 0)
        k0 = stein_kernel(self.at(vector), self.discrepancy.diffusion, kernel)
        noise = jnp.sum(sample.zero_padding(jax.vmap(lambda x: k0(x, x))(sample.x))) / sample.size**2
        return Jet(value, gradient, of_loss / self.pairs, everything / sample.size**2, noise)

    def second(self, vector):
        k0 = lambda vector: stein_kernel(self.at(vector), self.discrepancy.diffusion, self.discrepancy.kernel)
        rows = lambda vector: autodiff.pair_rows(k0(vector), self.sample, with_diagonal=self.diagonal > 0)
        return Second(jax.jacfwd(jax.grad(self))(vector), *_projected(jax.jacfwd(rows)(vector).T, self))

    def shares(self, vector, z):
        def mean(vector: Theta) -> Array:
            k0 = stein_kernel(self.at(vector), self.discrepancy.diffusion, self.discrepancy.kernel)
            row = lambda z: jnp.sum(self.sample.zero_padding(jax.vmap(lambda x: k0(z, x))(self.sample.x)))
            return jax.lax.map(row, z, batch_size=16) / self.sample.size

        return 2 * jax.jacfwd(mean)(vector).T

    def part(self, rows, vector, key, chains):
        return dataclasses.replace(self, sample=self.on_rows(rows), diagonal=jnp.zeros_like(self.diagonal)), chains


def _projected_scores(objective: PlainObjective, vector: Theta) -> Float[Array, "N d"]:
    """mᵀ∇log p at each observation."""
    model, sample = objective.at(vector), objective.sample
    m = lambda x: field_at(model, objective.discrepancy.diffusion, x)(x)
    return sample.zero_padding(jax.vmap(lambda x: _fields.transpose_apply(m(x), score(model, x)))(sample.x))


def _score_tangents(objective: PlainObjective, vector: Theta) -> Float[Array, "p N d"]:
    """The derivative of mᵀ∇log p in each parameter."""
    push = jax.linearize(lambda vector: _projected_scores(objective, vector), vector)[1]
    return jax.vmap(push)(jnp.eye(vector.size, dtype=vector.dtype))
