"""Contrastive divergence: the Stein operator I − P_θⁿ of a Markov chain."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from .. import errors
from .._types import Array, LogDensity, Scalar, Theta
from ..data.boundary import run as run_at_boundary
from ..data.keys import as_key
from ..data.reading import read
from ..data.sample import Sample
from ..data.spaces import space_of
from ..params import constant, unwrap
from ..stein.operator import check_density
from .base import AbstractObjective, AbstractRandom, Jet, check_together
from .markov import AbstractTransition, as_transition, run


class Estimate(NamedTuple):
    """A Monte Carlo estimate of a loss.

    Attributes:
        loss: the estimate.
        error: its Monte Carlo standard error, given the data.
        acceptance: the share of the chains' steps that moved.
    """

    loss: Any
    error: Any
    acceptance: Any


class CD(AbstractRandom):
    """Contrastive divergence, by n steps of a Markov chain from each observation.

    The loss is ∫(Pⁿlog p − log p)dQ, the mean increase of log p along the chain; its absolute value
    is the Stein discrepancy of the operator I − Pⁿ for the class {log p + c}. The update is its
    gradient with the law Pⁿ of the chain's end held fixed: mean ∂log p(end) − mean
    ∂log p(observation). `fit` solves for a zero of this update, which is not the minimum of the
    loss; standard errors come from `ms.bootstrap`.

    Args:
        kernel: a kernel of `ms.markov`, or any function `kernel(model, x, key)` that returns the
            next point and leaves the model invariant, which `ms.markov.check` tests.
        steps: n, the number of steps of the chain before each update.
        persistent: whether chains continue from their previous ends instead of restarting from the
            observations. If the parameters change slowly, this brings the update close to that of
            maximum likelihood.

    >>> x = np.array([[1, 1], [1, 1], [1, -1], [-1, -1]])
    >>> cd = ms.CD(ms.markov.Gibbs(), 1)
    >>> loss = cd(ms.models.Ising(ms.fixed([0.0, 0.0]), 0.3), x, key=jax.random.key(0))
    >>> bool(np.isfinite(loss))
    True
    """

    kernel: AbstractTransition
    steps: int = eqx.field(static=True)
    persistent: bool = eqx.field(static=True)
    key: PRNGKeyArray | None = eqx.field(repr=False)

    def __init__(self, kernel: Any, steps: int = 1, *, persistent: bool = False, key: Any = None):
        self.kernel = as_transition(kernel)
        if steps < 1:
            raise ValueError(f"CD: steps must be at least 1, got {steps}.")
        self.steps, self.persistent, self.key = int(steps), bool(persistent), as_key(key)

    def ready(self, model, x):
        self.kernel.check(unwrap(model), space_of(model))
        check_together("Contrastive divergence", x)
        return self

    def objective(self, model, sample, *, natural=False, keep=False):
        """With chains from the observations if there is a key, else without."""
        key = self.key
        ends = None if key is None else self.ends(unwrap(model), sample.x, key)[0]
        return ChainObjective(model, sample, natural, self, ends)

    def ends(
        self, model: LogDensity, x: Float[Array, "N d"], key: Any
    ) -> tuple[Float[Array, "N d"], Float[Array, " N"]]:
        """The ends of chains from each row, as constants, and the shares of steps that moved."""
        check_density(model, x[0])
        return constant(run(self.kernel, constant(model), x, key, self.steps))

    def estimate(self, model: LogDensity, x: Any, key: Any, *, repeats: int = 20) -> Estimate:
        """Estimate the loss, its Monte Carlo error and the acceptance rate from repeated chains."""
        x, key = read(x, space_of(model)), as_key(key)
        ready = self.with_key(key).ready(model, x)
        losses, moved = run_at_boundary(_repeat, (ready, jax.random.split(key, repeats)), model, x)
        return Estimate(losses.mean(), losses.std(ddof=1) / repeats**0.5, moved.mean())

    def information(self, model, sample):
        raise TypeError(
            "Contrastive divergence has no information tensor: its update is not the gradient of a loss."
        )

    def explain(self, model, x, loss):
        raise _bad_growth(loss)

    @property
    def irregular(self):
        return _no_sandwich_for_chains()

    @property
    def kind(self):
        return (
            f"{'persistent ' if self.persistent else ''}contrastive divergence, {self.steps} step"
            + ("s" if self.steps > 1 else "")
        )

    def facts(self):
        return (("Chain", repr(self.kernel)),)


class ChainObjective(AbstractObjective):
    """mean log p(end) − mean log p(observation) for given ends of the chains; its gradient is the CD
    update.
    """

    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: CD
    ends: Float[Array, "N d"] | None

    def value(self, model):
        return _mean(self.sample, growth(model, self.sample, self._ends()))

    def growth(self, vector: Theta) -> Float[Array, " N"]:
        """log p(end) − log p(observation) for each chain."""
        return growth(self.at(vector), self.sample, self._ends())

    def jet(self, vector):
        """The metric is half the covariance of ∂log p at the ends, which estimates half the Fisher
        information.
        """
        value, gradient = jax.value_and_grad(self)(vector)
        log_p = lambda vector: jax.vmap(self.at(vector))(self._ends())
        slopes = jax.jacfwd(log_p)(vector)
        centred = self.sample.zero_padding(slopes - _mean(self.sample, slopes))
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


def growth(model: LogDensity, sample: Sample, ends: Float[Array, "N d"]) -> Float[Array, " N"]:
    """log p(end) − log p(observation) for each chain."""
    return jax.vmap(model)(ends) - jax.vmap(model)(sample.x)


def _mean(sample: Sample, rows: Float[Array, "N *r"]) -> Float[Array, "*r"]:
    return jnp.sum(sample.zero_padding(rows), axis=0) / sample.size


def _repeat(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Array, Array]:
    discrepancy, keys = tree
    model = unwrap(model)

    def once(key: Any) -> tuple[Scalar, Scalar]:
        ends, moved = discrepancy.ends(model, sample.x, key)
        return _mean(sample, growth(model, sample, ends)), _mean(sample, moved)

    return jax.lax.map(once, keys)


@errors.explained("discrete.md")
def _no_sandwich_for_chains() -> str:
    return (
        "No standard errors: contrastive divergence follows a random update that is not the gradient of a loss, so "
        "there is no Hessian for the sandwich. Use ms.bootstrap(fit, x, key)."
    )


@errors.explained("discrete.md")
def _bad_growth(value: float) -> ValueError:
    return ValueError(
        f"The contrastive divergence is {value}. Usual causes: (a) log p is not finite at an observation; "
        "(b) the kernel moves to points at which log p is not finite."
    )
