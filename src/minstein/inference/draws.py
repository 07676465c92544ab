"""Points that represent a model: quantiles, exact draws, or the ends of Langevin chains."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array, LogDensity, Point, Scalar
from ..data.boundary import run
from ..data.robust import median_and_mad
from ..data.rows import Data
from ..data.sample import Sample
from ..discrepancies.markov import MALA
from ..discrepancies.markov import run as run_chains
from ..discrepancies.support import support_of
from ..kernels.heuristic import some_rows
from ..models._family import AbstractSampler
from ..params import unwrap
from ..stein.fields import Bounded
from ..stein.unfolding import folded, unfolded

COUNT = 4096
"""The number of points: an average over 4096 independent draws has an error of 1.6 % of a standard
deviation.
"""

NODES = 1024
"""The most nodes of the quadrature in one dimension, thinned from `COUNT` to save evaluations."""

_NOTHING = 1e-16
"""Nodes with a smaller weight, relative to the largest, do not change a float64 sum."""

_SEED = 20190619
"""The seed of all draws, fixed so that the same call gives the same numbers."""

_REACH, _REACH_OF_LOG = 1e6, 30.0
"""How far the nodes of the quadrature extend, in units of the spread. The second value is for a
coordinate with an edge, which is on a logarithmic scale: 30 units are a factor of e³⁰ = 1e13.
"""

_LEFT = 1e-4
"""The most probability mass allowed beyond the ends of the quadrature: less than half the mass of
one of the 4096 points.
"""

_ROUNDS, _STEPS = 12, 40
"""The number of rounds of Langevin steps, and of steps in a round. The step size is adapted after
each round of the first half, and fixed in the second half, so that the chains leave p invariant.
"""

_ACCEPTED = 0.574
"""The optimal acceptance rate of MALA (G. O. Roberts and J. S. Rosenthal, JRSS B 60, 1998)."""

_CLIP = 3.0
"""The largest distance of a chain's start from the median, in spreads: farther observations may be
outliers, from which a chain would not return if the tails of the model are light.
"""


class Draws(NamedTuple):
    """Points that represent a model.

    Attributes:
        x: `COUNT` points of equal weight.
        nodes, weights: weighted points for averages of functions: a quadrature in one dimension,
            otherwise x with equal weights.
        how: how the points were obtained, in words.
    """

    x: Float[Array, "N d"]
    nodes: Float[Array, "N d"]
    weights: Float[Array, " N"]
    how: str

    @classmethod
    def with_equal_weights(cls, x: Float[Array, "N d"], how: str) -> "Draws":
        """Draws from the model, with equal weights."""
        return cls(x, x, np.full(len(x), 1 / len(x)), how)


class Box(NamedTuple):
    """The support of a model, and the centre and spread of the data in unbounded coordinates."""

    low: Float[Array, " d"]
    high: Float[Array, " d"]
    centre: Float[Array, " d"]
    spread: Float[Array, " d"]

    @property
    def reach(self) -> float:
        """How far the quadrature extends, in spreads."""
        return _REACH_OF_LOG if np.isfinite([*self.low, *self.high]).any() else _REACH

    def holds(self, z: Float[Array, "k d"]) -> Bool[Array, " k"]:
        """Which rows are inside the support."""
        return np.all((z > self.low) & (z < self.high), axis=1)

    def unit(self, x: Float[Array, "*k d"]) -> Float[Array, "*k d"]:
        """x in unbounded coordinates, standardised by their centre and spread."""
        return (unfolded(x, self.low, self.high) - self.centre) / self.spread

    def back(self, u: Float[Array, "*k d"]) -> Float[Array, "*k d"]:
        """The inverse of `unit`."""
        return folded(self.centre + self.spread * u, self.low, self.high)


def box_of(model: LogDensity, x: Data, support: tuple[Any, Any] | None) -> Box:
    """The support as given, or else as detected along rays from the observations."""
    rows = np.asarray(some_rows(x), np.float64)
    edges = support_of(model, rows, support) or (-np.inf, np.inf)
    low, high = (np.broadcast_to(np.asarray(edge, np.float64), rows.shape[1:]) for edge in edges)
    return Box(low, high, *median_and_mad(unfolded(rows, low, high)))


def draws_of(model: LogDensity, x: Data, box: Box) -> Draws:
    """Points that represent a model.

    They are quantiles in one dimension, otherwise draws by the model's sampler if it has one, or
    else the ends of Langevin chains.

    Args:
        model: the fitted model, log p up to a constant.
        x: the data, near which the mass of the model is expected and from which chains start.
        box: the support of the model.
    """
    found = _quadrature(model, box) if len(box.centre) == 1 else None
    if found is not None:
        return found
    if isinstance(model, AbstractSampler):
        return Draws.with_equal_weights(
            model.sample(jax.random.key(_SEED), COUNT), f"{COUNT} draws from the fitted model"
        )
    rows = np.asarray(some_rows(x), np.float64)
    starts = np.clip(np.resize(box.unit(rows), (COUNT, rows.shape[1])), -_CLIP, _CLIP)
    ends = run(_chains, (box, starts), model, rows, often=True)
    return Draws.with_equal_weights(
        np.asarray(box.back(ends)),
        f"the ends of {COUNT} Langevin chains at the fitted model, {_ROUNDS * _STEPS} steps each from the observations",
    )


def _quadrature(model: LogDensity, box: Box) -> Draws | None:
    """Quantiles by the trapezoidal rule, or None if mass is left beyond its ends.

    The nodes are centred on the data in a first pass, and on the model in a second.
    """
    levels = (np.arange(COUNT) + 0.5) / COUNT
    t = np.arcsinh(box.reach) * np.linspace(-1, 1, COUNT)
    for _ in range(2):
        z = box.back(np.sinh(t)[:, None])
        log_p = run(_log_densities, None, model, z)[:COUNT]
        log_p = np.where(np.isfinite(log_p) & box.holds(z), log_p, -np.inf)
        if not np.isfinite(log_p).any():
            return None
        mass = np.exp(log_p - log_p.max()) * np.gradient(z[:, 0], t)
        if not max(mass[0], mass[-1]) < _LEFT * mass.sum() * (t[1] - t[0]):
            return None
        weights = mass / mass.sum()
        middle = np.cumsum(weights) - weights / 2
        found = box.back(np.sinh(np.interp(levels, middle, t))[:, None])
        box = Box(box.low, box.high, *median_and_mad(unfolded(found, box.low, box.high)))
    used = np.flatnonzero(weights > _NOTHING * weights.max())
    used = used[:: -(-len(used) // NODES)]
    return Draws(
        found,
        z[used],
        weights[used] / weights[used].sum(),
        f"{COUNT} quantiles of the fitted model",
    )


def _log_densities(_: None, model: LogDensity, sample: Sample) -> Float[Array, " N"]:
    return jax.vmap(unwrap(model))(sample.x)


def _chains(tree: tuple, model: LogDensity, sample: Sample) -> Float[Array, "N d"]:
    """The ends of Langevin chains, in unbounded coordinates, with an adapted step size."""
    box, starts = tree
    key, edges = jax.random.key(_SEED), Bounded(box.low, box.high)

    def log_density(u: Point) -> Scalar:
        x = box.back(u)
        return unwrap(model)(x) + jnp.sum(jnp.log(edges(x)))  # the field of `bounded` is dx/du

    def go(t: Array, state: tuple[Array, Scalar]) -> tuple[Array, Scalar]:
        u, step = state
        u, moved = run_chains(MALA(step), log_density, u, jax.random.fold_in(key, t), _STEPS)
        factor = jnp.exp(2 * (jnp.mean(moved) - _ACCEPTED))
        return u, jnp.where(t < _ROUNDS // 2, step * factor, step)

    u = jnp.asarray(starts)
    return jax.lax.fori_loop(0, _ROUNDS, go, (u, jnp.asarray(u.shape[1] ** (-1 / 6), u.dtype)))[0]
