"""The gross-error sensitivity of an estimate: the largest influence that one observation can have."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from .._types import Array
from ..data.robust import median_and_mad
from .draws import Box

BLOCK = 1024
"""The number of points at which estimating functions are evaluated together, always the same so
that they are compiled once.
"""

_NEAR, _FAR = 20.0, np.array([3e3, 1e4])
"""In spreads, how far the largest influence is searched for, and the two distances between which
its rate of growth is measured, as in `ms.robustness`.
"""

_DIRECTIONS = 16
"""The fewest directions to search in several dimensions: enough to find where to refine."""

_FEWEST = 16
"""The fewest points on each ray, and around the best point for each parameter."""

_CLOSER = 2.0 ** -np.arange(-1, 5)
"""The radius, in spreads, of the search around the best point for each parameter in each round."""

GROWS = 0.05
"""A rate above this counts as growth: a slope between finite distances has an error."""


def largest_size(size: Callable, x: Float[Array, "n d"], box: Box) -> Float[Array, " p"]:
    """The largest size for each parameter, or ∞ if it grows far out.

    Args:
        size: the size at each row, for each parameter.
        x: draws, whose centre and spread say where to search.
        box: the support.
    """
    centre, spread = median_and_mad(x)
    d = x.shape[1]
    rays = _rays(d)
    along = lambda distances: (centre + spread * distances[:, None, None] * rays).reshape(-1, d)
    sizes = lambda z: _sizes(size, z, box)
    far = sizes(along(_FAR)).reshape(len(_FAR), len(rays), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.log(far[1] / far[0]) / np.log(_FAR[1] / _FAR[0])
    near = along(np.linspace(0, _NEAR, max(BLOCK // len(rays), _FEWEST)))
    random = np.random.default_rng(0)

    def points_near(best: Float[Array, "p d"], i: int) -> Float[Array, "p k d"]:
        cloud = random.normal(size=(len(best), max(BLOCK // len(best), _FEWEST), d))
        return best[:, None] + spread * _CLOSER[i] * cloud

    # in one dimension the points are so dense that the error is below 10⁻³ without refinement
    largest = climb(sizes, near, points_near, len(_CLOSER) if d > 1 else 0)
    return np.where((rates > GROWS).any(0), np.inf, np.maximum(largest, far.max((0, 1))))


def _sizes(size: Callable, z: Float[Array, "k d"], box: Box) -> Float[Array, "k p"]:
    """The size at each point, zero outside the support."""
    found = map_blocks(size, z)
    return np.where(box.holds(z)[:, None] & np.isfinite(found), found, 0)


def map_blocks(fn: Callable, z: Float[Array, "k d"]) -> Float[Array, "k p"]:
    """fn of each row, in blocks of `BLOCK` rows."""
    blocks = np.resize(z, (-(-len(z) // BLOCK), BLOCK, z.shape[1]))
    return np.concatenate([fn(block) for block in blocks])[: len(z)]


def _rays(d: int) -> Float[Array, "r d"]:
    """Both directions of every axis and, in several dimensions, random ones if those are few."""
    axes = np.concatenate([np.eye(d), -np.eye(d)])
    more = np.random.default_rng(0).normal(
        size=(max(_DIRECTIONS - len(axes), 0) if d > 1 else 0, d)
    )
    return np.concatenate([axes, more / np.linalg.norm(more, axis=1, keepdims=True)])


def climb(
    sizes: Callable, z: Float[Array, "k d"], points_near: Callable, rounds: int
) -> Float[Array, " p"]:
    """The largest size for each parameter at the points z, or near the best of them.

    Args:
        sizes: the size at each row, for each parameter.
        z: the points to begin with.
        points_near: points around the best point of each parameter, given these and the number of
            the round.
        rounds: the number of rounds of refinement.
    """
    values = sizes(z)
    best, largest, each = z[values.argmax(0)], values.max(0), np.arange(values.shape[1])
    for i in range(rounds):
        around = points_near(best, i)
        values = sizes(around.reshape(-1, z.shape[1])).reshape(*around.shape[:2], -1)[each, :, each]
        better = values.max(1) > largest
        best = np.where(better[:, None], around[each, values.argmax(1)], best)
        largest = np.maximum(largest, values.max(1))
    return largest
