"""Whether a descent with Markov chains has settled, judged by comparing blocks of the last steps."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Scalar, Theta
from ..data.compiling import compiled
from ..data.spaces import space_of
from ..discrepancies.contrastive import ChainObjective
from ..params import to_real
from . import status
from ._solver import Chains

BLOCKS = 20
"""Parts of the last steps that are compared with one another."""


def add_to_block(blocks: Float[Array, "b p"], block: Array, eta: Theta) -> Float[Array, "b p"]:
    """Add η to its block, if there are blocks and it belongs to one."""
    return jnp.asarray(blocks).at[block].add(eta, mode="drop") if blocks.shape[0] else blocks


def block_of(step: Array, steps: int, average: float) -> Array:
    """The block to which a step belongs; past the last one for the early steps."""
    first = round(steps * (1 - (average or 0.5)))
    return jnp.where(step < first, BLOCKS, (step - first) * BLOCKS // max(1, steps - first))


@compiled
def judge_settled(
    objective: ChainObjective,
    blocks: Float[Array, "b p"],
    eta: Theta,
    code: Array,
    key: Any,
    steps: int,
    average: float,
) -> tuple[Array, Scalar, Chains]:
    """Return the status, which says whether the two halves of the last steps agree up to their
    noise, the loss at the end, and its errors.
    """
    index = block_of(jnp.arange(steps), steps, average)
    counts = jnp.zeros(BLOCKS, eta.dtype).at[index].add(1, mode="drop")
    means = (blocks / counts[:, None]).reshape(2, BLOCKS // 2, -1)
    spread = jnp.mean(jnp.var(means, axis=1, ddof=1), axis=0)
    drift = jnp.mean(means[1], axis=0) - jnp.mean(means[0], axis=0)
    t = drift**2 / jnp.where(spread > 0, spread * 4 / BLOCKS, 1)
    agrees = jnp.sqrt(jnp.mean(t)) <= _DRIFT
    ends, moved = objective.discrepancy.ends(
        objective.at(eta), objective.sample.x, jax.random.fold_in(key, 1)
    )
    sample, whole = objective.sample, dataclasses.replace(objective, ends=ends)
    loss, acceptance = whole(eta), jnp.sum(sample.zero_padding(moved)) / sample.size
    error = jnp.sqrt(jnp.sum(sample.zero_padding((whole.growth(eta) - loss) ** 2))) / sample.size
    code = jnp.where((code == status.FINISHED) & agrees, status.CONVERGED, code)
    code = jnp.where(acceptance == 0, status.REJECTED, code)
    code = jnp.where(_has_left_range(objective, eta), status.RUNAWAY, code)
    long = jnp.mean((blocks / counts[:, None]).reshape(BLOCKS // 4, 4, -1), axis=1)
    jitter = jnp.std(long, axis=0, ddof=1) / jnp.sqrt(BLOCKS / 4)
    return code, loss, Chains(jitter, error, acceptance)


def _has_left_range(objective: ChainObjective, eta: Theta) -> Array:
    """Whether the probability ratios of a discrete model have overflowed."""
    if not space_of(objective.model).discrete:
        return jnp.asarray(False)
    return jnp.any(jnp.abs(eta - to_real(objective.model)) > _LOG_RATIO)


_LOG_RATIO = 1e3
"""How far a parameter may move, in units of the logarithm of a ratio of probabilities."""

_DRIFT = 5.0
"""How far the halves may be apart, in root mean square over the parameters, in standard errors as
if blocks were independent. They are not quite, so three or four is not rare; a steady drift
gives eight.
"""
