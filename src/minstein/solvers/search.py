"""From an objective and starts to an estimate: search, choose, look at the Hessian, compute the
covariance.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import Array, Scalar, Theta, is_traced
from ..data.compiling import compiled
from ..params import from_real, reach, theta
from ..stein.tangents import MANY
from . import AbstractIterative, AbstractSolver, Candidates, Chains, kinks, status
from ._units import spread
from .kinks import Axes, axes_at
from .objective import AbstractObjective
from .sandwich import parameters_used, sandwich
from .starts import Starts


class Ends(NamedTuple):
    """Where the search from each start ended, on the natural scale."""

    theta: Float[Array, "k p"]
    value: Float[Array, " k"]
    status: Int[Array, " k"]


class Outcome(NamedTuple):
    """The end of a search, judged.

    `as_v` says that the V-statistic had to stand in for the U-statistic; `used` is how many parameters the equation of
    each estimate involves, known with the covariance.
    """

    theta: Float[Array, " p"]
    value: Scalar
    status: Int[Array, ""]
    steps: Int[Array, ""]
    condition: Scalar
    cov: Float[Array, "p p"] | None
    trace: Float[Array, " t"]
    as_v: Bool[Array, ""]
    chains: Chains | None
    ends: Ends
    used: Float[Array, " p"] | None = None


def searched(
    target: AbstractObjective,
    solver: AbstractSolver,
    starts: Starts,
    key: Any,
    covariance: bool,
    progress: bool | None,
) -> Outcome:
    """Search, judge, and search again with the V-statistic where the U-statistic has no minimum."""
    if solver.extra_starts:
        key, fresh = jax.random.split(key)
        more = _random_starts(target, jnp.asarray(starts.certain[-1]), fresh, solver.extra_starts)
        starts = starts._replace(certain=jnp.concatenate([more, starts.certain]))
    p = starts.certain.shape[1]

    def attempt(target: AbstractObjective) -> Outcome:
        found, certain = _find(target, solver, starts, key, progress), len(starts.certain)
        decisive = (certain - starts.decisive, certain)
        cheap = p <= MANY and solver.keeps and not target.is_laborious(p)
        look = covariance or (cheap and not target.discrepancy.irregular)
        looking, traced = solver.looking, is_traced((target, found))
        later = looking is not None and not traced and kinks.can_look(target, looking, p)
        outcome, axes = _judged(
            target,
            found,
            decisive,
            covariance,
            solver.slack,
            solver.polishes,
            look,
            solver.depends_on_start and not later,
        )
        if looking is None or not later:
            return outcome
        return _without_kinks(target, looking, outcome, axes, starts.count)

    outcome = attempt(target)
    v_statistic = target.as_v()
    if v_statistic is None:
        return outcome
    as_v = lambda: attempt(v_statistic)._replace(as_v=jnp.asarray(True))
    failed = ~jnp.isin(outcome.status, jnp.asarray([status.CONVERGED, status.FINISHED]))
    choose = lambda other: jax.tree.map(
        lambda a, b: jnp.where(other.status == status.CONVERGED, a, b), other, outcome
    )
    if is_traced(outcome):
        return jax.lax.cond(failed, lambda: choose(as_v()), lambda: outcome)
    return choose(as_v()) if bool(failed) else outcome


@compiled
def _random_starts(
    target: AbstractObjective, eta: Theta, key: Any, count: int
) -> Float[Array, "k p"]:
    """Starts that are scattered around another by twice the spread of a single observation."""
    unit = spread(target, eta, target.jet(eta))
    return eta + 2 * unit * jax.random.normal(key, (count, eta.size), eta.dtype)


def _find(
    target: AbstractObjective,
    solver: AbstractSolver,
    starts: Starts,
    key: Any,
    progress: bool | None,
) -> Candidates:
    """Search from the certain starts and, if there is a design, from its points of lowest loss."""
    looking = solver.looking
    if looking is None or not len(starts.scattered):
        return solver.search(target, starts.certain, key, progress)
    starts = starts._replace(
        **{name: np.asarray(getattr(starts, name)) for name in ("certain", "placed", "scattered")}
    )
    certain, others = len(starts.certain), len(starts.placed)
    base = starts.certain[-1]
    etas = np.concatenate([starts.certain, starts.placed, base + 0 * starts.scattered])
    order = np.arange(len(etas))
    first, spreads = looking.look(target, etas, order[: certain + others])
    unit = spreads()[certain - 1]
    unit = np.where(np.isfinite(unit), unit, 1)
    unit = np.where(np.isfinite(reach(target.model)), np.minimum(unit, 1), unit)
    etas[certain + others :] += unit * starts.scattered
    second = looking.look(target, etas, order[certain + others :]).value
    value = np.where(order < certain + others, first, second)
    placed, scattered = order[certain : certain + others], order[certain + others :]
    best = [
        *_lowest(etas, value, unit, placed, _PLACED),
        *_lowest(etas, value, unit, scattered, _SCATTERED),
    ]
    return looking.search_among(target, etas, np.array([*range(certain), *best]), progress)


_PLACED, _SCATTERED = 3, 1
"""Points of the design that are searched from: with locations on the data, and anywhere, where a
low loss says less.
"""


def _lowest(
    etas: Float[np.ndarray, "m p"],
    value: Float[np.ndarray, " m"],
    unit: Float[np.ndarray, " p"],
    rows: Int[np.ndarray, " r"],
    count: int,
) -> list[int]:
    """The rows of lowest loss, those first that are half a spread or more from all better ones."""
    apart, close = [], []
    for row in rows[np.argsort(np.where(np.isfinite(value), value, np.inf)[rows], kind="stable")]:
        new = (np.abs(etas[row] - etas[apart]) > unit / 2).any(axis=1).all()
        (apart if new else close).append(int(row))
    return [*apart, *close][:count]


@compiled
def _judged(
    target: AbstractObjective,
    candidates: Candidates,
    decisive: tuple[int, int],
    covariance: bool,
    slack: float | None,
    polish: bool,
    look: bool,
    doubt: bool,
) -> tuple[Outcome, Axes | None]:
    """The winner, its shape if one is to look at it, and its covariance; NaN if that is in doubt
    and the loss does not rise as it says.
    """
    best = _winner(candidates, decisive)
    code = candidates.status[best]
    value, steps, trace = candidates.value[best], candidates.steps[best], candidates.trace[best]
    vector = theta(from_real(target.model, candidates.eta[best]))
    condition, cov, used, axes = candidates.condition[best], None, None, None
    chains = jax.tree.map(lambda part: part[best], candidates.chains)
    if look:
        natural = dataclasses.replace(target, natural=True)
        second = natural.second(vector)
        shape, condition = _shape(second.hessian)
        if slack is not None:
            code = jnp.where(code == status.CONVERGED, shape, code)
        if covariance:
            cov, newton = sandwich(second, target.sample.size)
            used = parameters_used(second.hessian)
            if polish:
                vector, value, newton = _polished(
                    natural, vector, value, second.hessian, newton, cov
                )
            if slack is not None:
                code = _arrived(code, shape, newton, cov, slack)
            there = (code == status.CONVERGED) & (shape == status.CONVERGED)
            if slack is None:
                there &= _is_quadratic(natural, vector, second.hessian, cov)
            cov = jnp.where(there, cov, jnp.nan)
            axes = axes_at(target, candidates.eta[best], second.hessian, cov)
            if doubt and slack is not None:
                told = kinks.rises_as_told(target, axes, second.hessian)
                cov = jnp.where(told, cov, jnp.nan)
    thetas = jax.vmap(lambda eta: theta(from_real(target.model, eta)))(candidates.eta)
    ends = Ends(thetas, candidates.value, candidates.status)
    outcome = Outcome(
        vector, value, code, steps, condition, cov, trace, jnp.asarray(False), chains, ends, used
    )
    return outcome, axes


def _without_kinks(
    target: AbstractObjective,
    solver: AbstractIterative,
    outcome: Outcome,
    axes: Axes | None,
    rows: int,
) -> Outcome:
    """The outcome with standard errors from differences if the loss has kinks; stalled if it is
    lower nearby.
    """
    cov = outcome.cov
    if axes is None or cov is None or not np.isfinite(cov).all():
        return outcome
    cov, lower = kinks.look_again(
        target, solver, outcome.theta, float(outcome.value), cov, axes, rows
    )
    return outcome._replace(
        cov=cov, status=jnp.asarray(status.STALLED) if lower else outcome.status
    )


def _winner(candidates: Candidates, decisive: tuple[int, int]) -> Int[Array, ""]:
    """The candidate of lowest loss, converged or not; of those that tie except for rounding, the
    first converged one.

    A decisive start that went lower without an end thus gives the status: the minimum that another
    found is not the lowest. Others count only if they converged: far from all data many losses are
    flat and low.
    """
    reached = jnp.min(jnp.where(jnp.isfinite(candidates.trace), candidates.trace, jnp.inf), axis=1)
    value = jnp.where(jnp.isfinite(candidates.value), candidates.value, reached)
    done = jnp.isin(candidates.status, jnp.asarray([status.CONVERGED, status.FINISHED]))
    rows = jnp.arange(value.size)
    value = jnp.where(done | ((rows >= decisive[0]) & (rows < decisive[1])), value, jnp.inf)
    lowest = jnp.min(value)
    ties = value <= lowest + _SAME * jnp.abs(lowest)
    return jnp.where(jnp.any(ties & done), jnp.argmax(ties & done), jnp.argmax(ties))


_SAME = 1e-10
"""Losses that differ by less, relatively, are of one minimum."""


def _shape(H: Float[Array, "p p"]) -> tuple[Int[Array, ""], Scalar]:
    """Whether a Hessian is that of a minimum, as a status, and its condition number with its
    diagonal scaled to one.
    """
    unit = jnp.sqrt(jnp.abs(jnp.diagonal(H)))
    unit = jnp.where(unit > 0, unit, 1)
    w = jnp.linalg.eigvalsh(H / unit[:, None] / unit)
    flat = 10 * w.size * jnp.finfo(w.dtype).eps
    code = jnp.where(
        w[0] < -flat, status.SADDLE, jnp.where(w[0] > flat, status.CONVERGED, status.SINGULAR)
    )
    return code, jnp.where(w[0] > 0, w[-1] / w[0], jnp.inf)


def _polished(
    target: AbstractObjective,
    vector: Theta,
    value: Scalar,
    H: Float[Array, "p p"],
    newton: Theta,
    cov: Array,
) -> tuple[Theta, Scalar, Theta]:
    """The vector after Newton steps with a known Hessian, its loss, and the step that is left.

    A step is taken if it is short and the next is shorter.
    """
    size = lambda step: jnp.max(jnp.abs(step) / jnp.sqrt(jnp.diagonal(cov)))

    def body(step: Array, now: tuple) -> tuple:
        vector, _, newton = now
        there, gradient = jax.value_and_grad(target)(vector + newton)
        left = -jnp.linalg.solve(H, gradient)
        better = (size(newton) <= _IN_REACH) & (size(left) < size(newton))
        return jax.tree.map(
            lambda new, old: jnp.where(better, new, old), (vector + newton, there, left), now
        )

    return jax.lax.fori_loop(0, _POLISH, body, (vector, value, newton))


_IN_REACH, _POLISH = 1.0, 3
"""Standard errors up to which a Newton step is taken, as a descent that ends farther away has not
done its work; and how many, each of which leaves a tenth or less of the way.
"""


def _is_quadratic(
    target: AbstractObjective, vector: Theta, H: Float[Array, "p p"], cov: Float[Array, "p p"]
) -> Array:
    """Whether the loss rises a standard error away as its Hessian says; where it has jumps or kinks
    it does not.
    """
    steps = jnp.diag(jnp.sqrt(jnp.diagonal(cov)))
    values = jax.lax.map(target, jnp.concatenate([vector + steps, vector - steps]))
    rise = jnp.mean(values.reshape(2, -1), axis=0) - target(vector)
    expected = jnp.diagonal(H) * jnp.diagonal(cov) / 2
    return jnp.all(jnp.abs(rise - expected) <= expected / 2)


def _arrived(
    code: Array, shape: Array, newton: Theta, cov: Float[Array, "p p"], slack: float
) -> Int[Array, ""]:
    """The status, now that it is known how far the minimum is in standard errors."""
    near = (shape == status.CONVERGED) & jnp.all(
        jnp.abs(newton) <= slack * jnp.sqrt(jnp.diagonal(cov))
    )
    code = jnp.where((code == status.CONVERGED) & ~near, status.LIMIT, code)
    return jnp.where((code == status.FINISHED) & near, status.CONVERGED, code)
