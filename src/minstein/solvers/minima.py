"""Other minima of a loss: which starts ended there, and whether the data distinguish them from the
lowest.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .. import errors
from .._types import Array, LogDensity
from ..data.boundary import run
from ..data.sample import Sample
from ..params import names as names_of
from . import status
from .problem import Problem
from .winner import Ends, Outcome

_ELSEWHERE = 4.0
"""Points this many standard errors apart are different: two consistent estimates seldom are.
"""

_SAME = 1e-6
"""Losses whose relative difference is smaller belong to the same distribution, such as a mixture with
its components exchanged.
"""

_SURE = 2.0
"""A loss that is higher by this many standard errors is significantly higher."""


def compare(
    problem: Problem, outcome: Outcome, companion: Any
) -> tuple[Outcome, tuple[str, ...], str | None]:
    """Return the outcome, the notes, and a warning or None.

    There are no standard errors if the data do not distinguish the minimum from another one or from
    the estimate of a companion.
    """
    names, thetas = names_of(problem.model), higher(outcome).theta
    if companion is None:
        warning = unexplored(outcome, flat=problem.solver.flat)
    else:
        warning = doubt(outcome, companion)
        there = companion.theta[None]
        if companion.converged:
            thetas = np.concatenate([thetas, there[elsewhere(outcome, there)]])
    found = _find_rival(problem, outcome, thetas)
    if found is None or outcome.cov is None:
        return outcome, notes(outcome, names), warning
    without = outcome._replace(cov=np.full_like(outcome.cov, np.nan))
    return without, notes(outcome, names), found


def _find_rival(problem: Problem, outcome: Outcome, thetas: Float[Array, "k p"]) -> str | None:
    """Return the warning about a point whose loss is not significantly higher, or None."""
    known = outcome.cov is not None and np.isfinite(outcome.cov).all()
    if not known or not len(thetas) or not problem.x.is_here:
        return None
    ready = problem.discrepancy.ready(problem.model, problem.x)
    tree = (ready, np.concatenate([outcome.theta[None], thetas]))
    found = run(contrast, tree, problem.model, problem.x)
    return rival(found, thetas, outcome, names_of(problem.model))


class Contrast(NamedTuple):
    """The loss at other points minus that at the estimate, and the standard errors of the
    differences.
    """

    difference: Float[Array, " k"]
    error: Float[Array, " k"]


def contrast(tree: tuple, model: LogDensity, sample: Sample) -> Contrast | None:
    """Compare the loss at several θ with that at the first; None if the rows are not in memory."""
    discrepancy, thetas = tree
    target = discrepancy.objective(model, sample, natural=True)
    if jax.eval_shape(target.zeroth, thetas[0]) is None:
        return None
    value, rows = jax.lax.map(target.zeroth, thetas)
    rows = rows - rows[0]
    rows = sample.zero_padding_of_columns(rows - jnp.sum(rows, axis=1, keepdims=True) / sample.size)
    return Contrast((value - value[0])[1:], (jnp.sqrt(jnp.sum(rows**2, axis=1)) / sample.size)[1:])


def elsewhere(outcome: Outcome, thetas: Float[Array, "k p"]) -> Bool[np.ndarray, " k"]:
    """Which points differ from the estimate."""
    return np.asarray((np.abs(thetas - outcome.theta) > _unit(outcome)).any(axis=1))


def _unit(outcome: Outcome) -> Float[np.ndarray, " p"]:
    """The distance beyond which points differ: four standard errors or, without them, a relative
    difference of 0.001.
    """
    if outcome.cov is not None and np.isfinite(outcome.cov).all():
        return _ELSEWHERE * np.sqrt(np.diagonal(outcome.cov))
    return 1e-3 * (1 + np.abs(outcome.theta))


def unexplored(outcome: Outcome, *, flat: bool = False) -> str | None:
    """Return a warning if many starts ended in a minimum of their own, so that there may be more,
    and lower ones.

    The share of minima seen once estimates the share of starts that would find a new one (Good
    1953). If the loss is `flat`, ends with the same loss are one minimum: that of a Laplace
    location is constant between two observations.
    """
    done = outcome.ends.status == status.CONVERGED
    ends, value = outcome.ends.theta[done], outcome.ends.value[done]
    apart = (np.abs(ends[:, None] - ends) > _unit(outcome)).any(axis=2)
    if flat:
        apart &= np.abs(value[:, None] - value) > _SAME * np.abs(outcome.value)
    alone = int((apart.sum(axis=1) == len(ends) - 1).sum())
    if alone < _FEWEST or 2 * alone < len(ends):
        return None
    return _many_minima(alone, len(ends))


_FEWEST = 3
"""The fewest minima seen once for a warning; a loss with two or three minima has fewer."""


def higher(outcome: Outcome) -> Ends:
    """The other minima at which starts ended, the lowest first."""
    theta, value, code = outcome.ends
    above = value > outcome.value + _SAME * np.abs(outcome.value)
    which = np.flatnonzero((code == status.CONVERGED) & above & elsewhere(outcome, theta))
    order = which[np.argsort(value[which])]
    return Ends(theta[order], value[order], code[order])


def lower(outcome: Outcome) -> int:
    """How many starts went below the loss of the estimate without converging."""
    _, value, code = outcome.ends
    return int(
        np.sum((code != status.CONVERGED) & (value < outcome.value - _SAME * np.abs(outcome.value)))
    )


def notes(outcome: Outcome, names: tuple[str, ...]) -> tuple[str, ...]:
    """The notes of a converged fit about starts that ended elsewhere."""
    if int(outcome.status) != status.CONVERGED:
        return ()
    others, gone, starts = higher(outcome), lower(outcome), len(outcome.ends.value)
    found = ()
    if len(others.value):
        where = place(names, others.theta[0])
        found += (
            _other_minima(
                len(others.value), starts, where, float(others.value[0]), float(outcome.value)
            ),
        )
    return (*found, _lower_elsewhere(gone, starts)) if gone else found


def place(names: tuple[str, ...], theta: Float[Array, " p"]) -> str:
    """A vector of parameters as text, at most eight of them."""
    return ", ".join(
        f"{name} = {value:.4g}" for name, value in list(zip(names, theta, strict=True))[:8]
    )


def rival(
    found: Contrast | None, thetas: Float[Array, "k p"], outcome: Outcome, names: tuple[str, ...]
) -> str | None:
    """Return the warning about the first point whose loss is not significantly higher, or None.

    A loss that is equal up to rounding belongs to the same distribution.
    """
    if found is None:
        return None
    difference, error = np.asarray(found.difference), np.asarray(found.error)
    close = (difference < _SURE * error) & (np.abs(difference) > _SAME * np.abs(outcome.value))
    if not close.any():
        return None
    first = int(np.argmax(close))
    return _another_minimum(
        place(names, thetas[first]), float(difference[first]), float(error[first])
    )


def doubt(outcome: Outcome, flow: Any) -> str | None:
    """Return the warning if the estimate is far from that by minimum probability flow, or if the
    latter does not exist; else None.
    """
    if not flow.converged:
        return _no_flow()
    if outcome.cov is None or flow.cov is None:
        return None
    here, there = np.sqrt(np.diagonal(outcome.cov)), np.sqrt(np.diagonal(np.asarray(flow.cov)))
    apart = np.abs(outcome.theta - flow.theta) / np.hypot(here, there)
    if not (apart > _ELSEWHERE).any():
        return None
    j = int(np.nanargmax(apart))
    return _flow_disagrees(
        flow.names[j],
        float(outcome.theta[j]),
        float(here[j]),
        float(flow.theta[j]),
        float(there[j]),
    )


@errors.explained("fitting.md")
def _other_minima(count: int, starts: int, where: str, loss: float, lowest: float) -> str:
    return (
        f"{count} of {starts} starts ended in another minimum, with a higher loss: {where}, loss {loss:.4g} instead of "
        f"{lowest:.4g}. The lowest was taken."
    )


@errors.explained("fitting.md")
def _many_minima(alone: int, starts: int) -> str:
    return (
        f"{alone} of {starts} starts ended in a minimum of their own, so that there are probably more, and the lowest "
        "of these need not be the lowest of all. Usual cause: a scale that is held far below the spread of the data. "
        "Fit it, or give more starts: solver=ms.GaussNewton(starts=100), key=0."
    )


@errors.explained("fitting.md")
def _lower_elsewhere(count: int, starts: int) -> str:
    return (
        f"{count} of {starts} starts found a loss that is lower than at this minimum and falls without an end. That "
        "happens if the loss has no lower bound, as score matching of heavy tails has none, or if the model does not "
        "fit."
    )


@errors.explained("fitting.md")
def _another_minimum(where: str, difference: float, error: float) -> str:
    return (
        f"The loss at {where} is {difference:.3g} ± {error:.2g} higher than at the estimate, so these data cannot tell "
        "which of the two is nearer to the truth. Standard errors know of one minimum only, and none are given. More "
        "data, a narrower kernel or fewer parameters may decide."
    )


@errors.explained("fitting.md")
def _no_flow() -> str:
    return (
        "Minimum probability flow, by which the search would have begun, has no minimum on these data: states that the "
        "model needs were not observed. An estimate by another discrepancy may be far from the truth."
    )


@errors.explained("fitting.md")
def _flow_disagrees(name: str, here: float, error: float, there: float, error_there: float) -> str:
    return (
        f"The estimate {name} = {here:.3g} ± {error:.2g} disagrees with that by minimum probability flow, "
        f"{there:.3g} ± {error_there:.2g}. Either the model does not fit, or the sample is too small for one of the "
        "two: states that are rare in it have the largest weights. Try ms.PseudoLikelihood() as a third."
    )
