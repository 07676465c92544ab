"""Contrastive divergence: the Stein operator I − P_θⁿ of a Markov chain."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from . import errors
from ._types import Array, LogDensity, Scalar
from .discrepancy import AbstractRandom, check_together, keyed
from .markov import AbstractTransition, as_transition, run
from .params import constant, unwrap
from .sample import Sample, read
from .sample import run as run_at_boundary
from .spaces import space_of


class Estimate(NamedTuple):
    """A loss by Monte Carlo.

    Attributes:
        loss: the estimate.
        error: its standard error, for the chain's randomness alone.
        acceptance: the share of the chain's steps that moved.
    """

    loss: Any
    error: Any
    acceptance: Any


class CD(AbstractRandom):
    """Contrastive divergence: chains from the observations, `steps` steps of a kernel that leaves the model invariant.

    The loss is ∫(Pⁿlog p − log p)dQ, by how much log p grows along the chain; its absolute value is the Stein
    discrepancy of the operator I − Pⁿ for the class {log p + c}. The update is its gradient with the law Pⁿ of the
    chain's end held: mean ∂log p(end) − mean ∂log p(observation). `fit` follows this update to where it vanishes, which
    is not the minimum of the loss; standard errors come from `ms.bootstrap`.

    Args:
        kernel: a kernel of `ms.markov`, or any function `kernel(model, x, key)` that returns the next point and leaves
            the model invariant: `ms.markov.check` tells.
        steps: n, the steps of the chain before each update.
        persistent: whether chains go on from where they ended instead of from the observations, which brings the
            update near that of maximum likelihood where the parameters move slowly.

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

    def __init__(self, kernel: Any, steps: int = 1, *, persistent: bool = False, key: PRNGKeyArray | None = None):
        self.kernel = as_transition(kernel)
        if steps < 1:
            raise ValueError(f"CD: steps must be at least 1, got {steps}.")
        self.steps, self.persistent, self.key = int(steps), bool(persistent), key

    def ready(self, model, x):
        self.kernel.check(unwrap(model), space_of(model))
        check_together("Contrastive divergence", x)
        return self

    def loss(self, model, sample):
        return _mean(sample, growth(model, sample, self.ends(model, sample.x, self.key)[0]))

    def ends(
        self, model: LogDensity, x: Float[Array, "N d"], key: Any
    ) -> tuple[Float[Array, "N d"], Float[Array, " N"]]:
        """Where chains from each row end, as constants of differentiation, and the share of their steps that moved."""
        return constant(run(self.kernel, constant(model), x, key, self.steps))

    def estimate(self, model: LogDensity, x: Any, key: PRNGKeyArray, *, repeats: int = 20) -> Estimate:
        """The loss over so many repetitions of the chains, with its Monte-Carlo error and the acceptance rate."""
        x = read(x, space_of(model))
        ready = keyed(self, key).ready(model, x)
        losses, moved = run_at_boundary(_repeated, (ready, jax.random.split(key, repeats)), model, x)
        return Estimate(losses.mean(), losses.std(ddof=1) / repeats**0.5, moved.mean())

    def information(self, model, sample):
        raise TypeError("Contrastive divergence has no information tensor: its update is the gradient of no loss.")

    def explain(self, model, x, loss):
        raise errors.bad_growth(loss)

    @property
    def irregular(self):
        return errors.no_sandwich_for_chains()

    @property
    def kind(self):
        return f"{'persistent ' if self.persistent else ''}contrastive divergence, {self.steps} step" + (
            "s" if self.steps > 1 else ""
        )

    def facts(self):
        return (("Chain", repr(self.kernel)),)

    def is_quadratic(self, model, d):
        return False


def growth(model: LogDensity, sample: Sample, ends: Float[Array, "N d"]) -> Float[Array, " N"]:
    """log p(end) − log p(observation) for each chain."""
    return jax.vmap(model)(ends) - jax.vmap(model)(sample.x)


def _mean(sample: Sample, rows: Float[Array, " N"]) -> Scalar:
    return jnp.sum(sample.zero_padding(rows)) / sample.size


def _repeated(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Array, Array]:
    discrepancy, keys = tree
    model = unwrap(model)

    def once(key: Any) -> tuple[Scalar, Scalar]:
        ends, moved = discrepancy.ends(model, sample.x, key)
        return _mean(sample, growth(model, sample, ends)), _mean(sample, moved)

    return jax.lax.map(once, keys)
