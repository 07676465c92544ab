"""Intervals and Wald tests from estimates and their covariance."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special  # scipy.stats takes as long to import as JAX

from .._types import Array


class Wald(NamedTuple):
    """The test of Rθ = r.

    Attributes:
        statistic: (Rθ̂ − r)ᵀ(R C Rᵀ)⁻¹(Rθ̂ − r), C the covariance of the estimates.
        df: the number of hypotheses q.
        p: the p-value. With k the most parameters in the equation of an estimate that is tested,
            statistic·ν/(nq) has the F distribution with q and ν = n − k − q + 1 degrees of freedom;
            NaN if ν is not positive.
    """

    statistic: float
    df: int
    p: float


def wald(
    theta: Float[Array, " p"],
    cov: Float[Array, "p p"],
    R: Any,
    r: Any,
    n: int,
    used: Float[Array, " p"],
) -> Wald:
    """Test the linear hypothesis Rθ = r, with the reference of the intervals: that of Hotelling's
    T² for a mean.
    """
    R = np.atleast_2d(np.asarray(R, float))
    if R.shape[1] != theta.size:
        raise ValueError(
            f"R must have a column for each of the {theta.size} parameters, got shape {R.shape}."
        )
    gap = R @ theta - np.asarray(r, float)
    middle = R @ cov @ R.T
    q = len(R)
    if np.linalg.matrix_rank(middle) < q:
        raise ValueError(
            "The rows of R are linearly dependent, so the hypotheses repeat each other: drop one."
        )
    statistic = float(gap @ np.linalg.solve(middle, gap))
    left = n - float(np.max(used[np.any(R != 0, axis=0)])) - q + 1
    p = float(special.fdtrc(q, left, statistic * left / (n * q))) if left > 0 else np.nan
    return Wald(statistic, q, p)


_TO = {"identity": lambda t: t, "log": np.log, "logit": special.logit}
_FROM = {"identity": lambda e: e, "log": np.exp, "logit": special.expit}
_SLOPE = {"identity": np.ones_like, "log": lambda t: 1 / t, "logit": lambda t: 1 / (t * (1 - t))}


def interval(estimate: Any, error: Any, link: str, width: Any) -> tuple[Any, Any]:
    """estimate ± width · error on the scale of the link, carried back: positive parameters have
    positive intervals.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centre, half = _TO[link](estimate), width * error * _SLOPE[link](estimate)
        return _FROM[link](centre - half), _FROM[link](centre + half)


def width(alpha: Any, n: int, used: Float[Array, "*r p"]) -> Float[Array, "*r p"]:
    """Half the length of intervals of level 1 − alpha, in standard errors: t(n − k) · √(n/(n − k)).

    The factor makes up for the k parameters in the equation of an estimate, by which its residuals
    are too small; with one it gives a normal mean its exact interval. NaN if there are as many
    parameters in it as observations.
    """
    check_level(alpha)
    left = n - np.asarray(used, float)
    left = np.where(left > 0, left, np.nan)
    return special.stdtrit(left, 1 - alpha / 2) * np.sqrt(n / left)


def check_level(alpha: Any) -> None:
    """Refuse what is not one minus the level of an interval."""
    if not isinstance(alpha, float | int | np.number):
        raise TypeError(
            f"alpha must be a number between 0 and 1, such as 0.05 for intervals of 95 %, got {alpha!r}. The intervals "
            "of all parameters come as a dictionary by name."
        )
    if not 0 < alpha < 1:
        raise ValueError(
            f"alpha must be between 0 and 1, got {alpha:g}: 0.05 for intervals of 95 %."
        )
