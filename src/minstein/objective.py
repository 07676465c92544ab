"""The loss as a function of one vector, with what solvers and inference need to know around a point.

The vector is η = params.to_real(model), where every constraint holds by itself, or θ on the natural scale.
"""

import abc
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from . import _fields
from ._types import Array, LogDensity, Scalar, Theta
from .diffusions import OfModel
from .discrepancies import DKSD, DSM, AbstractDiscrepancy
from .kernels import Term
from .operator import features, field_at, score, stein_kernel
from .pairs import Fields, Products, autodiff, inner, pair_fields, pair_products, pair_sum, products
from .pairs.forms import Features
from .pairs.stored import Stored, fits, store, stored_products, stored_sum
from .params import from_real, names, unwrap, with_theta
from .sample import Sample, bucket


class Jet(NamedTuple):
    """The loss around a point. At the truth the Hessian is 2g, whether g is `curvature` or `metric`.

    `curvature` is ⟨∂φ, G ∂φ⟩ averaged as the loss is, half the Hessian of a loss that is quadratic. `metric` is it as
    a V-statistic, positive semi-definite always. `noise` is the size of the loss that chance alone explains.
    """

    value: Scalar
    gradient: Float[Array, " p"]
    curvature: Float[Array, "p p"]
    metric: Float[Array, "p p"]
    noise: Scalar


class Second(NamedTuple):
    """The loss to second order at its minimum.

    `projections` holds what each observation contributes to the gradient, in the sense that the gradient varies from
    sample to sample as their mean does: ∂F for a mean of F, twice the Hájek projection of ∂k⁰ for a mean over pairs.
    """

    hessian: Float[Array, "p p"]
    gradient: Float[Array, " p"]
    projections: Float[Array, "p N"]


class AbstractObjective(eqx.Module):
    """The loss of a model on a sample, as a function of a vector."""

    model: eqx.AbstractVar[Any]
    sample: eqx.AbstractVar[Sample]
    natural: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def __call__(self, vector: Theta) -> Scalar:
        """The loss."""

    @abc.abstractmethod
    def jet(self, vector: Theta) -> Jet:
        """The loss with its derivatives, from one pass over the pairs."""

    @abc.abstractmethod
    def second(self, vector: Theta) -> "Second":
        """The second derivatives, and what each observation contributes."""

    @abc.abstractmethod
    def shares(self, vector: Theta, z: Float[Array, "k d"]) -> Float[Array, "p k"]:
        """What a further observation at each row of z would contribute to the gradient, as `projections` has it."""

    def at(self, vector: Theta) -> LogDensity:
        """The model at this vector, without marks."""
        return unwrap((with_theta if self.natural else from_real)(self.model, vector))


def objective(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: Sample, *, natural: bool = False, keep: bool = False
) -> AbstractObjective:
    """The loss in η, or in θ if `natural`; `keep` stores what is θ-free, for many evaluations."""
    match discrepancy:
        case DKSD() if discrepancy.terms() is None:
            return PlainObjective(model, sample, natural, discrepancy, _diagonal(discrepancy, sample))
        case DKSD():
            stored = _stored(discrepancy, model, sample) if keep else None
            return PairObjective(model, sample, natural, discrepancy, _diagonal(discrepancy, sample), stored)
        case DSM():
            return PointObjective(model, sample, natural, discrepancy)
        case _:
            raise TypeError(f"There is no way to minimise {type(discrepancy).__name__}.")


def _diagonal(discrepancy: DKSD, sample: Sample) -> Scalar:
    return jnp.asarray(0 if discrepancy.unbiased else 1, sample.x.dtype)


def _stored(discrepancy: DKSD, model: LogDensity, sample: Sample) -> tuple[Stored, ...] | None:
    terms = discrepancy.terms()
    if terms is None or isinstance(discrepancy.diffusion, OfModel) or not fits(terms, sample):
        return None
    m = jax.vmap(lambda x: field_at(model, discrepancy.diffusion, x)(x))(sample.x)
    return store(terms, sample, sample.zero_padding(m))


class PairObjective(AbstractObjective):
    """The mean of k⁰ over pairs: a U-statistic, or a V-statistic if `diagonal` is one rather than zero."""

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: DKSD
    diagonal: Scalar
    stored: tuple[Stored, ...] | None

    def __call__(self, vector):
        phi = self._features(vector)
        if self.stored is None:
            return pair_sum(self.terms, self.sample, phi, diagonal=self.diagonal) / self.pairs
        return stored_sum(self.stored, self.sample, phi, diagonal=self.diagonal) / self.pairs

    @property
    def pairs(self) -> Scalar:
        """The number of pairs in the mean."""
        return self.sample.size * (self.sample.size - 1 + self.diagonal)

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.discrepancy.terms() or ()

    @property
    def still(self) -> bool:
        """Whether the diffusion is the same for every θ."""
        return not isinstance(self.discrepancy.diffusion, OfModel)

    def jet(self, vector):
        off, on = self._products(self._batch(vector))
        mean = (off + self.diagonal * on) / self.pairs
        n2 = self.sample.size**2
        return Jet(mean[0, 0], 2 * mean[0, 1:], mean[1:, 1:], (off + on)[1:, 1:] / n2, on[0, 0] / n2)

    def second(self, vector):
        phis = self._batch(vector)
        off, on = pair_fields(self.terms, self.sample, phis, still=self.still, once=True)
        G = jax.tree.map(lambda a, b: a + self.diagonal * b, off, on)
        witness = jax.tree.map(lambda part: part[0], G)
        along = lambda vector: inner(self._features(vector), witness)
        bent = jax.jacfwd(jax.grad(along))(vector)
        hessian = 2 * (products(phis, Fields(G, G)).off[1:, 1:] + bent) / self.pairs
        rows = _row_sums(phis.t * G.t[0] + phis.t[0] * G.t) + _row_sums(phis.m * G.m[0] + phis.m[0] * G.m)
        return Second(hessian, *_projected(rows[1:], self))

    def shares(self, vector, z):
        """φ at z meets G φ of the sample: the points z are targets, and as sources they count nothing."""
        rows, k = self.sample.x.shape[0], z.shape[0]
        filler = jnp.broadcast_to(z[:1], (bucket(rows + k) - rows - k, z.shape[1]))
        x = jnp.concatenate([self.sample.x, z, filler])
        everywhere = dataclasses.replace(
            self, sample=Sample(x, jnp.asarray(x.shape[0]), self.sample.centre), stored=None
        )
        phis = everywhere._batch(vector)
        of_sample = jnp.arange(x.shape[0]) < self.sample.n
        keep = lambda part: jnp.where(of_sample.reshape((1, -1) + (1,) * (part.ndim - 2)), part, 0)
        G = pair_fields(self.terms, everywhere.sample, jax.tree.map(keep, phis), still=self.still, once=True).off
        sums = _row_sums(phis.t * G.t[0] + phis.t[0] * G.t) + _row_sums(phis.m * G.m[0] + phis.m[0] * G.m)
        return 2 * sums[1:, rows : rows + k] / self.sample.size

    def _features(self, vector: Theta) -> Features:
        model = self.at(vector)
        b, m = jax.vmap(lambda x: features(model, self.discrepancy.diffusion, x))(self.sample.x)
        return Features(self.sample.zero_padding(b), self.sample.zero_padding(m))

    def _batch(self, vector: Theta) -> Features:
        """φ and its derivative in each parameter."""
        phi, push = jax.linearize(self._features, vector)
        tangents = jax.vmap(push)(jnp.eye(vector.size, dtype=vector.dtype))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), phi, tangents)

    def _products(self, phis: Features) -> Products:
        if self.stored is None:
            return pair_products(self.terms, self.sample, phis, still=self.still)
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


class PointObjective(AbstractObjective):
    """The mean of ‖mᵀ∇log p‖² + 2∇·(mmᵀ∇log p) over observations."""

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: DSM

    def __call__(self, vector):
        return self.discrepancy.loss(self.at(vector), self.sample)

    def jet(self, vector):
        value, gradient = jax.value_and_grad(self)(vector)
        t = _score_tangents(self, vector)
        g = jnp.einsum("anr,bnr->ab", t, t) / self.sample.size
        return Jet(value, gradient, g, g, jnp.sum(_projected_scores(self, vector) ** 2) / self.sample.size**2)

    def second(self, vector):
        contributions = lambda vector: self.discrepancy.contributions(self.at(vector), self.sample)

        def gradient(vector: Theta) -> tuple[Array, tuple[Array, Array]]:
            rows = self.sample.zero_padding_of_columns(jax.jacfwd(contributions)(vector).T)
            mean = jnp.sum(rows, axis=1) / self.sample.size
            return mean, (mean, rows)

        hessian, (mean, rows) = jax.jacfwd(gradient, has_aux=True)(vector)
        return Second(hessian, mean, rows)

    def shares(self, vector, z):
        there = Sample(z, jnp.asarray(z.shape[0]), self.sample.centre)
        return jax.jacfwd(lambda vector: self.discrepancy.contributions(self.at(vector), there))(vector).T


def _projected_scores(objective: PointObjective | PlainObjective, vector: Theta) -> Float[Array, "N d"]:
    """mᵀ∇log p at each observation."""
    model, sample = objective.at(vector), objective.sample
    m = lambda x: field_at(model, objective.discrepancy.diffusion, x)(x)
    return sample.zero_padding(jax.vmap(lambda x: _fields.transpose_apply(m(x), score(model, x)))(sample.x))


def _score_tangents(objective: PointObjective | PlainObjective, vector: Theta) -> Float[Array, "p N d"]:
    """The derivative of mᵀ∇log p in each parameter."""
    push = jax.linearize(lambda vector: _projected_scores(objective, vector), vector)[1]
    return jax.vmap(push)(jnp.eye(vector.size, dtype=vector.dtype))


def is_affine(discrepancy: DKSD | DSM, model: LogDensity, d: int) -> bool:
    """Whether the features (b, m) are affine in η, so that the loss is quadratic, judged from their derivation.

    The second derivative is traced, not evaluated: it does not depend on its directions at all where the features are
    affine.
    """
    p = len(names(model))
    at = lambda eta: unwrap(from_real(model, eta))

    def second(eta: Array, v: Array, w: Array, x: Array):
        of_eta = lambda eta: features(at(eta), discrepancy.diffusion, x)
        first = lambda eta: jax.jvp(of_eta, (eta,), (v,))[1]
        return jax.jvp(first, (eta,), (w,))[1]

    vector, point = jax.ShapeDtypeStruct((p,), jnp.float32), jax.ShapeDtypeStruct((d,), jnp.float32)
    jaxpr = jax.make_jaxpr(second)(vector, vector, vector, point).jaxpr
    reached = {jaxpr.invars[2]}
    for equation in jaxpr.eqns:
        if any(v in reached for v in equation.invars if not hasattr(v, "val")):
            reached.update(equation.outvars)
    return not any(v in reached for v in jaxpr.outvars if not hasattr(v, "val"))
