"""From an objective and starts to an estimate: search, judge, and check the standard errors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._types import Array, Theta, is_traced
from ..data.compiling import compiled
from ..discrepancies.base import AbstractObjective
from ..params import reach
from ..stein.tangents import MANY
from . import AbstractIterative, AbstractSolver, Candidates, kinks, status
from ._units import spread
from .kinks import Axes
from .starts import Starts
from .winner import Outcome, judge_winner


def search(
    target: AbstractObjective,
    solver: AbstractSolver,
    starts: Starts,
    key: Any,
    covariance: bool,
    progress: bool | None,
) -> Outcome:
    """Search and judge; search again with the V-statistic if the U-statistic has no minimum."""
    if solver.extra_starts:
        key, fresh = jax.random.split(key)
        more = _random_starts(target, jnp.asarray(starts.certain[-1]), fresh, solver.extra_starts)
        starts = starts._replace(certain=jnp.concatenate([more, starts.certain]))

    attempt = lambda target: _attempt(target, solver, starts, key, covariance, progress)
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


def _attempt(
    target: AbstractObjective,
    solver: AbstractSolver,
    starts: Starts,
    key: Any,
    covariance: bool,
    progress: bool | None,
) -> Outcome:
    """Search, judge, and check the standard errors, along each parameter if that costs little."""
    certain, p = starts.certain.shape
    found = _find(target, solver, starts, key, progress)
    cheap = p <= MANY and solver.keeps and not target.is_laborious(p)
    look = covariance or (cheap and not target.discrepancy.irregular)
    looking = None if is_traced((target, found)) else solver.looking
    if looking is not None and not kinks.can_look(target, looking, p):
        looking = None
    outcome, axes = judge_winner(
        target,
        found,
        decisive=(certain - starts.decisive, certain),
        covariance=covariance,
        slack=solver.slack,
        polish=solver.polishes,
        look=look,
        doubt=looking is None and solver.depends_on_start,
    )
    if looking is None:
        return outcome
    return _without_kinks(target, looking, outcome, axes, starts.count)


@compiled
def _random_starts(
    target: AbstractObjective, eta: Theta, key: Any, count: int
) -> Float[Array, "k p"]:
    """Random starts around another, with twice the spread of a single observation."""
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
"""The number of starts taken from the design: with locations on the data, and anywhere, where a low
loss says less.
"""


def _lowest(
    etas: Float[np.ndarray, "m p"],
    value: Float[np.ndarray, " m"],
    unit: Float[np.ndarray, " p"],
    rows: Int[np.ndarray, " r"],
    count: int,
) -> list[int]:
    """The rows of lowest loss, first those at least half a spread from all better ones."""
    apart, close = [], []
    for row in rows[np.argsort(np.where(np.isfinite(value), value, np.inf)[rows], kind="stable")]:
        new = (np.abs(etas[row] - etas[apart]) > unit / 2).any(axis=1).all()
        (apart if new else close).append(int(row))
    return [*apart, *close][:count]


def _without_kinks(
    target: AbstractObjective,
    solver: AbstractIterative,
    outcome: Outcome,
    axes: Axes | None,
    rows: int,
) -> Outcome:
    """Return the outcome with standard errors from differences if the loss has kinks, and with the
    status STALLED if the loss is lower nearby.
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
