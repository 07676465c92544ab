"""The discrepancy that `fit` uses when none is given."""

import numpy as np
from jaxtyping import Float

from ._types import Array, LogDensity, namespace
from .discrepancies import DKSD
from .discrepancy import AbstractDiscrepancy
from .discrete import MPF
from .kernels import IMQ, Elliptical
from .models._family import median_and_mad
from .spaces import space_of

_MOST = 1000
"""Rows from which the median distance is taken at the most."""


def default_discrepancy(model: LogDensity, x: Float[Array, "n d"]) -> AbstractDiscrepancy:
    """KSD for continuous data, minimum probability flow for discrete ones."""
    return MPF() if space_of(model).discrete else standardised_ksd(x)


def standardised_ksd(x: Float[Array, "n d"]) -> DKSD:
    """KSD as a V-statistic on robustly standardised data, with an IMQ kernel whose c is their median distance.

    Coordinates are measured in units s of their scaled median absolute deviation, so that units of measurement do not
    matter: a kernel of (x − y)/s, and the diffusion diag(s), which turns ∇log p into the score of x/s.
    """
    xp = namespace(x)
    _, s = median_and_mad(x)
    kernel = Elliptical(xp.diag(1 / s), IMQ(_median_distance(x / s)))
    return DKSD(kernel, s, unbiased=False)


def _median_distance(x: Float[Array, "n d"]) -> Array:
    """The median of the distances that are not zero, or 1 where there are none."""
    xp = namespace(x)
    rows = x[np.linspace(0, len(x) - 1, min(len(x), _MOST)).astype(int)]
    i, j = np.triu_indices(len(rows), 1)
    if i.size == 0:
        return xp.asarray(1.0)
    squares = xp.zeros((len(rows), len(rows)), x.dtype)
    for column in rows.T:
        squares = squares + (column[:, None] - column) ** 2
    distances = xp.sqrt(squares[i, j])
    if xp is np:
        return np.asarray(np.median(distances[distances > 0]) if distances.any() else 1.0)
    median = xp.nanmedian(xp.where(distances > 0, distances, xp.nan))
    return xp.where(median > 0, median, 1.0)
