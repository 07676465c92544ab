"""From an objective and starts to an estimate: search, choose, look at the Hessian, compute the covariance."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from . import status
from ._types import Array, Scalar, Theta, is_traced
from .inference import sandwich
from .objective import AbstractObjective, PairObjective, PlainObjective, TablePairs
from .params import from_real, theta
from .solvers import AbstractSolver, Candidates, Chains
from .solvers._units import spread

MANY = 100
"""Parameters above which no p×p matrix is made unless a covariance is asked for."""


class Outcome(NamedTuple):
    """The end of a search, judged; `as_v` says that the V-statistic had to stand in for the U-statistic."""

    theta: Float[Array, " p"]
    value: Scalar
    status: Int[Array, ""]
    steps: Int[Array, ""]
    condition: Scalar
    cov: Float[Array, "p p"] | None
    trace: Float[Array, " t"]
    as_v: Bool[Array, ""]
    chains: Chains | None


def searched(
    target: AbstractObjective,
    solver: AbstractSolver,
    etas: Float[Array, "k p"],
    key: Any,
    covariance: bool,
    progress: bool | None,
) -> Outcome:
    """Search, judge, and search again with the V-statistic where the U-statistic has no minimum."""
    if solver.extra_starts:
        key, fresh = jax.random.split(key)
        etas = _with_random_starts(target, etas, fresh, solver.extra_starts)

    def attempt(target: AbstractObjective) -> Outcome:
        found = solver.search(target, etas, key, progress)
        cheap = etas.shape[1] <= MANY and solver.keeps and not target.is_laborious(etas.shape[1])
        look = covariance or (cheap and not target.discrepancy.irregular)
        return _judged(target, found, covariance, solver.slack, look)

    outcome = attempt(target)
    if not isinstance(target, PairObjective | PlainObjective | TablePairs) or not target.discrepancy.unbiased:
        return outcome
    v_statistic = dataclasses.replace(target, diagonal=jnp.ones_like(target.diagonal))
    as_v = lambda: attempt(v_statistic)._replace(as_v=jnp.asarray(True))
    failed = ~jnp.isin(outcome.status, jnp.asarray([status.CONVERGED, status.FINISHED]))
    choose = lambda other: jax.tree.map(lambda a, b: jnp.where(other.status == status.CONVERGED, a, b), other, outcome)
    if is_traced(outcome):
        return jax.lax.cond(failed, lambda: choose(as_v()), lambda: outcome)
    return choose(as_v()) if bool(failed) else outcome


@eqx.filter_jit
def _with_random_starts(target: AbstractObjective, etas: Array, key: Any, count: int) -> Float[Array, "k p"]:
    """More starts, scattered around the last by twice the spread of a single observation."""
    unit = spread(target, etas[-1], target.jet(etas[-1]))
    return jnp.concatenate([etas, etas[-1] + 2 * unit * jax.random.normal(key, (count, etas.shape[1]), etas.dtype)])


@eqx.filter_jit
def _judged(
    target: AbstractObjective, candidates: Candidates, covariance: bool, slack: float | None, look: bool
) -> Outcome:
    """The winner, its shape if one is to look at it, and its covariance."""
    best, code = _winner(candidates)
    value, steps, trace = candidates.value[best], candidates.steps[best], candidates.trace[best]
    vector = theta(from_real(target.model, candidates.eta[best]))
    condition, cov = candidates.condition[best], None
    chains = jax.tree.map(lambda part: part[best], candidates.chains)
    if look:
        natural = dataclasses.replace(target, natural=True)
        second = natural.second(vector)
        shape, condition = _shape(second.hessian)
        if slack is not None:
            code = jnp.where(code == status.CONVERGED, shape, code)
        if covariance:
            cov, newton = sandwich(second, target.sample.size)
            if slack is not None:
                code = _arrived(code, shape, newton, cov, slack)
            there = (code == status.CONVERGED) & (shape == status.CONVERGED)
            if slack is None:
                there &= _is_quadratic(natural, vector, second.hessian, cov)
            cov = jnp.where(there, cov, jnp.nan)
    return Outcome(vector, value, code, steps, condition, cov, trace, jnp.asarray(False), chains)


def _winner(candidates: Candidates) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The converged candidate of lowest loss, or the lowest at all; one that ran away to a lower loss still tells."""
    value = jnp.where(jnp.isfinite(candidates.value), candidates.value, jnp.inf)
    done = jnp.isin(candidates.status, jnp.asarray([status.CONVERGED, status.FINISHED]))
    value_of_done = jnp.where(jnp.any(done), jnp.where(done, value, jnp.inf), value)
    lowest = jnp.min(value_of_done)
    best = jnp.argmax(value_of_done <= lowest + _SAME * jnp.abs(lowest))  # the first of those that tie but for rounding
    gone = jnp.where(candidates.status == status.RUNAWAY, value, jnp.inf)
    return best, jnp.where(jnp.min(gone) < value[best], status.RUNAWAY, candidates.status[best])


_SAME = 1e-10
"""Losses that differ by less, relatively, are of one minimum."""


def _shape(H: Float[Array, "p p"]) -> tuple[Int[Array, ""], Scalar]:
    """Whether a Hessian is that of a minimum, as a status, and its condition number with its diagonal scaled to one."""
    unit = jnp.sqrt(jnp.abs(jnp.diagonal(H)))
    unit = jnp.where(unit > 0, unit, 1)
    w = jnp.linalg.eigvalsh(H / unit[:, None] / unit)
    flat = 10 * w.size * jnp.finfo(w.dtype).eps
    code = jnp.where(w[0] < -flat, status.SADDLE, jnp.where(w[0] > flat, status.CONVERGED, status.SINGULAR))
    return code, jnp.where(w[0] > 0, w[-1] / w[0], jnp.inf)


def _is_quadratic(target: AbstractObjective, vector: Theta, H: Float[Array, "p p"], cov: Float[Array, "p p"]) -> Array:
    """Whether the loss rises a standard error away as its Hessian says; where it has jumps or kinks it does not."""
    steps = jnp.diag(jnp.sqrt(jnp.diagonal(cov)))
    values = jax.lax.map(target, jnp.concatenate([vector + steps, vector - steps]))
    rise = jnp.mean(values.reshape(2, -1), axis=0) - target(vector)
    expected = jnp.diagonal(H) * jnp.diagonal(cov) / 2
    return jnp.all(jnp.abs(rise - expected) <= expected / 2)


def _arrived(code: Array, shape: Array, newton: Theta, cov: Float[Array, "p p"], slack: float) -> Int[Array, ""]:
    """The status, now that it is known how far the minimum is in standard errors."""
    near = (shape == status.CONVERGED) & jnp.all(jnp.abs(newton) <= slack * jnp.sqrt(jnp.diagonal(cov)))
    code = jnp.where((code == status.CONVERGED) & ~near, status.LIMIT, code)
    return jnp.where((code == status.FINISHED) & near, status.CONVERGED, code)
