"""Whether a fit that was read from a file could have been saved by minstein."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import params
from ..discrepancies.base import AbstractDiscrepancy
from ..solvers import status
from .storage import Missing

_LINKS = {"identity", "log", "logit"}


def flaw(fit: Any) -> str:
    """Return what is wrong with a fit, in words, or "" if its parts agree with each other.

    Each check assumes that those before it found nothing, so only the first flaw is computed.
    """
    checks = (
        _in_texts,
        _in_numbers,
        _in_arrays,
        _in_outcome,
        _in_covariance,
        _in_discrepancy,
        _in_model,
    )
    return next((found for check in checks for found in check(fit)), "")


def _in_texts(fit: Any) -> Iterator[str]:
    """Check the fields that hold text, or tuples of texts."""
    texts = {name: getattr(fit, name) for name in ("names", "links", "notes")}
    texts |= {name: (getattr(fit, name),) for name in ("solver", "solver_kind", "data")}
    for name, parts in texts.items():
        if not isinstance(parts, tuple) or not all(isinstance(part, str) for part in parts):
            yield f"{name} is not text"
    if not fit.names or len(fit.links) != len(fit.names):
        yield f"there are {len(fit.names)} names and {len(fit.links)} links"
    if not _LINKS.issuperset(fit.links):
        yield "a link is unknown"


def _in_numbers(fit: Any) -> Iterator[str]:
    """Check the numbers of rows and columns, and the key."""
    for name in ("n", "d"):
        value = getattr(fit, name)
        if type(value) is not int or not 1 <= value < 2**63:
            text = repr(value)
            text = text if len(text) <= 40 else f"{text[:40]}…"
            yield f"{name} is {text}, not a number of rows or columns"
    is_array = isinstance(fit.key, jax.Array)
    if fit.key is not None and not (
        is_array and jnp.issubdtype(fit.key.dtype, jax.dtypes.prng_key)
    ):
        yield "the key is not a JAX key"


def _in_arrays(fit: Any) -> Iterator[str]:
    """Check the kinds of the arrays, and their shapes: those of one fit, or of replications."""
    p, r = len(fit.names), getattr(fit.loss, "shape", ())
    expected = {
        "loss": ("f", r),
        "theta": ("f", (*r, p)),
        "status": ("iu", r),
        "steps": ("iu", r),
        "condition": ("f", r),
        "as_v": ("b", r),
        "trace": ("f", (*r, np.shape(fit.trace)[-1] if np.ndim(fit.trace) else 0)),
        **({} if fit.cov is None else {"cov": ("f", (*r, p, p))}),
        **({} if fit.used is None else {"used": ("f", (*r, p))}),
    }
    for name, (kinds, shape) in expected.items():
        value = getattr(fit, name)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
            yield f"{name} is not an array of the right kind"
        elif value.shape != shape:
            yield f"{name} has shape {value.shape} instead of {shape}"


def _in_outcome(fit: Any) -> Iterator[str]:
    """Check how the search ended, and what it found."""
    if not set(np.unique(fit.status).tolist()) <= set(status.MEANING):
        yield "its status is unknown"
    if (fit.steps < 0).any():
        yield "its number of steps is negative"
    found = fit.status == status.CONVERGED
    if not (np.isfinite(fit.theta).all(-1) & np.isfinite(fit.loss))[found].all():
        yield "it converged, but the estimates or the loss are not finite"


def _in_covariance(fit: Any) -> Iterator[str]:
    """Check that the covariance is symmetric, to half of its digits, and no variance negative."""
    if fit.cov is None:
        return
    variances = np.diagonal(fit.cov, axis1=-2, axis2=-1)
    if (variances < 0).any():
        yield "a variance is negative"
    known = np.isfinite(fit.cov).all((-2, -1))
    cov, errors = fit.cov[known], np.sqrt(variances[known])
    half = np.sqrt(np.finfo(fit.cov.dtype).eps)
    products = errors[..., :, None] * errors[..., None, :]
    if not (np.abs(cov - np.swapaxes(cov, -1, -2)) <= half * products).all():
        yield "the covariance is not symmetric"
    if not (np.abs(cov) <= (1 + half) * products).all():
        yield "a covariance is larger than its variances allow"


def _in_discrepancy(fit: Any) -> Iterator[str]:
    """Check that the discrepancy is one, and can be described."""
    if not isinstance(fit.discrepancy, AbstractDiscrepancy | Missing):
        yield "the discrepancy is something else"
    try:
        _ = repr(fit.discrepancy), fit.discrepancy.kind, fit.discrepancy.facts()
    except Exception:  # each class fails in its own way on values that it does not expect
        yield "the discrepancy holds values that it cannot have"


def _in_model(fit: Any) -> Iterator[str]:
    """Check that the model is at the estimates, unless its code is not in the file or there are
    replications.
    """
    if not callable(fit.model):
        yield "the model is something else"
    if isinstance(fit.model, Missing) or np.ndim(fit.loss):
        return
    try:
        repr(fit.model)
        names, links = params.names(fit.model), params.links(fit.model)
        theta = np.asarray(params.theta(fit.model), fit.theta.dtype)
    except Exception:  # each class fails in its own way on values that it does not expect
        yield "the model holds values that it cannot have"
        return
    if names != fit.names or links != fit.links:
        yield "the model has other parameters than the fit"
    if not np.array_equal(theta, fit.theta, equal_nan=True):
        yield "the model is at other values than the fit"
