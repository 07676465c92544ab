"""How much of the data a picture shows: which rows, over which grid, in which bins."""

import numpy as np

from ..data.robust import median_and_mad
from ..inference.influence import extent
from ..result.fitted import Fit


def near(rows: np.ndarray) -> np.ndarray:
    """The rows within 25 spreads of the median in each coordinate: a more distant one would hide the
    others.
    """
    return rows[~is_far(rows)]


def is_far(rows: np.ndarray) -> np.ndarray:
    """Whether each row is more than 25 spreads from the median in some coordinate."""
    centre, spread = median_and_mad(rows)
    return np.any(np.abs(rows - centre) > 25 * spread, axis=1)


def histogram_edges(values: np.ndarray) -> np.ndarray:
    """The edges of bins by the rule of Freedman and Diaconis, at most 200 bins."""
    lower, upper = np.quantile(values, [0.25, 0.75])
    width = 2 * (upper - lower) / len(values) ** (1 / 3)
    bins = int(np.ceil(min(np.ptp(values) / width, 200))) if width > 0 else 10
    return np.histogram_bin_edges(values, max(bins, 1))


def thin(rows: np.ndarray, most: int) -> np.ndarray:
    """At most `most` rows, evenly spaced from first to last."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def wide_grid(
    values: np.ndarray, fit: Fit, axis: int = 0, share: float = 0.5, points: int = 256
) -> np.ndarray:
    """A grid over the range of one coordinate, extended by a share of it on either side, but not
    beyond the support.
    """
    low, high = values.min(), values.max()
    margin = share * ((high - low) or 1.0)
    least, most = (edge[axis] for edge in extent(fit))
    off = (high - low) / points  # log p need not be finite at an edge
    return np.linspace(max(low - margin, least + off), min(high + margin, most - off), points)
