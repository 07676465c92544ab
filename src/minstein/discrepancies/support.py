"""The support of a model, declared or found, and data that end before the model does."""

from typing import Any, NamedTuple

import numpy as np

from .._types import LogDensity, is_traced
from ..data.rows import Data
from ..data.spaces import AbstractSpace, Box, as_space, needs_continuous, space_of
from ..kernels import IMQ, Whitened
from .default import Support
from .ksd import DKSD
from .rays import POINTS, REACH, STARTS, Rays, rays_from


def declared_space(model: LogDensity, support: Any) -> AbstractSpace:
    """The space in which the data must lie: the given support, or what the model declares."""
    if support is None:
        return space_of(model)
    if space_of(model).discrete:
        raise needs_continuous("support=(low, high)", space_of(model))
    return as_space(support)


def edge_notes(box: Box | None) -> tuple[str, ...]:
    """The note of a fit on the edges of the support, if the diffusion was chosen to vanish there."""
    if box is None:
        return ()
    ends = ", ".join(
        f"{name} = {_numbers(edge)}"
        for name, edge in zip(("low", "high"), box.box, strict=True)
        if np.isfinite(edge).any()
    )
    return (
        f"The support has edges ({ends}); the diffusion vanishes there, so that estimates are right.",
    )


def _numbers(edge: Any) -> str:
    """An edge as text: one number if it is the same in every coordinate."""
    values = np.unique(edge)
    return ", ".join(f"{value:g}" for value in (values if values.size == 1 else np.ravel(edge)))


def support_of(model: LogDensity, x: Data, given: Any = None) -> Support | None:
    """The lower and the upper edge of each coordinate, infinite in directions without an edge; None
    if there are no edges.

    They are given, declared by the space of the model, or found along rays from observations. A
    support that is not a box counts as having no edges.
    """
    box = (space_of(model) if given is None else as_space(given)).box
    if box is not None or is_traced((model, x)) or space_of(model).discrete:
        return box
    return _find_edges(model, x)


def _find_edges(model: LogDensity, x: Data) -> Support | None:
    plain = DKSD(
        Whitened(np.diag(np.ones(x.shape[1])), IMQ(1.0)), unbiased=False
    )  # compiled alike to the default
    rays = rays_from(plain, model, x)
    ended, distances, _ = rays.edges(rays.look(np.tile(REACH, (len(rays.starts), 1))))
    ends = {-1: np.full(x.shape[1], -np.inf), 1: np.full(x.shape[1], np.inf)}
    places: dict[tuple[int, int], list[float]] = {}
    for ray in np.flatnonzero(ended).tolist():
        key = (int(np.sign(rays.units[ray])), int(rays.axes[ray]))
        places.setdefault(key, []).append(rays.place(ray, float(distances[ray])))
    for (side, axis), at in places.items():
        if np.ptp(at) > _SAME * np.abs(rays.steps[:, axis]).max():
            return None
        ends[side][axis] = at[0]
    low, high = np.minimum(ends[-1], x.min(0)), np.maximum(ends[1], x.max(0))
    return (low, high) if places else None


_SAME = 1e-6
"""The largest difference, in standard deviations, between the positions of an edge found from
different observations: those of a box differ only by rounding.
"""


class Overhang(NamedTuple):
    """A side on which the model expects observations beyond the last one.

    Attributes:
        axis: the coordinate.
        side: −1 below the smallest, +1 above the largest.
        end: the smallest or largest value.
        expected: the expected number of observations beyond it, in a sample of this size.
    """

    axis: int
    side: int
    end: float
    expected: float


_UNSEEN = 12.0
"""Under the model the expected number beyond the last observation has the exponential distribution
with mean one: the probability of exceeding this is 6e-6.
"""

_HALF = POINTS // 2
_WITHIN, _BEYOND = (
    np.append(0.0, np.geomspace(*ends, _HALF - 1)) for ends in ((1e-6, 1), (1e-3, 1e3))
)
"""Distances at which p is integrated: up to the last observation, in units of the distance to it,
and beyond it, in standard deviations.
"""


def overhangs(rays: Rays, x: Data) -> list[Overhang]:
    """Sides on which the model expects many observations beyond the last one, and the field does not
    vanish.

    The share beyond is computed from p on the lines through observations along the axis, that is,
    given the other coordinates.
    """
    ends = np.where(
        rays.units > 0, np.asarray(x.max(0))[rays.axes], np.asarray(x.min(0))[rays.axes]
    )
    last = (ends - np.take_along_axis(rays.starts, rays.axes[:, None], 1)[:, 0]) / rays.units
    distances = np.concatenate([last[:, None] * _WITHIN, last[:, None] + _BEYOND], axis=1)
    log_p = rays.look(distances).log_p
    log_p = np.where(np.isfinite(log_p), log_p, -np.inf)
    by_line = lambda part: part.reshape(STARTS, 2, len(last) // STARTS // 2, -1)
    p = np.exp(by_line(log_p) - by_line(log_p).max((1, 3), keepdims=True))
    inner, outer = (
        np.trapezoid(p[..., part], by_line(distances)[..., part], axis=-1)
        for part in (slice(_HALF), slice(_HALF, None))
    )
    expected = len(x) * np.mean(outer / (inner + outer).sum(1, keepdims=True), axis=0).reshape(-1)
    found = expected > _UNSEEN
    if found.any():
        there = last[:, None] + np.append(0.0, np.geomspace(1e-4, 1e3, POINTS - 1))
        dips = ~(
            rays.least_size(there) > rays.look(0 * there).size[:, 0] + np.log(1e-3)
        )  # or is not a number there
        found &= ~dips.reshape(STARTS, -1).all(0)
    describe = lambda ray: (
        int(rays.axes[ray]),
        int(np.sign(rays.units[ray])),
        float(ends[ray]),
        float(expected[ray]),
    )
    return [Overhang(*describe(ray)) for ray in np.flatnonzero(found).tolist()]
