"""Does the Stein identity hold? It does unless mass sits at an edge of the support, and this looks whether it does.

Integrating S[g] under p by parts leaves the flux p·m g through the boundary. Rays are followed from observations along
the axes; each must come to a place where the flux is nothing: far out, or at an edge that the flux vanishes towards.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from . import _fields, errors
from ._types import Array, LogDensity, Point, Scalar
from .default import standardised_ksd
from .discrepancies import DKSD, DSM
from .operator import field_at, score
from .params import unwrap
from .sample import Sample, read, run
from .sharded import Data, Sharded
from .spaces import space_of

_POINTS = 64
"""Places on a ray that are looked at together."""

_STARTS, _AXES = 8, 16
"""The most observations that rays start from, and the most axes they follow."""

_REACH = np.append(0.0, np.geomspace(1e-3, 1e6, _POINTS - 1))
"""Distances, in units of the data's spread."""

_NEAR = np.geomspace(1e-3, 1e-6, _POINTS)
"""Distances to an edge, in units of that from where the ray starts."""

_NOTHING = np.log(1e-3)
"""A flux below this fraction of that where the ray starts counts as nothing."""

_ZOOMS = 7
"""Rounds of narrowing down an edge, each to the 63rd part."""

_VANISHES = 0.02
"""A flux that falls with a higher power of the distance to the edge vanishes there."""


class Edge(NamedTuple):
    """Where the Stein identity has a boundary term: the flux through it falls as `rate`, a power of the distance.

    Attributes:
        axis: the coordinate along which the support ends.
        side: −1 for a lower edge, +1 for an upper one.
        at: where it ends; infinite where log p does not fall at all in that direction.
        rate: zero for a density that is positive at the edge, with a diffusion that is, too.
    """

    axis: int
    side: int
    at: float
    rate: float


class SteinClass(NamedTuple):
    """Whether the Stein identity holds for a model and a discrepancy; if not, at which edges it fails, and a cure."""

    edges: tuple[Edge, ...]
    message: str

    @property
    def holds(self) -> bool:
        """Whether no edge was found at which it fails."""
        return not self.edges

    def __repr__(self) -> str:
        return self.message


def stein_class(discrepancy: DKSD | DSM, model: LogDensity, x: Any) -> SteinClass:
    """Follow rays from observations to the edges of the support, and see whether p·m vanishes there.

    Args:
        discrepancy: a DKSD or a DSM; its kernel or diffusion may vanish at an edge where p does not.
        model: log p up to a constant, −∞ or NaN outside its support, or just the formula that holds inside.
        x: the sample.

    >>> model = ms.models.from_log_density(lambda rate, x: -rate * x[0], ms.positive(1.0))
    >>> x = np.array([0.1, 0.2, 0.5, 0.6, 1.1, 2.3])
    >>> ms.stein_class(ms.SM(), model, x).holds
    False
    >>> ms.stein_class(ms.DSM(ms.diffusions.bounded(low=0.0)), model, x).holds
    True
    """
    x = read(x, space_of(model))
    x = x if isinstance(x, Sharded) else np.asarray(x, np.float64)
    discrepancy.ready(model, x)
    rays = _rays(discrepancy, model, x)
    log_p, flux = rays.look(np.tile(_REACH, (len(rays.starts), 1)))
    inside = _inside(log_p, flux)
    with np.errstate(invalid="ignore"):
        found = _open_ends(rays, log_p, flux, np.all(inside, 1)) + _closed_ends(rays, inside)
    edges = tuple({(edge.axis, edge.side): edge for edge in found}.values())
    return SteinClass(edges, errors.boundary_term(edges, x) if edges else "No boundary term was found.")


def support_of(model: LogDensity, x: Float[Array, "n d"]) -> tuple[Array, Array] | None:
    """The lower and the upper edge of each coordinate, infinite where there is none; None where there is none at all.

    A support that is not a box counts as having none.
    """
    x = np.asarray(x, np.float64)
    rays = _rays(standardised_ksd(x), model, x)
    log_p, flux = rays.look(np.tile(_REACH, (len(rays.starts), 1)))
    inside = _inside(log_p, flux)
    low, high = np.full(x.shape[1], -np.inf), np.full(x.shape[1], np.inf)
    last = np.take_along_axis(log_p, np.maximum(inside.argmin(1) - 1, 0)[:, None], 1)[:, 0]
    if not (~inside.all(1) & (last > log_p[:, 0] - _DEEP)).any():
        return None
    ends = _ends(rays, inside)
    near = rays.look(ends[:, None] * (1 - _NEAR))[0][:, -1]
    steep = ~inside.all(1) & inside[:, 0] & (near > log_p[:, 0] - _DEEP)  # elsewhere log p just overflows
    found = [rays.edge(ray, float(ends[ray]), 0.0) for ray in np.flatnonzero(steep).tolist()]
    for side, edges in ((-1, low), (1, high)):
        for axis in {edge.axis for edge in found if edge.side == side}:
            at = [edge.at for edge in found if (edge.axis, edge.side) == (axis, side)]
            if np.ptp(at) > 1e-6 * x[:, axis].std():
                return None
            edges[axis] = at[0]
    return (low, high) if found else None


_DEEP = 1e3
"""Where log p falls by more than this towards its end, that is no edge: numbers end there."""


class _Rays(NamedTuple):
    """Rays from `starts` along `steps`, each a multiple of a unit vector."""

    discrepancy: Any
    model: LogDensity
    starts: Float[Array, "r d"]
    steps: Float[Array, "r d"]

    def look(self, distances: Float[Array, "r k"]) -> tuple[Float[Array, "r k"], Float[Array, "r k"]]:
        """log p and the logarithm of the flux, at distances in units of the step."""
        points = (self.starts[:, None] + distances[..., None] * self.steps[:, None]).reshape(-1, self.starts.shape[1])
        units = np.sign(self.steps)
        log_p, flux = run(_flux, (self.discrepancy, units), self.model, points)
        return log_p[: len(points)].reshape(distances.shape), flux[: len(points)].reshape(distances.shape)

    def edge(self, ray: int, distance: float, rate: float) -> Edge:
        axis = int(np.abs(self.steps[ray]).argmax())
        step = float(self.steps[ray, axis])
        at = float(self.starts[ray, axis]) + distance * step
        digits = 8 - int(np.floor(np.log10(abs(step))))
        return Edge(axis, int(np.sign(step)), float(np.round(at, digits)) + 0.0, float(rate))


def _rays(discrepancy: DKSD | DSM, model: LogDensity, x: Data) -> _Rays:
    n, d = x.shape
    spread = np.maximum(x.std(0), np.finfo(np.float64).eps * (1 + np.maximum(-x.min(0), x.max(0))))
    axes = np.unique(np.linspace(0, d - 1, _AXES).astype(int))
    rows = np.asarray(x[np.linspace(0, n - 1, _STARTS).astype(int)], np.float64)
    directions = np.concatenate([np.diag(spread)[axes], -np.diag(spread)[axes]])
    starts, steps = np.repeat(rows, len(directions), 0), np.tile(directions, (len(rows), 1))
    return _Rays(discrepancy, model, starts, steps)


def _flux(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """log p, and log of p times what a field of the Stein class has along a unit vector: √(uᵀmKmᵀu), or |uᵀmmᵀs|."""
    discrepancy, units = tree
    model = unwrap(model)

    def one(x: Point, u: Point) -> tuple[Scalar, Scalar]:
        log_p, mu = model(x), _fields.transpose_apply(field_at(model, discrepancy.diffusion, x)(x), u)
        if isinstance(discrepancy, DKSD):
            K = _fields.as_matrix(jnp.asarray(discrepancy.kernel(x, x)), x.size)
            return log_p, log_p + jnp.log(mu @ K @ mu) / 2
        ms = _fields.transpose_apply(field_at(model, discrepancy.diffusion, x)(x), score(model, x))
        return log_p, log_p + jnp.log(jnp.abs(mu @ ms))

    rows = jnp.minimum(jnp.arange(sample.x.shape[0]) // _POINTS, len(units) - 1)
    return jax.vmap(one)(sample.x, jnp.asarray(units)[rows])


def _inside(log_p: Array, flux: Array) -> Array:
    return np.isfinite(log_p) & (flux < np.inf)


def _open_ends(rays: _Rays, log_p: Array, flux: Array, endless: Array) -> list[Edge]:
    """Rays without an end along which neither p times the distance nor the flux comes to nothing."""
    open_ = endless & (log_p[:, -1] + np.log(_REACH[-1]) - log_p[:, 0] > _NOTHING)
    open_ &= flux.min(1) > flux[:, 0] + _NOTHING
    if open_.any():
        open_ &= _lowest(rays, log_p, flux) > flux[:, 0] + _NOTHING
    return [rays.edge(ray, np.inf, 0.0) for ray in np.flatnonzero(open_).tolist()]


def _lowest(rays: _Rays, log_p: Array, flux: Array) -> Float[Array, " r"]:
    """The flux where the diffusion is least on each ray, which may be between two places that were looked at.

    Where p grows without end, it is not allowed to hide that place.
    """
    distances, start = np.tile(_REACH, (len(flux), 1)), log_p[:, :1]
    for _ in range(_ZOOMS):
        least = (flux - np.maximum(log_p - start, 0)).argmin(1)
        distances = _between(distances, np.maximum(least - 1, 0), np.minimum(least + 1, _POINTS - 1))
        log_p, flux = rays.look(distances)
    return flux.min(1)


def _between(distances: Float[Array, "r k"], first: Array, last: Array) -> Float[Array, "r k"]:
    """As many distances again, evenly between two of them on each ray."""
    ends = np.take_along_axis(distances, np.stack([first, last], 1), 1)
    return ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.linspace(0, 1, _POINTS)


def _ends(rays: _Rays, inside: Array) -> Float[Array, " r"]:
    """How far each ray goes until it leaves the support."""
    distances = np.tile(_REACH, (len(inside), 1))
    for _ in range(_ZOOMS):
        end = np.where(inside.all(1), _POINTS - 1, inside.argmin(1))
        distances = _between(distances, np.maximum(end - 1, 0), end)
        inside = _inside(*rays.look(distances))
    return distances[:, 0]


def _closed_ends(rays: _Rays, inside: Array) -> list[Edge]:
    """Rays that end at an edge towards which the flux does not vanish."""
    closed = ~inside.all(1) & inside[:, 0]
    if not closed.any():
        return []
    low = _ends(rays, inside)
    start, near = rays.look(np.zeros((len(low), _POINTS)))[1], rays.look(low[:, None] * (1 - _NEAR))[1]
    closed = closed & (low > 0) & (near[:, -1] > start[:, 0] + _NOTHING)
    rate = lambda ray: float(near[ray, 0] - near[ray, -1]) / np.log(_NEAR[0] / _NEAR[-1])
    ends = [(ray, float(low[ray]), rate(ray)) for ray in np.flatnonzero(closed).tolist()]
    return [rays.edge(*end) for end in ends if end[2] < _VANISHES]
