"""What a discrepancy is: a mean over points, a mean over pairs, or something that is drawn at random."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from . import errors
from ._text import as_call
from ._types import Array, LogDensity, Scalar, is_traced
from .disk import OnDisk
from .pairs import Fields
from .pairs.forms import Features
from .pairs.stored import Stored
from .params import theta, unwrap, with_theta
from .sample import AnySample, Sample, Table, read_or_leave, run
from .sharded import AnyData, Sharded
from .spaces import space_of
from .tangents import gram_of_tangents


class AbstractDiscrepancy(eqx.Module):
    """How badly a model fits a sample, without the model's normaliser: `discrepancy(model, x)`."""

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, model: LogDensity, x: Any, *, key: PRNGKeyArray | None = None) -> Any:
        """The loss at this model: a number (NumPy data), or a JAX scalar, differentiable in the model.

        `key` is for discrepancies that draw at random.
        """
        x = read_or_leave(x, space_of(model))
        ready = keyed(self, key).ready(model, x)
        loss = run(_loss, ready, model, x)
        if not is_traced(loss) and not np.isfinite(loss):
            self.explain(model, x, float(loss))
        return loss

    @abc.abstractmethod
    def ready(self, model: LogDensity, x: AnyData) -> "AbstractDiscrepancy":
        """Raise where this discrepancy is not defined on such data; else itself, with what it looks up in them."""

    @abc.abstractmethod
    def loss(self, model: LogDensity, sample: Any) -> Scalar:
        """The loss at a model without marks, on a `Sample` or, where it is made for rows on disk, a `Table`."""

    @abc.abstractmethod
    def information(self, model: LogDensity, sample: Any) -> Float[Array, "p p"]:
        """The information tensor g, the metric on θ that the discrepancy induces; the Hessian at the truth is 2g."""

    @abc.abstractmethod
    def explain(self, model: LogDensity, x: AnyData, loss: float) -> Any:
        """Raise the error that says why the loss is not finite."""

    @property
    @abc.abstractmethod
    def irregular(self) -> str | None:
        """Why the sandwich gives no standard errors, or None where it does."""

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """What the loss is, in a few words."""

    @abc.abstractmethod
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What else a summary says of it."""

    @abc.abstractmethod
    def is_quadratic(self, model: LogDensity, d: int) -> bool:
        """Whether the loss is quadratic in η, judged without evaluating it."""


def _loss(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> Scalar:
    return discrepancy.loss(unwrap(model), sample)


def check_together(name: str, x: AnyData) -> None:
    """Refuse rows that are on disk or spread over devices, for what needs them on one."""
    if isinstance(x, OnDisk):
        raise errors.needs_memory(name)
    if isinstance(x, Sharded):
        raise errors.one_device(name)


class AbstractRandom(AbstractDiscrepancy):
    """A discrepancy that draws at random, so that it is known only up to the error of Monte Carlo."""

    key: eqx.AbstractVar[PRNGKeyArray | None]


def keyed(discrepancy: AbstractDiscrepancy, key: PRNGKeyArray | None) -> Any:
    """A discrepancy that draws at random, with the key to do so; others as they are."""
    if not isinstance(discrepancy, AbstractRandom):
        return discrepancy
    if key is None:
        raise errors.no_key(type(discrepancy).__name__)
    return dataclasses.replace(discrepancy, key=key)


class AbstractPointwise(AbstractDiscrepancy):
    """A mean over observations, a U-statistic of degree one."""

    def loss(self, model, sample):
        if isinstance(sample, Table):
            return sample.sum(lambda block: self.loss(model, block) * block.size) / sample.size
        return jnp.sum(sample.zero_padding(self.contributions(model, sample))) / sample.size

    @abc.abstractmethod
    def contributions(self, model: LogDensity, sample: Sample) -> Float[Array, " N"]:
        """The term of each row."""

    @abc.abstractmethod
    def residuals(self, model: LogDensity, sample: Sample) -> Float[Array, "N q"]:
        """Functions r of θ with information tensor g = mean of ∂rᵀ∂r; zero in padding."""

    def information(self, model, sample):
        if isinstance(sample, Table):
            return sample.sum(lambda block: self.information(model, block) * block.size) / sample.size
        at = lambda vector: self.residuals(unwrap(with_theta(model, vector)), sample)
        return gram_of_tangents(at, jnp.asarray(theta(model))) / sample.size


class AbstractPairwise(AbstractDiscrepancy):
    """A mean over pairs of observations of a symmetric bilinear form in per-point features φ = (t, m)."""

    unbiased: eqx.AbstractVar[bool]

    @property
    @abc.abstractmethod
    def still(self) -> bool:
        """Whether m in φ = (t, m) is the same for every θ."""

    @abc.abstractmethod
    def features(self, model: LogDensity, sample: Sample) -> Features:
        """φ at each row, zero in padding."""

    @abc.abstractmethod
    def pair_sum(self, sample: Sample, phi: Features, diagonal: Any) -> Scalar:
        """Σ_{i≠j} ⟨φᵢ, G_ij φⱼ⟩, with `diagonal` times the same for i = j."""

    @abc.abstractmethod
    def pair_fields(self, sample: Sample, phis: Features, *, once: bool = False) -> Fields:
        """G applied to a batch of features, leading axis a."""

    @abc.abstractmethod
    def stored(self, model: LogDensity, sample: Sample) -> tuple[Stored, ...] | None:
        """What is θ-free in the pair sum, or None where it is too large or there is nothing."""

    @abc.abstractmethod
    def as_v(self) -> "AbstractPairwise":
        """The V-statistic instead of the U-statistic."""

    def pairs(self, sample: AnySample) -> Scalar:
        """The number of pairs in the mean."""
        return sample.size * (sample.size - 1 if self.unbiased else sample.size)
