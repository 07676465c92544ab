"""From a problem to its minimum: the starts, the search, and the notes about it."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity, is_traced
from ..data.boundary import at_boundary, run
from ..data.compiling import compiled
from ..data.sample import AnySample, Sample
from ..discrepancies.base import AbstractDiscrepancy, AbstractObjective
from ..params import to_real, with_theta
from . import AbstractSolver, minima, status
from .problem import Problem
from .search import search
from .starts import certain_starts, starts_around
from .winner import Outcome


class Minimum(NamedTuple):
    """The result of a search, the discrepancy that was minimised, and the notes."""

    outcome: Outcome
    discrepancy: AbstractDiscrepancy
    notes: tuple[str, ...]
    rivals: int = 0
    """Other minima at which starts ended."""


def minimise(problem: Problem, companion: Any = None) -> Minimum:
    """Minimise, and compare the result with other minima and with the fit by a companion, if any."""
    from_few = problem.x.reads_from_disk
    solver, etas = (_start_from_few_rows if from_few else _start)(problem, companion)
    outcome = _search(problem, solver, etas)
    discrepancy, notes = _statistic(problem.discrepancy, outcome)
    rivals = 0
    if not is_traced((outcome, problem.x)):
        problem = problem._replace(discrepancy=discrepancy)
        rivals = len(minima.higher(outcome).value)
        outcome, found, doubt = minima.compare(problem, outcome, companion)
        notes += found
        if doubt and int(outcome.status) == status.CONVERGED:
            warnings.warn(doubt, errors.MinimumWarning, stacklevel=3)
        notes += (doubt,) if doubt else ()
    notes += problem.ready.notes(problem.x) + problem.x.notes + _chain_notes(outcome)
    irregular = discrepancy.irregular
    notes = (*notes, irregular) if irregular else notes
    return Minimum(outcome, discrepancy, notes, rivals)


def _search(problem: Problem, solver: AbstractSolver, etas: Float[Array, "k p"]) -> Outcome:
    def drive(tree: tuple, model: LogDensity, sample: AnySample) -> Outcome:
        discrepancy, solver, starts = tree
        target = _objective(discrepancy, model, sample, solver.keeps)
        return search(target, solver, starts, problem.key, problem.covariance, problem.progress)

    tree = (problem.ready, solver, starts_around(problem, etas))
    return at_boundary(drive, tree, problem.model, problem.x)


@compiled
def _objective(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample, keep: bool
) -> AbstractObjective:
    return discrepancy.objective(model, sample, keep=keep)


def _start(problem: Problem, companion: Any) -> tuple[AbstractSolver, Float[Array, "k p"]]:
    return problem.solver, certain_starts(problem, companion)


def _start_from_few_rows(
    problem: Problem, companion: Any
) -> tuple[AbstractSolver, Float[Array, "k p"]]:
    """Return the solver and its start, the minimum of a few rows, so that all rows are read only a
    few times.
    """
    solver, rows = problem.solver, problem.x.few
    few = problem._replace(x=rows, covariance=False, solver=solver.for_few_rows)
    if not solver.depends_on_start:
        return solver, certain_starts(few, companion)
    few = few._replace(ready=problem.discrepancy.ready(problem.model, rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.StatisticWarning)
        outcome = minimise(few, companion).outcome
    if int(outcome.status) != status.CONVERGED or outcome.as_v:
        return solver, certain_starts(few, companion)
    found = with_theta(problem.model, outcome.theta)

    def curvature() -> tuple[Array, Array]:
        hessian, noise = run(_curvature, few.ready, found, rows)
        return hessian, np.asarray(noise * len(rows) / len(problem.x))

    return solver.prepare(curvature), np.stack([to_real(found)])


def _curvature(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: Sample
) -> tuple[Array, Array]:
    """The Hessian in η, and the noise of the loss."""
    target, eta = discrepancy.objective(model, sample), to_real(model)
    return target.second(eta).hessian, target.jet(eta).noise


def _statistic(
    discrepancy: AbstractDiscrepancy, outcome: Outcome
) -> tuple[AbstractDiscrepancy, tuple[str, ...]]:
    """Return the discrepancy that was used; warn and add a note if it is the V-statistic instead of
    the U-statistic.
    """
    if is_traced(outcome) or not outcome.as_v:
        return discrepancy, ()
    warnings.warn(_not_convex(), errors.StatisticWarning, stacklevel=4)
    return discrepancy.as_v(), (_not_convex(),)


def _chain_notes(outcome: Outcome) -> tuple[str, ...]:
    """The note of a fit by Markov chains about their noise."""
    if outcome.chains is None or is_traced(outcome):
        return ()
    jitter, error, moved = outcome.chains
    return (
        f"The chain moved in {100 * float(moved):.3g} % of its steps. "
        f"Monte-Carlo errors: {float(error):.2g} of the loss, at most {float(np.max(jitter)):.2g} of a parameter on "
        "its unconstrained scale.",
    )


@errors.explained("fitting.md")
def _not_convex() -> str:
    return (
        "The U-statistic of this sample has no minimum near the data (it is not convex), so the V-statistic was "
        "minimised instead. Ask for it with unbiased=False to be without this warning."
    )
