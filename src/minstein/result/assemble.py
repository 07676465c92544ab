"""Make a `Fit` from a problem and its minimum."""

from .._types import is_traced
from ..params import links, names, with_theta
from ..solvers.minimise import Minimum
from ..solvers.problem import Problem
from .fitted import Fit


def assemble(problem: Problem, found: Minimum) -> Fit:
    """Return the fit."""
    outcome, model = found.outcome, problem.model
    return Fit(
        model=with_theta(model, outcome.theta),
        theta=outcome.theta,
        discrepancy=found.discrepancy,
        loss=outcome.value,
        status=outcome.status,
        steps=outcome.steps,
        condition=outcome.condition,
        cov=outcome.cov,
        used=outcome.used,
        as_v=outcome.as_v,
        trace=outcome.trace if is_traced(outcome) else outcome.trace[: int(outcome.steps) + 1],
        key=problem.key,
        n=problem.x.shape[0],
        d=problem.x.shape[1],
        names=names(model),
        links=links(model),
        solver=repr(problem.solver),
        solver_kind=type(problem.solver).__name__,
        notes=found.notes,
        data=problem.x.digest(),
        rivals=found.rivals,
    )
