"""`fit`: from a model, a sample and a discrepancy to a `Fit`: read, choose, search, judge."""

import warnings
from typing import Any

from . import errors
from ._types import is_traced
from .data.checks import check_data, check_model, warn_of_single_constants
from .data.keys import as_key
from .data.reading import read_or_leave
from .data.spaces import space_of
from .discrepancies.names import as_discrepancy
from .discrepancies.support import declared_space, edge_notes, support_of
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
    solver: Any = None,
    support: Any = None,
    key: Any = None,
    covariance: bool = True,
    throw: bool = True,
    progress: bool | None = None,
) -> Fit:
    """Fit a model to a sample by minimising a Stein discrepancy.

    Args:
        model: log p_θ(x) up to a constant: a family of `ms.models`, or any callable pytree. Its
            values are a start.
        x: the sample, of shape (n, d), or (n,) for one variable. Rows that are spread over devices,
            as a sharded `jax.Array` or by `ms.shard`, stay there; so do rows on disk,
            `ms.OnDisk(path)`.
        discrepancy: what to minimise, an object such as `ms.SM()` or a name: "ksd", "sm",
            "efficient", "robust"; for discrete models "mpf", "dfd", "pseudo-likelihood",
            "discrete-ksd", "cd". "ksd", as None, means KSD as a V-statistic on standardised data
            with an IMQ kernel at the median distance. "ksd" and "sm" by name have a diffusion that
            vanishes at the edges of the support. For a discrete model None means MPF. A diffusion
            `of_model` is held at a pilot fit by that default, unless it is `moving`.
        solver: how, an object or a name such as "lbfgs". None means the closed form where the loss
            is quadratic in θ, else `ms.GaussNewton()`, or `ms.LBFGS()` for more than 100 parameters
            or very much data; for contrastive divergence `ms.RiemannianSGD`, or `ms.SGD` for more
            than 100 parameters.
        support: (low, high), numbers or shape (d,), infinite in directions without an edge: where
            the density ends. None means as the model declares it, or as it is found by following
            log p from the observations.
        key: for solvers and discrepancies that draw at random: an integer, or a key of JAX.
        covariance: whether to compute standard errors.
        throw: whether to raise `NotConverged` or `SingularInformation` where no minimum was found,
            or to return a `Fit` whose `status` says so.
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

    is_ours = discrepancy is None or isinstance(discrepancy, str)
    edges = support_of(model, x.at_hand, support) if is_ours else None
    chosen = as_discrepancy(discrepancy, model, x.at_hand, edges).simplify(model, x)
    ready, solver = chosen.ready(model, x), choose_solver(solver, chosen, model, x)
    solver.check(chosen, x, key)
    covariance = covariance and chosen.irregular is None
    check_data(model, x, space_of(model), covariance)
    problem = Problem(model, x, chosen, ready, solver, key, covariance, progress)
    problem.check_size()

    if chosen.needs_pilot:
        result = _fit_after_pilot(problem, support, throw)
    else:
        found = minimise(problem, _fit_companion(problem))
        result = assemble(problem, found, edge_notes(chosen.box) if is_ours else ())

    result = judge.check_density(judge.note_boundary(result, model, x.at_hand), x)
    if discrepancy is None:
        result = judge.note_design(result, x)
    if throw:
        judge.check_ended(result, x)
    return result


def _fit_after_pilot(problem: Problem, support: Any, throw: bool) -> Fit:
    """The fit with the diffusion held at a pilot fit by the default, of few rows if they are on
    disk.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.BoundaryWarning)  # edges are judged for the fit only
        pilot = fit(
            problem.model,
            problem.x.few,
            support=support,
            key=problem.key,
            covariance=False,
            throw=False,
            progress=problem.progress,
        )
    if throw:
        judge.check_pilot(pilot)
    values = (
        "" if is_traced(pilot) else ", ".join(f"{k} = {v:.6g}" for k, v in pilot.params.items())
    )
    note = f"The diffusion is held at a pilot fit{values and ': '}{values}."
    held = problem.discrepancy.held_at(pilot.model)
    problem = problem._replace(discrepancy=held, ready=held.ready(problem.model, problem.x))
    return judge.fail_with(pilot, assemble(problem, minimise(problem), (note,)))


def _fit_companion(problem: Problem) -> Fit | None:
    """The fit by a discrepancy that is easier to minimise, of few rows if they are on disk."""
    companion = problem.discrepancy.companion
    if companion is None:
        return None
    rows = problem.x.few
    model = starting_models(problem.model, rows)[-1]
    compares = problem.covariance and len(names(model)) <= FEW and not is_traced((model, rows))
    return fit(model, rows, companion, covariance=compares, throw=False, progress=problem.progress)
