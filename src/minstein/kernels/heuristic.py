"""The median distance between observations, a default lengthscale."""

from typing import Any

import numpy as np
from jaxtyping import Float

from .._types import Array, namespace
from ..data.in_memory import as_rows
from ..data.reading import read
from ..data.rows import Data

ROWS = 1000
"""The most rows used: half a million distances determine their median to about one per cent."""


def median_heuristic(x: Any) -> float:
    """The median distance between distinct observations, a common choice of lengthscale.

    Distances of zero are left out, so that ties never make it zero. If there are more than 1000
    rows, an evenly spaced subset of 1000 is used.

    >>> ms.kernels.median_heuristic(np.array([0.0, 1.0, 1.0, 3.0]))
    2.0
    """
    found = float(median_distance(read(x).in_double(), otherwise=np.nan))
    if np.isnan(found):
        raise ValueError(
            "median_heuristic needs at least two distinct observations: all rows of x are equal."
        )
    return found


def median_distance(x: Data, otherwise: float = 1.0) -> Array:
    """The median of the nonzero distances between rows, or `otherwise` if there are none.

    At most `ROWS` rows are used. If these are all equal, the distinct rows are used instead, unless
    JAX is tracing.
    """
    distances = _distances(some_rows(x))
    xp = namespace(distances)
    if xp is np:
        if not distances.any():
            distances = _distances(some_rows(np.unique(as_rows(x).in_one_array(ROWS), axis=0)))
        return np.asarray(np.median(distances[distances > 0]) if distances.any() else otherwise)
    if distances.size == 0:
        return xp.asarray(otherwise)
    median = xp.nanmedian(xp.where(distances > 0, distances, xp.nan))
    return xp.where(median > 0, median, otherwise)


def some_rows(x: Data) -> Float[Array, "k d"]:
    """At most `ROWS` rows, evenly spaced over the sample."""
    return as_rows(x).some(ROWS)


def _distances(rows: Float[Array, "k d"]) -> Float[Array, " pairs"]:
    """The distance between the rows of each pair."""
    xp = namespace(rows)
    squares = xp.zeros((len(rows), len(rows)), rows.dtype)
    for column in rows.T:
        squares = squares + (column[:, None] - column) ** 2
    return xp.sqrt(squares[np.triu_indices(len(rows), 1)])
