"""Intervals and Wald tests from estimates and their covariance."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special  # scipy.stats takes as long to import as JAX

from ._types import Array


class Wald(NamedTuple):
    """The test of Rθ = r: its statistic, χ² with `df` degrees of freedom under the hypothesis, and the p-value."""

    statistic: float
    df: int
    p: float


def wald(theta: Float[Array, " p"], cov: Float[Array, "p p"], R: Any, r: Any = 0.0) -> Wald:
    """Test the linear hypothesis Rθ = r."""
    R = np.atleast_2d(np.asarray(R, float))
    if R.shape[1] != theta.size:
        raise ValueError(f"R must have a column for each of the {theta.size} parameters, got shape {R.shape}.")
    gap = R @ theta - np.asarray(r, float)
    middle = R @ cov @ R.T
    if np.linalg.matrix_rank(middle) < len(R):
        raise ValueError("The rows of R are linearly dependent, so the hypotheses repeat each other: drop one.")
    statistic = float(gap @ np.linalg.solve(middle, gap))
    return Wald(statistic, len(R), float(special.chdtrc(len(R), statistic)))


_TO = {"identity": lambda t: t, "log": np.log, "logit": special.logit}
_FROM = {"identity": lambda e: e, "log": np.exp, "logit": special.expit}
_SLOPE = {"identity": np.ones_like, "log": lambda t: 1 / t, "logit": lambda t: 1 / (t * (1 - t))}


def interval(estimate: Any, error: Any, link: str, width: float) -> tuple[Any, Any]:
    """estimate ± width · error on the scale of the link, carried back: positive parameters have positive intervals."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centre, half = _TO[link](estimate), width * error * _SLOPE[link](estimate)
        return _FROM[link](centre - half), _FROM[link](centre + half)


def width(alpha: float | int, n: int, p: int) -> float:
    """Half the length of an interval of level 1 − alpha, in standard errors: t(n − p) · √(n/(n − p)).

    The factor makes up for the p parameters that were fitted; it gives a normal mean its exact interval.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha:g}: 0.05 for intervals of 95 %.")
    df = max(n - p, 1)
    return float(special.stdtrit(df, 1 - alpha / 2) * np.sqrt(n / df))
