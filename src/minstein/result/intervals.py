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
        p: the p-value. With k the largest number of parameters in the equation of a tested estimate,
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
    """Test the linear hypothesis Rθ = r, with the reference distribution of Hotelling's T² for a
    mean, as the intervals have.
    """
    R = np.atleast_2d(np.asarray(R, float))
    if R.shape[1] != theta.size:
        raise ValueError(
            f"R must have a column for each of the {theta.size} parameters, got shape {R.shape}."
        )
    gap, middle, q = R @ theta - np.asarray(r, float), R @ cov @ R.T, len(R)
    if np.linalg.matrix_rank(middle) < q:
        raise ValueError(
            "The rows of R are linearly dependent, so the hypotheses repeat each other: drop one."
        )
    statistic = float(gap @ np.linalg.solve(middle, gap))
    left = n - float(np.max(used[np.any(R != 0, axis=0)])) - q + 1
    p = float(special.fdtrc(q, left, statistic * left / (n * q))) if left > 0 else np.nan
    return Wald(statistic, q, p)


_SCALES = {
    "identity": (lambda t: t, lambda e: e, np.ones_like),
    "log": (np.log, np.exp, lambda t: 1 / t),
    "logit": (special.logit, special.expit, lambda t: 1 / (t * (1 - t))),
}
"""The function of each link, its inverse, and its derivative."""


def interval(estimate: Any, error: Any, link: str, width: Any) -> tuple[Any, Any]:
    """estimate ± width · error on the scale of the link, transformed back: intervals of positive
    parameters are positive.
    """
    to, back, slope = _SCALES[link]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centre, half = to(estimate), width * error * slope(estimate)
        return back(centre - half), back(centre + half)


def width(alpha: Any, n: int, used: Float[Array, "*r p"]) -> Float[Array, "*r p"]:
    """Half the length of intervals of level 1 − alpha, in standard errors: t(n − k) · √(n/(n − k)).

    The factor corrects for the k parameters in the equation of an estimate, which make its residuals
    too small; with k = 1 the interval of a normal mean is exact. NaN if k is not below n.
    """
    check_level(alpha)
    left = n - np.asarray(used, float)
    left = np.where(left > 0, left, np.nan)
    return special.stdtrit(left, 1 - alpha / 2) * np.sqrt(n / left)


def check_level(alpha: Any) -> None:
    """Raise if alpha is not one minus the level of an interval."""
    if not isinstance(alpha, float | int | np.number):
        raise TypeError(
            f"alpha must be a number between 0 and 1, such as 0.05 for 95 % intervals, got {alpha!r}. The intervals "
            "of all parameters come as a dictionary by name."
        )
    if not 0 < alpha < 1:
        raise ValueError(
            f"alpha must be between 0 and 1, got {alpha:g}; use 0.05 for 95 % intervals."
        )
