"""Checks of a finished fit: its pilot, the edges of the support, and the density at the data."""

import dataclasses
import warnings
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import LogDensity, is_traced
from ..data.boundary import run
from ..data.rows import AbstractRows, Data
from ..data.spaces import space_of
from ..discrepancies.efficient import Efficient, information_at
from ..discrepancies.stein_class import boundary_messages
from ..discrepancies.support import edge_notes
from ..solvers import status
from ..stein.diagnose import density_problem
from .fitted import Fit


def finish(fit: Fit, start: LogDensity, x: AbstractRows, *, is_ours: bool, is_default: bool) -> Fit:
    """Return the fit with all that is to be said of it: of edges, if the diffusion is ours; of
    observations that are impossible under it; of a design, if it is by the default.
    """
    if is_ours:
        fit = note(fit, *edge_notes(fit.discrepancy.box))
    fit = check_density(note_boundary(fit, start, x.at_hand), x)
    return note_design(fit, x) if is_default else fit


def note_boundary(fit: Fit, start: LogDensity, x: Data) -> Fit:
    """Add a note, and warn, if the Stein identity has a boundary term at the fitted model; look at
    the start instead, without a warning, if the fit failed.
    """
    if is_traced(fit):
        return fit
    text = boundary_messages(fit.discrepancy, fit.model if fit.converged else start, x)
    if not text:
        return fit
    if fit.converged:
        warnings.warn(text, errors.BoundaryWarning, stacklevel=3)
    return note(fit, text)


def check_density(fit: Fit, x: AbstractRows) -> Fit:
    """Return the fit, or a failed one if some observations are impossible under it; a note names
    them.
    """
    problem = None if is_traced(fit) or not fit.converged else density_problem(fit.model, x)
    if problem is None:
        return fit
    fit = eqx.tree_at(lambda fit: fit.status, fit, np.asarray(status.OUTSIDE))
    return note(fit, str(problem))


def judge(fit: Fit, pilot: Fit, x: AbstractRows) -> Fit:
    """Return a fit from a pilot with what its discrepancy knows of it, failed if it is not a
    solution, or if it rests on a pilot that failed.
    """
    used = fit.discrepancy
    xp = jnp if is_traced((pilot, fit)) else np
    code = xp.where(used.is_solved(fit.loss, fit.n), fit.status, status.STALLED)
    if used.rests_on_pilot:
        code = xp.where(xp.asarray(pilot.status) == status.CONVERGED, code, pilot.status)
    cov = None if fit.cov is None else xp.where(code == status.CONVERGED, fit.cov, xp.nan)
    fit = dataclasses.replace(fit, status=code, cov=cov, discrepancy=used.judge(fit.model, x))
    return note(fit, *fit.discrepancy.doubts(pilot))


def note_design(fit: Fit, x: AbstractRows) -> Fit:
    """Add a note if the efficient goal would have much smaller standard errors than this fit."""
    if is_traced(fit) or not _may_be_designed(fit, x):
        return fit
    pilot: Any = fit.discrepancy
    designed = Efficient(pilot.diffusion).after_pilot(fit.model, x)
    r_squared, carried = run(information_at, designed, fit.model, x)
    if not (r_squared.min() > _SURE and np.linalg.matrix_rank(carried) == len(carried)):
        return fit
    best = np.sqrt(np.diagonal(np.linalg.inv(carried)) / len(x))
    cut = 1 - best / np.array(list(fit.bse.values()))
    if not cut.max() > _WORTH:
        return fit
    return note(fit, _design_would_help(fit.names[int(cut.argmax())], float(cut.max())))


def _may_be_designed(fit: Fit, x: AbstractRows) -> bool:
    """Whether the gain from a design can be estimated quickly, and the fit has standard errors."""
    if not x.is_here or space_of(fit.model).discrete:
        return False
    few = _ENOUGH <= len(x) <= _MOST and len(fit.names) <= _FEW
    return few and fit.converged and fit.cov is not None and bool(np.isfinite(fit.cov).all())


_ENOUGH, _MOST, _FEW, _SURE, _WORTH = 200, 100_000, 20, 0.9, 0.2
"""When a design is recommended: the fewest and the most observations, the most parameters, the least
leave-one-out R², and the least share by which a standard error is reduced.
"""


def check_pilot(pilot: Fit) -> None:
    """Raise if the fit at which a diffusion is to be held has failed."""
    if not is_traced(pilot) and not pilot.converged:
        raise _no_pilot(pilot)


def check_ended(fit: Fit, x: AbstractRows) -> None:
    """Raise if the fit found no minimum, unless JAX is tracing."""
    if is_traced(fit) or int(fit.status) in (status.CONVERGED, status.FINISHED):
        return
    if int(fit.status) == status.NOT_FINITE:
        fit.discrepancy.explain(fit.model, x, float(fit.loss))
    raise status.failure(fit)


def note(fit: Fit, *texts: str) -> Fit:
    """Return the fit with further notes."""
    new = (text for text in texts if text not in fit.notes)
    return dataclasses.replace(fit, notes=(*fit.notes, *new))


@errors.explained("fitting.md")
def _no_pilot(fit: Fit) -> errors.NotConverged:
    return errors.NotConverged(
        f"The diffusion depends on θ and is held at a pilot fit by KSD, but that fit failed: {fit.message} "
        "Hold it yourself, at a model that you trust: diffusion=lambda x: fn(model, x).",
        fit,
    )


@errors.explained("designing.md")
def _design_would_help(parameter: str, cut: float) -> str:
    return (
        f"An efficient design would cut the standard error of {parameter} by an estimated {100 * cut:.0f} %, if the "
        'model is true: goal="efficient", or --goal efficient. It is less robust to outliers.'
    )
