"""The discrepancy that `fit` uses when none is given, and its robust counterpart."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

from ._types import Array, LogDensity, namespace
from .diffusions import Within, bounded, redescending
from .discrepancies import DKSD
from .discrepancy import AbstractDiscrepancy
from .discrete import MPF
from .kernels import IMQ, Elliptical
from .models._family import median_and_mad
from .sample import read
from .sharded import Data
from .spaces import space_of

_MOST = 1000
"""Rows from which the median distance is taken at the most."""


def default_discrepancy(model: LogDensity, x: Data) -> AbstractDiscrepancy:
    """KSD for continuous data, minimum probability flow for discrete ones."""
    return MPF() if space_of(model).discrete else standardised_ksd(x)


def standardised_ksd(x: Data, support: tuple[Any, Any] | None = None) -> DKSD:
    """KSD as a V-statistic on robustly standardised data, with an IMQ kernel whose c is their median distance.

    Coordinates are measured in units s of their scaled median absolute deviation, so that units of measurement do not
    matter: a kernel of (x − y)/s, and the diffusion diag(s), which turns ∇log p into the score of x/s. In coordinates
    with an edge the diffusion vanishes there instead.
    """
    _, s = median_and_mad(x)
    m = s if support is None else Within(bounded(*support), s)
    return DKSD(_standardised(x, s, 1.0), m, unbiased=False)


def robust_discrepancy(x: Any, *, a: Any = 2.5, widening: float = 4.0) -> DKSD:
    """DKSD as a V-statistic that gives no weight to observations far from the median.

    The diffusion is exp(−r²/2a²) with r the distance from the median in units s of the scaled median absolute
    deviation, held there. In d dimensions a² grows as the 95 % quantile of χ² with d degrees of freedom.

    Args:
        x: the sample, of shape (n, d), or (n,) for one variable.
        a: smaller is more robust, larger more efficient; infinite for no weights at all.
        widening: the kernel's c in median distances. 4 makes estimates of location and scale together nearly efficient;
            take 1 where the scale is fitted alone, or a shape, whose estimates a wide kernel ruins.
    """
    x = read(x)
    centre, s = median_and_mad(x)
    a_d = a * np.sqrt(chdtri(x.shape[1], 0.05) / chdtri(1, 0.05))
    return DKSD(_standardised(x, s, widening), redescending(a_d, centre, s), unbiased=False)


def _standardised(x: Data, s: Float[Array, " d"], widening: float) -> Elliptical:
    """An IMQ kernel of (x − y)/s, its c so many median distances."""
    return Elliptical(namespace(x).diag(1 / s), IMQ(widening * median_distance(_some(x) / s)))


def _some(x: Data) -> Array:
    """Rows spread evenly over the sample, all of them where they are few."""
    return x[np.linspace(0, len(x) - 1, min(len(x), _MOST)).astype(int)]


def median_distance(x: Float[Array, "n d"]) -> Array:
    """The median of the distances that are not zero, or 1 where there are none; of many rows, between some of them."""
    rows = _some(x)
    xp = namespace(rows)
    i, j = np.triu_indices(len(rows), 1)
    if i.size == 0:
        return xp.asarray(1.0)
    squares = xp.zeros((len(rows), len(rows)), rows.dtype)
    for column in rows.T:
        squares = squares + (column[:, None] - column) ** 2
    distances = xp.sqrt(squares[i, j])
    if xp is np:
        return np.asarray(np.median(distances[distances > 0]) if distances.any() else 1.0)
    median = xp.nanmedian(xp.where(distances > 0, distances, xp.nan))
    return xp.where(median > 0, median, 1.0)
