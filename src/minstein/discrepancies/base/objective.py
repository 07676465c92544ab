"""An objective: the loss as a function of one vector, with its derivatives.

The vector is η = params.to_real(model), for which every constraint holds automatically, or θ on its
natural scale.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from ..._types import Array, LogDensity, Scalar, Theta, Tree
from ...data.rows import disk_steps
from ...data.sample import Sample, bucket
from ...params import from_real, unwrap, with_theta


class Jet(NamedTuple):
    """The loss around a point. At the truth its Hessian is 2g, with g either of the two tensors.

    Attributes:
        value: the loss.
        gradient: its gradient.
        curvature: ⟨∂φ, G ∂φ⟩ averaged as the loss is; half the Hessian of a quadratic loss.
        metric: the same as a V-statistic, which is always positive semi-definite.
        noise: the size of the loss that chance alone explains.
    """

    value: Scalar
    gradient: Float[Array, " p"]
    curvature: Float[Array, "p p"]
    metric: Float[Array, "p p"]
    noise: Scalar


class Zeroth(NamedTuple):
    """The loss, and the contribution of each observation to it.

    From sample to sample, the loss varies as the mean of the contributions does.
    """

    value: Scalar
    projections: Float[Array, " N"]


class Second(NamedTuple):
    """The Hessian and the gradient, and the contribution of each observation to the gradient.

    From sample to sample, the gradient varies as the mean of the contributions does: ∂F for a mean
    of F, twice the Hájek projection of ∂k⁰ for a mean over pairs. For rows on disk, `projections` is
    a p×p matrix with the same second moment.
    """

    hessian: Float[Array, "p p"]
    gradient: Float[Array, " p"]
    projections: Float[Array, "p N"]


class AbstractObjective(eqx.Module):
    """The loss of a model on a sample, as a function of a vector."""

    sums_pairs: ClassVar[bool] = False
    """Whether the loss is a sum over pairs, so that its cost grows as the square of n."""

    has_zeroth: ClassVar[bool] = True
    """Whether the loss varies as a mean over observations does, so that `zeroth` exists."""

    model: eqx.AbstractVar[Any]
    sample: eqx.AbstractVar[Any]
    natural: eqx.AbstractVar[bool]
    discrepancy: eqx.AbstractVar[Any]

    def __call__(self, vector: Theta) -> Scalar:
        """The loss at a vector."""
        return self.value(self.at(vector))

    @abc.abstractmethod
    def value(self, model: LogDensity) -> Scalar:
        """The loss at a model without marks."""

    def zeroth(self, vector: Theta) -> Zeroth | None:
        """The loss with the contribution of each observation, or None if the rows are on disk."""
        return None

    @abc.abstractmethod
    def jet(self, vector: Theta) -> Jet:
        """The loss with its derivatives, from one pass over the data or their pairs."""

    @abc.abstractmethod
    def second(self, vector: Theta) -> Second:
        """The second derivatives, and the contribution of each observation to the gradient."""

    @abc.abstractmethod
    def shares(self, vector: Theta, z: Float[Array, "k d"]) -> Float[Array, "p k"]:
        """The contribution to the gradient, as in `Second.projections`, that a further observation
        at each row of z would make.
        """

    @abc.abstractmethod
    def part(
        self, rows: Int[Array, " b"], vector: Theta, key: Any, chains: Tree
    ) -> "tuple[AbstractObjective, Tree]":
        """Return an unbiased estimate of the objective from some rows, and the chains to continue.

        A random objective draws at this vector, with this key, from these chains.
        """

    def as_v(self) -> "AbstractObjective | None":
        """The V-statistic, if the loss is a U-statistic over pairs; else None."""
        return None

    def on_rows(self, rows: Int[Array, " b"]) -> Sample:
        """Return the sample of some rows, padded.

        If there are more rows than observations, the last ones are padding.
        """
        if not self.sample.all_at_once:
            raise disk_steps("A search by minibatches")
        b = rows.shape[0]
        rows = jnp.concatenate([rows, jnp.broadcast_to(rows[:1], (bucket(b) - b,))])
        return Sample(self.sample.x[rows], jnp.minimum(b, self.sample.n), self.sample.centre)

    def is_laborious(self, p: int) -> bool:
        """Whether p derivatives at every observation are too much work for a search."""
        return self.discrepancy.is_laborious(p * self.sample.x.size)

    def at(self, vector: Theta) -> LogDensity:
        """The model at this vector, without marks."""
        return unwrap((with_theta if self.natural else from_real)(self.model, vector))
