"""Rays from observations along the axes, and a model and a discrepancy evaluated along them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, LogDensity, Point
from ..data.boundary import run
from ..data.in_memory import as_rows
from ..data.rows import Data
from ..data.sample import Sample
from ..params import unwrap
from .base import AbstractDiscrepancy

POINTS = 64
"""Points evaluated together on each ray."""

STARTS, _AXES = 8, 16
"""The most observations that rays start from, and the most axes they follow."""

REACH = np.append(0.0, np.geomspace(1e-3, 1e6, POINTS - 1))
"""Distances, in units of the data's spread."""

NEAR = np.geomspace(1e-3, 1e-6, POINTS)
"""Distances to an edge, in units of the distance between the edge and the start of the ray."""

_ZOOMS = 7
"""Rounds of locating an edge, each of which divides the interval by 63."""

_FAR = 100.0
"""Beyond this many spreads from the data, log p that is not finite means overflow, not an edge of the
support: a density that is still positive there falls too slowly to be that of the data.
"""

_DEEP = 1e3
"""If log p falls or grows by more than this before it ends, the cause is overflow, not an edge."""


class Seen(NamedTuple):
    """Logarithms along rays: of p; of the flux p·m g of a field; of p times the squared contribution
    of an observation; and of the size of the field alone.
    """

    log_p: Float[Array, "r k"]
    flux: Float[Array, "r k"]
    moment: Float[Array, "r k"]
    size: Float[Array, "r k"]

    @property
    def inside(self) -> Array:
        """Whether each point is in the support."""
        return np.isfinite(self.log_p) & (self.flux < np.inf)

    @property
    def last(self) -> Float[Array, " r"]:
        """log p at the last point on each ray before it leaves the support."""
        return np.take_along_axis(self.log_p, np.maximum(self.inside.argmin(1) - 1, 0)[:, None], 1)[
            :, 0
        ]

    @property
    def grows(self) -> Array:
        """Whether log p grows until it overflows along each ray."""
        return ~self.inside.all(1) & (self.last > self.log_p[:, 0] + _DEEP)


class Rays(NamedTuple):
    """Rays from `starts` along `steps`, each a multiple of a unit vector: first those upwards from
    an observation, then those downwards, then those of the next observation.
    """

    discrepancy: Any
    model: LogDensity
    starts: Float[Array, "r d"]
    steps: Float[Array, "r d"]

    def look(self, distances: Float[Array, "r k"]) -> Seen:
        """Evaluate model and discrepancy at distances in units of the step."""
        points = (self.starts[:, None] + distances[..., None] * self.steps[:, None]).reshape(
            -1, self.starts.shape[1]
        )
        seen = run(_look, (self.discrepancy, np.sign(self.steps)), self.model, points)
        return Seen(*(part[: len(points)].reshape(distances.shape) for part in seen))

    @property
    def axes(self) -> np.ndarray:
        """The coordinate along which each ray runs."""
        return np.abs(self.steps).argmax(1)

    @property
    def units(self) -> np.ndarray:
        """The length of each step, with its sign."""
        return np.take_along_axis(self.steps, self.axes[:, None], 1)[:, 0]

    def place(self, ray: int, distance: float) -> float:
        """The coordinate at a distance along a ray, rounded to the precision of its step."""
        step = float(self.units[ray])
        at = float(self.starts[ray, self.axes[ray]]) + distance * step
        return float(np.round(at, 8 - int(np.floor(np.log10(abs(step)))))) + 0.0

    def ends(self, inside: Array) -> Float[Array, " r"]:
        """The distance at which each ray leaves the support."""
        distances = np.tile(REACH, (len(inside), 1))
        for _ in range(_ZOOMS):
            end = np.where(inside.all(1), POINTS - 1, inside.argmin(1))
            distances = between(distances, np.maximum(end - 1, 0), end)
            inside = self.look(distances).inside
        return distances[:, 0]

    def edges(self, seen: Seen) -> tuple[Array, Array, Seen]:
        """Which rays reach an edge of the support, its distance, and the values close to it."""
        ended = ~seen.inside.all(1) & seen.inside[:, 0] & ~seen.grows
        if not (ended & (seen.last > seen.log_p[:, 0] - _DEEP)).any():
            return np.zeros(len(ended), bool), np.zeros(len(ended)), seen
        distances = self.ends(seen.inside)
        near = self.look(distances[:, None] * (1 - NEAR))
        ended &= (
            (distances > 0) & (distances < _FAR) & (near.log_p[:, -1] > seen.log_p[:, 0] - _DEEP)
        )
        return ended, distances, near

    def least_size(self, distances: Float[Array, "r k"]) -> Float[Array, " r"]:
        """The least size of the field on each ray, which may occur between two of the distances."""
        for _ in range(_ZOOMS):
            least = self.look(distances).size.argmin(1)
            distances = between(
                distances, np.maximum(least - 1, 0), np.minimum(least + 1, POINTS - 1)
            )
        return self.look(distances).size.min(1)


def rays_from(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Data) -> Rays:
    """Rays from some observations, both ways along some axes, with steps of one standard deviation."""
    x = as_rows(x)
    n, d = x.shape
    largest = np.maximum(-x.min(0), x.max(0))
    spread = np.maximum(x.std(0), np.finfo(np.float64).eps * (1 + largest))
    axes = np.unique(np.linspace(0, d - 1, _AXES).astype(int))
    rows = np.asarray(x[np.linspace(0, n - 1, STARTS).astype(int)], np.float64)
    directions = np.concatenate([np.diag(spread)[axes], -np.diag(spread)[axes]])
    starts, steps = np.repeat(rows, len(directions), 0), np.tile(directions, (len(rows), 1))
    return Rays(discrepancy, model, starts, steps)


def between(distances: Float[Array, "r k"], first: Array, last: Array) -> Float[Array, "r k"]:
    """The same number of distances, evenly spaced between two of them on each ray."""
    ends = np.take_along_axis(distances, np.stack([first, last], 1), 1)
    return ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.linspace(0, 1, POINTS)


def _look(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Array, Array, Array, Array]:
    discrepancy, units = tree
    model = unwrap(model)

    def one(x: Point, u: Point) -> tuple[Array, Array, Array, Array]:
        log_p, (size, flux, contribution) = model(x), discrepancy.along(model, x, u)
        return log_p, log_p + jnp.log(flux), log_p + 2 * jnp.log(contribution), jnp.log(size)

    rows = jnp.minimum(jnp.arange(sample.x.shape[0]) // POINTS, len(units) - 1)
    return jax.vmap(one)(sample.x, jnp.asarray(units)[rows])
