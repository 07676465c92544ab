"""Means over pairs of observations."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .. import _fields
from .._types import Array, Scalar, Theta
from ..discrepancies import DKSD
from ..discrepancy import AbstractPairwise
from ..memory import tangents_at_once
from ..operator import field_at, score, stein_kernel
from ..pairs import Fields, Products, autodiff, inner, products
from ..pairs.forms import Features
from ..pairs.stored import Stored, stored_products, stored_sum
from ..sample import Sample
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
        phi = self._features(vector)
        if self.stored is None:
            return self.discrepancy.pair_sum(self.sample, phi, self.diagonal) / self.pairs
        return stored_sum(self.stored, self.sample, phi, diagonal=self.diagonal) / self.pairs

    @property
    def pairs(self) -> Scalar:
        """The number of pairs in the mean."""
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    def jet(self, vector):
        size = self._at_once(vector)
        all_of_them = size == vector.size
        off, on = self._products(self._batch(vector)) if all_of_them else self._grouped(vector, size).products
        mean = (off + self.diagonal * on) / self.pairs
        n2 = self.sample.size**2
        return Jet(mean[0, 0], 2 * mean[0, 1:], mean[1:, 1:], (off + on)[1:, 1:] / n2, on[0, 0] / n2)

    def second(self, vector):
        size = self._at_once(vector)
        with_own = lambda off, on: jax.tree.map(lambda a, b: a + self.diagonal * b, off, on)
        if size < vector.size:
            found = self._grouped(vector, size)
            metric, witness, rows = with_own(*found.products)[1:, 1:], with_own(*found.fields), found.rows
        else:
            phis = self._batch(vector)
            G = with_own(*self.discrepancy.pair_fields(self.sample, phis, once=True))
            metric, witness = products(phis, Fields(G, G)).off[1:, 1:], jax.tree.map(lambda part: part[0], G)
            rows = _row_sums(phis.t * G.t[0] + phis.t[0] * G.t) + _row_sums(phis.m * G.m[0] + phis.m[0] * G.m)
            rows = rows[1:]
        bent = jax.jacfwd(jax.grad(lambda vector: inner(self._features(vector), witness)))(vector)
        return Second(2 * (metric + bent) / self.pairs, *_projected(rows, self))

    def shares(self, vector, z):
        """φ at z meets G φ of the sample: the points z are targets, and as sources they count nothing."""
        extended, of_sample, places = self.sample.with_points(z)
        everywhere = dataclasses.replace(self, sample=extended, stored=None)
        phis = everywhere._batch(vector)
        keep = lambda part: jnp.where(of_sample.reshape((1, -1) + (1,) * (part.ndim - 2)), part, 0)
        G = self.discrepancy.pair_fields(extended, jax.tree.map(keep, phis), once=True).off
        sums = _row_sums(phis.t * G.t[0] + phis.t[0] * G.t) + _row_sums(phis.m * G.m[0] + phis.m[0] * G.m)
        return 2 * sums[1:, places] / self.sample.size

    def part(self, rows, vector, key, chains):
        sample = self.on_rows(rows)
        share = self.diagonal * (sample.size - 1) / jnp.maximum(self.sample.size - 1, 1)
        return dataclasses.replace(self, sample=sample, diagonal=share, stored=None), chains

    def _features(self, vector: Theta) -> Features:
        return self.discrepancy.features(self.at(vector), self.sample)

    def _batch(self, vector: Theta) -> Features:
        """φ and its derivative in each parameter."""
        phi, push = jax.linearize(self._features, vector)
        tangents = jax.vmap(push)(jnp.eye(vector.size, dtype=vector.dtype))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), phi, tangents)

    def _at_once(self, vector: Theta) -> int:
        """How many derivatives of φ fit into memory; where rows are spread over hosts, these must agree: all."""
        if self.sample.blocks is not None or self.stored is not None:
            return vector.size
        phi = jax.eval_shape(self._features, vector)
        rows = phi.t.shape[0]
        return tangents_at_once(rows, (phi.t.size + phi.m.size) // rows, phi.t.dtype, vector.size)

    def _grouped(self, vector: Theta, size: int) -> Grouped:
        apply = lambda phis: self.discrepancy.pair_fields(self.sample, phis)
        return grouped(self._features, apply, vector, self.diagonal, size)

    def _products(self, phis: Features) -> Products:
        if self.stored is None:
            return products(phis, self.discrepancy.pair_fields(self.sample, phis))
        return stored_products(self.stored, self.sample, phis)


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
