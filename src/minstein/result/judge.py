"""Checks of a finished fit: its pilot, the edges of the support, and the density at the data."""

import dataclasses
import warnings

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import LogDensity, is_traced
from ..data.rows import AbstractRows, Data
from ..discrepancies.stein_class import boundary_messages
from ..discrepancies.support import edge_notes
from ..solvers import status
from ..stein.diagnose import density_problem
from .fitted import Fit


def finish(fit: Fit, start: LogDensity, x: AbstractRows, *, is_ours: bool) -> Fit:
    """Return the fit with all that is to be said of it: of edges, if the diffusion is ours, and of
    observations that are impossible under it.
    """
    if is_ours:
        fit = note(fit, *edge_notes(fit.discrepancy.box))
    return check_density(note_boundary(fit, start, x.at_hand), x)


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
