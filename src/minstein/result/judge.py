"""Checks of a finished fit: the edges of the support, the density at the data, and whether a design
would do better.
"""

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
from ..data.sample import Sample
from ..data.spaces import space_of
from ..discrepancies.score_regression import Features, basis_on, features_at, learn
from ..discrepancies.stein_class import boundary_messages
from ..params import to_real
from ..solvers import status
from ..stein.diagnose import density_problem
from .fitted import Fit


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
    return _note(fit, text)


def check_density(fit: Fit, x: AbstractRows) -> Fit:
    """Return the fit, or a failed one if some observations are impossible under it; a note names
    them.
    """
    problem = None if is_traced(fit) or not fit.converged else density_problem(fit.model, x)
    if problem is None:
        return fit
    fit = eqx.tree_at(lambda fit: fit.status, fit, np.asarray(status.OUTSIDE))
    return _note(fit, str(problem))


def note_design(fit: Fit, x: AbstractRows) -> Fit:
    """Add a note if a design would have much smaller standard errors than this fit by the default."""
    if is_traced(fit) or not _may_be_designed(fit, x):
        return fit
    pilot: Any = fit.discrepancy
    found = learn(run(_features, (pilot, basis_on(x, pilot)), fit.model, x))
    cut = 1 - found.standard_errors(len(x)) / np.array(list(fit.bse.values()))
    if not (found.r_squared.min() > _SURE and cut.max() > _WORTH):
        return fit
    return _note(fit, _design_would_help(fit.names[int(cut.argmax())], float(cut.max())))


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


def _features(tree: tuple, model: LogDensity, sample: Sample) -> Features:
    pilot, basis = tree
    return features_at(pilot, basis, model, sample, to_real(model))


def fail_with(pilot: Fit, fit: Fit) -> Fit:
    """Return the fit, or a failed one if the pilot at which its diffusion is held has failed."""
    xp = jnp if is_traced((pilot, fit)) else np
    code = xp.where(xp.asarray(pilot.status) == status.CONVERGED, fit.status, pilot.status)
    fit = eqx.tree_at(lambda fit: fit.status, fit, code)
    if fit.cov is None:
        return fit
    cov = xp.where(code == status.CONVERGED, fit.cov, xp.nan)
    return eqx.tree_at(lambda fit: fit.cov, fit, cov)


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


def _note(fit: Fit, text: str) -> Fit:
    return dataclasses.replace(fit, notes=(*fit.notes, text))


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
        "model is true: ms.design(model, x), or --goal efficient. It is less robust to outliers."
    )
