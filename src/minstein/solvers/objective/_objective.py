"""What an objective is: the loss as a function of one vector, with what solvers and inference need
around a point.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from ..._types import Array, LogDensity, Scalar, Theta, Tree
from ...data.sample import Sample, bucket
from ...discrepancies.base import AbstractDiscrepancy
from ...params import from_real, unwrap, with_theta


class Jet(NamedTuple):
    """The loss around a point. At the truth the Hessian is 2g, whether g is `curvature` or
    `metric`.

    `curvature` is ⟨∂φ, G ∂φ⟩ averaged as the loss is, half the Hessian of a loss that is quadratic. `metric` is it as
    a V-statistic, positive semi-definite always. `noise` is the size of the loss that chance alone
    explains.
    """

    value: Scalar
    gradient: Float[Array, " p"]
    curvature: Float[Array, "p p"]
    metric: Float[Array, "p p"]
    noise: Scalar


class Zeroth(NamedTuple):
    """The loss alone, with what each observation contributes to it, in the sense that it varies as
    their mean does.
    """

    value: Scalar
    projections: Float[Array, " N"]


class Second(NamedTuple):
    """The loss to second order at its minimum.

    `projections` holds what each observation contributes to the gradient, in the sense that the gradient varies from
    sample to sample as their mean does: ∂F for a mean of F, twice the Hájek projection of ∂k⁰ for a
    mean over pairs. For rows on disk it is a matrix with the same second moment, as large as the
    Hessian.
    """

    hessian: Float[Array, "p p"]
    gradient: Float[Array, " p"]
    projections: Float[Array, "p N"]


class AbstractObjective(eqx.Module):
    """The loss of a model on a sample, as a function of a vector."""

    sums_pairs: ClassVar[bool] = False
    """Whether the loss is a sum over pairs, so that its work grows as the square of n."""

    model: eqx.AbstractVar[Any]
    sample: eqx.AbstractVar[Any]
    natural: eqx.AbstractVar[bool]
    discrepancy: eqx.AbstractVar[AbstractDiscrepancy]

    @abc.abstractmethod
    def __call__(self, vector: Theta) -> Scalar:
        """The loss."""

    def zeroth(self, vector: Theta) -> Zeroth | None:
        """The loss with what each observation contributes; None if the observations are not at
        hand.
        """
        return None

    @abc.abstractmethod
    def jet(self, vector: Theta) -> Jet:
        """The loss with its derivatives, from one pass over the pairs."""

    @abc.abstractmethod
    def second(self, vector: Theta) -> "Second":
        """The second derivatives, and what each observation contributes."""

    @abc.abstractmethod
    def shares(self, vector: Theta, z: Float[Array, "k d"]) -> Float[Array, "p k"]:
        """What a further observation at each row of z would contribute to the gradient, as
        `projections` has it.
        """

    @abc.abstractmethod
    def part(
        self, rows: Int[Array, " b"], vector: Theta, key: Any, chains: Tree
    ) -> "tuple[AbstractObjective, Tree]":
        """The objective on some rows, unbiased for that on all, and the chains that go on from
        there.

        One that draws at random draws at this vector, with this key, from these chains.
        """

    def as_v(self) -> "AbstractObjective | None":
        """The V-statistic, if the loss is a U-statistic over pairs; else None."""
        return None

    def on_rows(self, rows: Int[Array, " b"]) -> Sample:
        """The sample of some rows, padded; where there are more of them than observations, the last
        are padding.
        """
        b = rows.shape[0]
        rows = jnp.concatenate([rows, jnp.broadcast_to(rows[:1], (bucket(b) - b,))])
        return Sample(self.sample.x[rows], jnp.minimum(b, self.sample.n), self.sample.centre)

    def is_laborious(self, p: int) -> bool:
        """Whether p derivatives at every observation are too much work for a search."""
        return self.discrepancy.is_laborious(p * self.sample.x.size)

    def at(self, vector: Theta) -> LogDensity:
        """The model at this vector, without marks."""
        return unwrap((with_theta if self.natural else from_real)(self.model, vector))
