"""`fit`: from a model, a sample and a discrepancy to a `Fit`: read, choose, search, judge."""

import warnings
from typing import Any

from . import errors
from ._types import is_traced
from .data.checks import check_data, check_model, warn_of_single_constants
from .data.in_memory import as_rows
from .data.keys import as_key
from .data.reading import read_or_leave
from .data.rows import QUICK
from .data.spaces import space_of
from .discrepancies.names import as_discrepancy, as_goal
from .discrepancies.support import declared_space, support_of
from .models._family import starting_models
from .params import names
from .result import judge
from .result.assemble import assemble
from .result.fitted import Fit
from .solvers.minimise import minimise
from .solvers.names import choose_solver
from .solvers.problem import Problem
from .solvers.starts import FEW
from .stein.diagnose import check_possible


def fit(
    model: Any,
    x: Any,
    discrepancy: Any = None,
    *,
    goal: str | None = None,
    solver: Any = None,
    support: Any = None,
    key: Any = None,
    covariance: bool = True,
    throw: bool = True,
    progress: bool | None = None,
) -> Fit:
    """Fit a model to a sample by minimising a Stein discrepancy.

    Args:
        model: log p_θ(x) up to a constant, with values to start from.
        x: the sample, of shape (n, d), or (n,) for one variable; rows on several devices, or on
            disk by `ms.OnDisk(path)`, stay there.
        discrepancy: what to minimise, an object such as `ms.SM()` or a name: "ksd" (a V-statistic
            on standardised data), "sm", both with a diffusion that vanishes at the edges of the
            support; for discrete models "mpf", "dfd", "pseudo-likelihood", "discrete-ksd", "cd".
            None means as `goal` says.
        goal: "efficient", the default, for estimates that are nearly those of maximum likelihood;
            "robust" if distant observations shall have no influence. For discrete models "mpf".
        solver: how, an object or a name such as "lbfgs". None means the closed form if the loss is
            quadratic in θ, else `ms.GaussNewton()`, or `ms.LBFGS()` for more than 100 parameters.
        support: (low, high), numbers or shape (d,), infinite in directions without an edge. None
            means as the model declares it, or as it is found by following log p.
        key: for solvers and discrepancies that draw at random: an integer, or a key of JAX.
        covariance: whether to compute standard errors.
        throw: whether to raise if no minimum was found, or to return a `Fit` that says so.
        progress: whether to show a progress bar: None means on a terminal, after two seconds.

    >>> x = np.array([1.2, -0.3, 0.4, 2.2, 0.9, 1.7, -5.0, 0.6])
    >>> fit = ms.fit(ms.models.StudentT(0.0, 1.0, 5.0), x)
    >>> fit.converged, {name: round(value, 3) for name, value in fit.params.items()}
    (True, {'loc': 0.912, 'scale': 0.798})
    """
    check_model(model)
    x, key = read_or_leave(x, declared_space(model, support)), as_key(key)
    check_possible(model, x)
    warn_of_single_constants(model, x)

    discrepancy = as_goal(discrepancy, goal)
    is_ours = discrepancy is None or isinstance(discrepancy, str)
    edges = support_of(model, x.at_hand, support) if is_ours else None
    chosen = as_discrepancy(discrepancy, model, x, edges).simplify(model, x)
    ready, asked, solver = chosen.ready(model, x), solver, choose_solver(solver, chosen, model, x)
    solver.check(chosen, x, key)
    covariance = covariance and chosen.irregular is None
    check_data(model, x, space_of(model), covariance)
    problem = Problem(model, x, chosen, ready, solver, key, covariance, progress)
    problem.check_size()

    if chosen.pilots:
        result = _fit_after_pilots(problem, {"support": support, "solver": asked}, throw)
    else:
        result = assemble(problem, minimise(problem, _fit_companion(problem)))
    result = judge.finish(result, model, x, is_ours=is_ours)
    if throw:
        judge.check_ended(result, x)
    return result


def _fit_after_pilots(problem: Problem, options: dict[str, Any], throw: bool) -> Fit:
    """The fit by a discrepancy that uses a pilot fit, or its fallback if it is rejected."""
    for name in problem.discrepancy.pilots:
        pilot = _fit_pilot(problem, name, options["support"])
        result = _fit_from(problem, pilot, throw)
        rejection = None if is_traced(result) else result.discrepancy.rejection(result, pilot)
        if rejection is None:
            return result
        if not rejection.again:
            break
    result = _fit_as(problem, rejection.fallback, **options)
    if not result.converged and rejection.fallback != "ksd":
        result = _fit_as(problem, "ksd", **options)
    return judge.note(result, f"The efficient equations are not used, because {rejection.reason}.")


def _fit_pilot(problem: Problem, name: str, support: Any) -> Fit:
    """A pilot fit, of few rows if there are many; with a covariance if it has other minima, so that
    one learns whether the data tell them apart.
    """
    few = problem.x.few
    rows = few if is_traced(few) or len(few) <= QUICK else as_rows(few.some(QUICK))
    problem = problem._replace(x=rows, covariance=False)
    pilot = _fit_as(problem, name, support=support)
    if is_traced(pilot) or not pilot.rivals:
        return pilot
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.MinimumWarning)  # the fit by the fallback says it
        return _fit_as(problem._replace(covariance=True), name, support=support)


def _fit_from(problem: Problem, pilot: Fit, throw: bool) -> Fit:
    """The fit by a discrepancy that uses this pilot."""
    used = problem.discrepancy.after_pilot(pilot.model, problem.x)
    if throw and used.rests_on_pilot:
        judge.check_pilot(pilot)
    problem = problem._replace(discrepancy=used, ready=used.ready(problem.model, problem.x))
    return judge.judge(assemble(problem, minimise(problem)), pilot, problem.x)


def _fit_as(problem: Problem, name: str, **options: Any) -> Fit:
    """The fit of the same model to the same rows by a discrepancy of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.BoundaryWarning)  # edges are judged for the fit only
        settings = {"key": problem.key, "progress": problem.progress, "throw": False}
        covariance = problem.covariance
        return fit(problem.model, problem.x, name, covariance=covariance, **settings, **options)


def _fit_companion(problem: Problem) -> Fit | None:
    """The fit by a discrepancy that is easier to minimise, of few rows if they are on disk."""
    companion = problem.discrepancy.companion
    if companion is None:
        return None
    rows = problem.x.few
    model = starting_models(problem.model, rows)[-1]
    compares = problem.covariance and len(names(model)) <= FEW and not is_traced((model, rows))
    return fit(model, rows, companion, covariance=compares, throw=False, progress=problem.progress)
