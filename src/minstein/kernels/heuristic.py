"""The median heuristic for a kernel's lengthscale."""

from typing import Any

import numpy as np

from ..sample import read
from ..sharded import Sharded

_MOST = 2000
"""Rows used at the most: two million distances determine a median well enough."""


def median_heuristic(x: Any) -> float:
    """The median distance between distinct observations: a lengthscale on which a kernel sees the data.

    Distances of zero are left out, so ties never make it zero. Of more than 2000 rows an evenly spaced subset is used.

    >>> ms.kernels.median_heuristic(np.array([0.0, 1.0, 1.0, 3.0]))
    2.0
    """
    x = read(x)
    x = x if isinstance(x, Sharded) else np.asarray(x, np.float64)
    distances = _distances(np.asarray(x[np.linspace(0, len(x) - 1, min(len(x), _MOST)).astype(int)], np.float64))
    if distances.size == 0 and isinstance(x, np.ndarray):
        distances = _distances(np.unique(x, axis=0)[:_MOST])
    if distances.size == 0:
        raise ValueError("median_heuristic needs at least two distinct observations: all rows of x are equal.")
    return float(np.median(distances))


def _distances(rows: np.ndarray) -> np.ndarray:
    """The non-zero distances between the rows."""
    squares = np.zeros((len(rows), len(rows)))
    for column in rows.T:
        squares += (column[:, None] - column) ** 2
    distances = np.sqrt(squares[np.triu_indices(len(rows), 1)])
    return distances[distances > 0]
