"""Whether a fit that was read from a file is one that could have been saved."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import params
from ..discrepancies.base import AbstractDiscrepancy
from ..solvers import status
from .storage import Missing

_LINKS = ("identity", "log", "logit")


def flaw(fit: Any) -> str:
    """Return what is wrong with a fit, in words, or nothing if its parts agree with each other."""
    checks = (_facts, _arrays, _ending, _covariance, _discrepancy, _model)
    return next(filter(None, (check(fit) for check in checks)), "")


def _facts(fit: Any) -> str:
    """The fields that are not arrays."""
    if flaw := _counts(fit) or _texts(fit):
        return flaw
    if not fit.names or len(fit.links) != len(fit.names):
        return f"there are {len(fit.names)} names and {len(fit.links)} links"
    if not set(fit.links) <= set(_LINKS):
        return "a link is unknown"
    if not (fit.key is None or _is_key(fit.key)):
        return "the key is not a key of JAX"
    return ""


def _counts(fit: Any) -> str:
    """The numbers of rows and columns."""
    for name in ("n", "d"):
        value = getattr(fit, name)
        if type(value) is not int or not 1 <= value < 2**63:
            return f"{name} is {_short(value)}, not a number of rows or columns"
    return ""


def _texts(fit: Any) -> str:
    """The fields that hold text, or tuples of texts."""
    texts = {name: getattr(fit, name) for name in ("names", "links", "notes")}
    texts |= {name: (getattr(fit, name),) for name in ("solver", "solver_kind", "data")}
    for name, parts in texts.items():
        if not isinstance(parts, tuple) or not all(isinstance(part, str) for part in parts):
            return f"{name} is not text"
    return ""


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _arrays(fit: Any) -> str:
    """The kinds of the arrays, and their shapes: those of one fit, or of replications."""
    p, r = len(fit.names), np.shape(fit.loss) if isinstance(fit.loss, np.ndarray) else ()
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
            return f"{name} is not an array of the kind it should be"
        if value.shape != shape:
            return f"{name} has shape {value.shape} instead of {shape}"
    return ""


def _ending(fit: Any) -> str:
    """How the search ended, and what it found."""
    if not set(np.unique(fit.status).tolist()) <= set(status.MEANING):
        return "its status is unknown"
    if (fit.steps < 0).any():
        return "its number of steps is negative"
    found = fit.status == status.CONVERGED
    if not (np.isfinite(fit.theta).all(-1) & np.isfinite(fit.loss))[found].all():
        return "it converged, but the estimates or the loss are not finite"
    return ""


def _covariance(fit: Any) -> str:
    """Whether the covariance is symmetric, to half of its digits, and has no negative variances."""
    if fit.cov is None:
        return ""
    variances = np.diagonal(fit.cov, axis1=-2, axis2=-1)
    if (variances < 0).any():
        return "a variance is negative"
    known = np.isfinite(fit.cov).all((-2, -1))
    cov, errors = fit.cov[known], np.sqrt(variances[known])
    half = np.sqrt(np.finfo(fit.cov.dtype).eps)
    products = errors[..., :, None] * errors[..., None, :]
    if not (np.abs(cov - np.swapaxes(cov, -1, -2)) <= half * products).all():
        return "the covariance is not symmetric"
    if not (np.abs(cov) <= (1 + half) * products).all():
        return "a covariance is larger than its variances allow"
    return ""


def _discrepancy(fit: Any) -> str:
    """Whether it is one, and can be described."""
    if not isinstance(fit.discrepancy, AbstractDiscrepancy | Missing):
        return "the discrepancy is something else"
    return _failure(
        "the discrepancy",
        lambda: (repr(fit.discrepancy), fit.discrepancy.kind, fit.discrepancy.facts()),
    )


def _model(fit: Any) -> str:
    """Whether the model is at the estimates, unless its code is not in the file or there are
    replications.
    """
    if not callable(fit.model):
        return "the model is something else"
    if isinstance(fit.model, Missing) or np.ndim(fit.loss):
        return ""
    look = lambda: (
        repr(fit.model),
        params.names(fit.model),
        params.links(fit.model),
        params.theta(fit.model),
    )
    failure = _failure("the model", look)
    if failure:
        return failure
    _, names, links, theta = look()
    if names != fit.names or links != fit.links:
        return "the model has other parameters than the fit"
    same = np.array_equal(np.asarray(theta, fit.theta.dtype), fit.theta, equal_nan=True)
    return "" if same else "the model is at other values than the fit"


def _failure(what: str, look: Callable) -> str:
    """Return that a part cannot be looked at; each class fails in its own way on values that it
    does not expect.
    """
    try:
        look()
    except Exception:
        return f"{what} holds values that it cannot have"
    return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
