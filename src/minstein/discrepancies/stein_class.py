"""Whether the theory of Stein estimates holds at the edges of the support, judged along rays.

Integrating S[g] under p by parts leaves the flux p·m g through the boundary. The flux must
vanish along each ray: far out, or towards an edge. At an edge, the contribution of an observation
to the loss must also have a finite variance, or else the estimate has none; and the model must not
expect observations beyond the last ones.
"""

from typing import Any, NamedTuple

import numpy as np

from .._types import LogDensity
from ..data.reading import read
from ..data.rows import Data
from ..data.spaces import space_of
from ..errors import explained
from .base import AbstractDiscrepancy
from .rays import NEAR, REACH, Rays, Seen, rays_from
from .support import Overhang, overhangs

_NOTHING = np.log(1e-3)
"""A flux, or a field, below this fraction of its value at the start of the ray counts as zero."""

_VANISHES = 0.02
"""A flux that falls with a higher power of the distance to the edge vanishes there."""

_SQUARE_INTEGRABLE = -0.98
"""A density that falls with a higher power of the distance to the edge than −1 has a finite
integral there.
"""


class Edge(NamedTuple):
    """An edge at which the theory fails: the flux falls as `rate`, the density of squared
    contributions as `moment`.

    Attributes:
        axis: the coordinate along which the support ends.
        side: −1 for a lower edge, +1 for an upper one.
        at: where it ends; infinite if log p does not fall at all in that direction.
        rate: a power of the distance; the Stein identity needs it positive.
        moment: likewise; the contributions of observations have a variance if it is above −1.
    """

    axis: int
    side: int
    at: float
    rate: float
    moment: float


class SteinClass(NamedTuple):
    """Whether the theory of estimates holds for a model and a discrepancy; if not, why, and a remedy.

    Attributes:
        edges: where the Stein identity has a boundary term, or the contributions of observations
            have no variance.
        overhangs: where the model expects observations beyond the last ones.
        message: the findings as text.
    """

    edges: tuple[Edge, ...]
    overhangs: tuple[Overhang, ...]
    message: str

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.edges and not self.overhangs

    def __repr__(self) -> str:
        return self.message


def stein_class(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> SteinClass:
    """Follow rays from observations to the edges of the support, and check whether p·m vanishes
    there.

    Args:
        discrepancy: a DKSD or a DSM; its kernel or diffusion may vanish at an edge where p does
            not.
        model: log p up to a constant, −∞ or NaN outside its support, or just the formula that holds
            inside.
        x: the sample.

    >>> model = ms.models.from_log_density(lambda rate, x: -rate * x[0], ms.positive(1.0))
    >>> x = np.array([0.1, 0.2, 0.5, 0.6, 1.1, 2.3])
    >>> ms.stein_class(ms.SM(), model, x).holds
    False
    >>> ms.stein_class(ms.DSM(ms.diffusions.bounded(low=0.0)), model, x).holds
    True
    """
    x = read(x, space_of(model)).in_double()
    discrepancy.ready(model, x)
    rays = rays_from(discrepancy, model, x)
    seen = rays.look(np.tile(REACH, (len(rays.starts), 1)))
    with np.errstate(invalid="ignore"):
        found = _open_ends(rays, seen) + _closed_ends(rays, seen)
        edges = tuple({(edge.axis, edge.side): edge for edge in found}.values())
        known = {(edge.axis, edge.side) for edge in edges}
        beyond = tuple(part for part in overhangs(rays, x) if (part.axis, part.side) not in known)
    texts = ([_boundary_text(edges, x)] if edges else []) + [
        _overhang_text(part, len(x)) for part in beyond
    ]
    return SteinClass(edges, beyond, " ".join(texts) or "No boundary term was found.")


def _open_ends(rays: Rays, seen: Seen) -> list[Edge]:
    """Rays without an edge along which neither p times the distance nor the field vanishes."""
    falls = seen.log_p[:, -1] + np.log(REACH[-1]) - seen.log_p[:, 0] <= _NOTHING
    open_ = (seen.inside.all(1) & ~falls) | seen.grows
    if open_.any():
        open_ &= rays.least_size(np.tile(REACH, (len(open_), 1))) > seen.size[:, 0] + _NOTHING
    return [_edge(rays, ray, np.inf, 0.0, 0.0) for ray in np.flatnonzero(open_).tolist()]


def _closed_ends(rays: Rays, seen: Seen) -> list[Edge]:
    """Rays that end at an edge towards which the flux does not vanish, or the second moment is
    infinite.
    """
    ended, distances, near = rays.edges(seen)
    step = np.log(NEAR[0] / NEAR[-1])
    rate, moment = ((part[:, 0] - part[:, -1]) / step for part in (near.flux, near.moment))
    flows = (near.flux[:, -1] > seen.flux[:, 0] + _NOTHING) & (rate < _VANISHES)
    bad = ended & (flows | (moment < _SQUARE_INTEGRABLE))
    return [
        _edge(rays, ray, float(distances[ray]), rate[ray], moment[ray])
        for ray in np.flatnonzero(bad).tolist()
    ]


def _edge(rays: Rays, ray: int, distance: float, rate: float, moment: float) -> Edge:
    side = int(np.sign(rays.units[ray]))
    at = rays.place(ray, float(distance)) if np.isfinite(distance) else side * np.inf
    return Edge(int(rays.axes[ray]), side, at, float(rate), float(moment))


@explained("your-own-model.md")
def _boundary_text(edges: tuple[Edge, ...], x: Data) -> str:
    where = "; ".join([_edge_text(edge, x) for edge in edges[:3]] + ["…"] * (len(edges) > 3))
    ends = [
        f"{name}=..."
        for name, side in (("low", -1), ("high", 1))
        if any(edge.side == side for edge in edges)
    ]
    biased = any(edge.rate < _VANISHES for edge in edges)
    what = (
        "The Stein identity has a boundary term, so estimates are biased"
        if biased
        else "What an observation contributes to the loss has no finite variance, so standard errors are wrong"
    )
    return (
        f"{what}: {where}. If that is where the support ends, a diffusion that vanishes there is the cure: "
        f"diffusion=ms.diffusions.bounded({', '.join(ends)}). The default discrepancy has one if the support is known: "
        "support=(low, high)."
    )


def _edge_text(edge: Edge, x: Data) -> str:
    name = f"x[{edge.axis}]"
    if np.isfinite(edge.at):
        why = (
            "neither the density nor the diffusion vanishes"
            if edge.rate < _VANISHES
            else "the score grows so fast that its square is not integrable"
        )
        return f"the support ends at {name} = {edge.at:.6g}, where {why}"
    far, end = (
        ("−∞", x.min(axis=0)[edge.axis]) if edge.side < 0 else ("∞", x.max(axis=0)[edge.axis])
    )
    return (
        f"log p does not fall as {name} → {far} (the data end at {end:.6g}), "
        "so it is not a density on the whole line"
    )


@explained("your-own-model.md")
def _overhang_text(part: Overhang, n: int) -> str:
    where, last, end = (
        ("below", "smallest", "low") if part.side < 0 else ("above", "largest", "high")
    )
    return (
        f"The model expects about {part.expected:.0f} of {n} observations with x[{part.axis}] {where} {part.end:.6g}, "
        f"the {last}, and there are none. If the support ends there, estimates are biased: give it, "
        f"support=(low, high) with {end}=...; if it does not, the model does not fit."
    )


def boundary_messages(discrepancy: Any, model: LogDensity, x: Data) -> str:
    """The warning about a discrepancy at the edges of the support; empty if the theory holds there."""
    if not discrepancy.needs_stein_class:
        return ""
    found = stein_class(discrepancy, model, x)
    return "" if found.holds else found.message
