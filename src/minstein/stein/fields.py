"""Fields m(x) that depend on the point alone: weights of observations, and fields that vanish at
edges.

A field that gives observations a weight, relative to one at the centre of the data, has it as the
method `weight`, which a report reads.
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from .._text import as_call, value_text
from .._types import Field, Point, Scalar, is_traced
from ..data.spaces import Box
from ..params import as_float
from .special import norm_power
from .unfolding import unfolded


class AbstractField(eqx.Module):
    """A field m(x) made by a function of `ms.diffusions`."""

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def is_off(self) -> bool:
        """Whether this is a weight that is the same for all observations."""
        return False

    @abc.abstractmethod
    def __call__(self, x: Point) -> Field: ...


class Decay(AbstractField):
    """The field m(x) = s/(1 + r^α), r = ‖(x − c)/s‖; made by `decay`."""

    alpha: Any = eqx.field(converter=as_float)
    centre: Any = eqx.field(converter=as_float)
    scale: Any = eqx.field(converter=as_float)

    def __call__(self, x: Point) -> Field:
        return self.scale * self.weight(x)

    def weight(self, x: Point) -> Scalar:
        z = (x - self.centre) / self.scale
        return 1 / (1 + norm_power(z, jnp.asarray(self.alpha, x.dtype)))


def _is_infinite(a: Any) -> bool:
    return not is_traced(a) and bool(np.isinf(a))


def _without_weights(value: Any) -> str:
    return f"Constant(value={value_text(value)}), because the score already redescends"


class Redescending(AbstractField):
    """The field m(x) = s exp(−r²/2a²), r = ‖(x − c)/s‖; made by `redescending`."""

    a: Any = eqx.field(converter=as_float)
    centre: Any = eqx.field(converter=as_float)
    scale: Any = eqx.field(converter=as_float)

    def __repr__(self) -> str:
        return _without_weights(self.scale) if self.is_off else as_call(self)

    @property
    def is_off(self) -> bool:
        return _is_infinite(self.a)

    def __call__(self, x: Point) -> Field:
        return self.scale * self.weight(x)

    def weight(self, x: Point) -> Scalar:
        z = (x - self.centre) / self.scale
        return jnp.exp(-jnp.vdot(z, z) / (2 * self.a**2))


class Plateau(AbstractField):
    """The field m(x) = exp(−(r/a)¹²/2), r = ‖L⁻¹(x − c)‖, nearly one for r < a and zero beyond; made
    by `plateau`.
    """

    a: Any = eqx.field(converter=as_float)
    centre: Any = eqx.field(converter=as_float)
    factor: Any = eqx.field(converter=as_float)

    def __repr__(self) -> str:
        return _without_weights(1.0) if self.is_off else as_call(self)

    @property
    def is_off(self) -> bool:
        return _is_infinite(self.a)

    def __call__(self, x: Point) -> Field:
        return self.weight(x)

    def weight(self, x: Point) -> Scalar:
        z = solve_triangular(jnp.asarray(self.factor), x - self.centre, lower=True)
        return jnp.exp(-((jnp.vdot(z, z) / self.a**2) ** 6) / 2)


class Bounded(AbstractField):
    """The field m(x) = diag(h(x)) that vanishes at the edges of a box; made by `bounded`."""

    low: Any = eqx.field(converter=as_float)
    high: Any = eqx.field(converter=as_float)

    @property
    def box(self) -> Box | None:
        return None if is_traced(self) else Box(*np.broadcast_arrays(self.low, self.high))

    def __call__(self, x: Point) -> Field:
        has_low, has_high = jnp.isfinite(self.low), jnp.isfinite(self.high)
        low, high = jnp.where(has_low, self.low, 0), jnp.where(has_high, self.high, 1)
        below, above = x - low, high - x
        has_both = has_low & has_high
        both = below * above / jnp.where(has_both, high - low, 1)
        one = jnp.where(has_low, below, jnp.where(has_high, above, 1))
        return jnp.where(has_both, both, one)


class Within(AbstractField):
    """The field of `bounded` in coordinates with an edge, and the scale s in the others."""

    edges: Bounded
    scale: Any = eqx.field(converter=as_float)

    @property
    def box(self) -> Box | None:
        return self.edges.box

    def __call__(self, x: Point) -> Field:
        has_edge = jnp.isfinite(self.edges.low) | jnp.isfinite(self.edges.high)
        return jnp.where(has_edge, self.edges(x), self.scale)


class Reweighted(AbstractField):
    """The field of `Within` times a weight of the coordinates in which the edges are at infinity."""

    within: Within
    plateau: Plateau

    @property
    def is_off(self) -> bool:
        return self.plateau.is_off

    @property
    def box(self) -> Box | None:
        return self.within.box

    def __call__(self, x: Point) -> Field:
        return self.weight(x) * self.within(x)

    def weight(self, x: Point) -> Scalar:
        edges = self.within.edges
        return self.plateau(unfolded(x, edges.low, edges.high))
