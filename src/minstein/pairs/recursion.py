"""G of a Matérn kernel, on points in ascending order, exactly and in linear time.

In suitable units the kernel is a polynomial times e^(−r), and so are its derivatives. The moments
M_p = Σ r^p/p! e^(−r) of the points to the left follow from those at the previous point: over a gap h
they become e^(−h) Σ_q h^(p−q)/(p−q)! M_q. Nothing is subtracted, and the pair of a point with itself
is never added.

Arrays have axes i of steps, c of columns, those of t and then those of m, and l of lanes: stretches
of consecutive points that are scanned in parallel.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float
from numpy.polynomial import Polynomial

from .._types import Array, Tree
from ..kernels import Matern

_LANES = 2048
"""The most lanes: more would shorten the scan within lanes, but lengthen the scan over lanes."""


def apply(kernel: Matern, z: Float[Array, " N"], phi: Float[Array, "c N"]) -> Float[Array, "c N"]:
    """(F, J) at points z in ascending order, for the columns of t and then those of m."""
    a = jnp.sqrt(2 * kernel.smoothness) / kernel.lengthscale
    scaled = lambda fields: fields * jnp.where(jnp.arange(len(phi)) < len(phi) // 2, 1, a)[:, None]
    sources = scaled(phi)
    # differences are taken before scaling, so that they are exact however far the points are from 0
    gaps = a * (z[1:] - z[:-1])
    right = _from_left(kernel.smoothness, gaps, sources, 1)
    left = _from_left(kernel.smoothness, gaps[::-1], sources[:, ::-1], -1)[:, ::-1]
    return scaled(right + left)


def _from_left(
    smoothness: float, gaps: Float[Array, " g"], phi: Float[Array, "c N"], sign: int
) -> Float[Array, "c N"]:
    """The contributions to F and J of the sources to the left; `sign` is that of xᵢ − xⱼ before the
    line is mirrored.
    """
    coefficients = _coefficients(smoothness)
    by_lane = lambda rows: jnp.moveaxis(
        rows.reshape(*rows.shape[:-1], _lanes(phi.shape[1]), -1), -1, 0
    )
    gaps, sources = by_lane(jnp.append(0, gaps)), by_lane(_previous(phi))
    step = lambda moments, point: _advance(point[0], (moments[0] + point[1], *moments[1:]))
    inner = gaps.at[0].set(0), sources.at[0].set(0)  # a lane alone starts at its first point
    nothing = tuple(jnp.zeros_like(sources[0]) for _ in range(coefficients.shape[1]))
    ends = lax.scan(lambda moments, point: (step(moments, point), None), nothing, inner)[0]
    begin = _between_lanes(ends, jnp.sum(inner[0], 0), gaps[0], sources[0])

    def emit(moments: tuple, point: tuple) -> tuple[tuple, Array]:
        moments = step(moments, point)
        return moments, _fields(coefficients, moments, sign)

    fields = lax.scan(emit, begin, inner)[1]
    return jnp.moveaxis(fields, 0, -1).reshape(phi.shape)


def _lanes(rows: int) -> int:
    """The number of lanes, a divisor of the rows that leaves at least eight steps in each."""
    return next(lanes for lanes in range(min(_LANES, rows // 8), 0, -1) if rows % lanes == 0)


def _previous(phi: Float[Array, "c N"]) -> Float[Array, "c N"]:
    """The source at the point before each point."""
    return jnp.concatenate([jnp.zeros_like(phi[:, :1]), phi[:, :-1]], axis=1)


def _advance(h: Array, moments: tuple) -> tuple:
    """The moments after a gap h."""
    decay = jnp.exp(-h)
    factors = [decay * h**j / math.factorial(j) for j in range(len(moments))]
    return tuple(
        sum(factors[p - q] * moments[q] for q in range(p + 1)) for p in range(len(moments))
    )


def _between_lanes(ends: tuple, widths: Array, gaps: Array, last: Array) -> tuple:
    """Return the moments of all earlier lanes at the first point of each lane.

    Args:
        ends: the moments of each lane alone, at its last point.
        widths: the lengths of the lanes.
        gaps: the distance of each lane from the previous one.
        last: the source at the last point of the previous lane.
    """
    lane = lambda part: jnp.moveaxis(part, -1, 0)
    before = tuple(jnp.concatenate([jnp.zeros_like(lane(end)[:1]), lane(end)[:-1]]) for end in ends)
    width_before = jnp.append(0, widths[:-1])

    def step(moments: Tree, inflow: Any) -> tuple[Tree, Tree]:
        width, gap, source, *own = inflow
        moments = tuple(a + b for a, b in zip(_advance(width, moments), own, strict=True))
        moments = _advance(gap, (moments[0] + source, *moments[1:]))
        return moments, moments

    nothing = tuple(jnp.zeros_like(part[0]) for part in before)
    arrived = lax.scan(step, nothing, (width_before, gaps, lane(last), *before))[1]
    return tuple(jnp.moveaxis(part, 0, -1) for part in arrived)


def _fields(coefficients: np.ndarray, moments: tuple, sign: int) -> Float[Array, "c l"]:
    """F and J from the moments of t and of m."""
    k, slope, curvature = (
        sum(c * m for c, m in zip(row, moments, strict=True)) for row in coefficients.tolist()
    )
    (kt, _), (st, sm), (_, cm) = (jnp.split(part, 2) for part in (k, slope, curvature))
    return jnp.concatenate([kt - sign * sm, sign * st - cm])


def _coefficients(smoothness: float) -> np.ndarray:
    """The coefficients of k, k′ and k″ in r^p/p! e^(−r), one row each."""
    degree = int(smoothness - 0.5)
    ratio = lambda j: (
        math.factorial(degree) / math.factorial(2 * degree) * math.factorial(2 * degree - j)
    )
    terms = [
        2**j * ratio(j) / math.factorial(j) / math.factorial(degree - j) for j in range(degree + 1)
    ]
    k = Polynomial(terms)
    slope = k.deriv() - k
    rows = [k, slope, slope.deriv() - slope]
    powers = np.array([math.factorial(p) for p in range(degree + 1)])
    return np.stack([np.pad(row.coef, (0, degree + 1 - len(row.coef))) * powers for row in rows])
