"""Solvers by name: `ms.fit(model, x, solver="lbfgs")`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from .._text import find_name, wrong_kind
from .._types import Array, LogDensity
from ..data.rows import AbstractRows
from ..discrepancies.base import AbstractDiscrepancy
from ..discrepancies.methods import Method
from . import (
    LBFGS,
    SGD,
    AbstractSolver,
    ClosedForm,
    DirectSearch,
    GaussNewton,
    QuasiNewton,
    RiemannianSGD,
)

SOLVERS: dict[str, Callable[[], AbstractSolver]] = {
    "gauss-newton": GaussNewton,
    "lbfgs": LBFGS,
    "closed-form": ClosedForm,
    "direct-search": DirectSearch,
    "sgd": SGD,
    "riemannian-sgd": RiemannianSGD,
}


def falling(t: Array) -> Array:
    """Steps that fall as t^(−2/3) down to a twentieth, below which averaging removes the noise."""
    return jnp.maximum(0.2 / (1 + t / 20) ** (2 / 3), 0.05)


_DEFAULTS: dict[Method, Callable[[], AbstractSolver]] = {
    Method.CLOSED_FORM: ClosedForm,
    Method.GAUSS_NEWTON: GaussNewton,
    Method.QUASI_NEWTON: QuasiNewton,
    Method.LBFGS: LBFGS,
    Method.DIRECT_SEARCH: DirectSearch,
    Method.RIEMANNIAN_SGD: lambda: RiemannianSGD(step=falling, steps=500, batch=1000, average=0.5),
    Method.SGD: lambda: SGD(steps=2000, average=0.5),
}


def choose_solver(
    given: Any, discrepancy: AbstractDiscrepancy, model: LogDensity, x: AbstractRows
) -> AbstractSolver:
    """Return the solver that was given, or the one that the discrepancy takes by default."""
    if given is None:
        return _DEFAULTS[discrepancy.default_solver(model, x)]()
    return as_solver(given)


def as_solver(given: Any) -> AbstractSolver:
    """Convert the name of a solver to a solver; a solver is returned unchanged."""
    if isinstance(given, str):
        return SOLVERS[find_name("solver", given, SOLVERS)]()
    if not isinstance(given, AbstractSolver):
        raise wrong_kind("solver", given, "ms.GaussNewton()", SOLVERS)
    return given
