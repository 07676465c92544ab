"""Diffusions: the matrix field m(x) of the Stein operator, θ-free or held by the model.

A scalar, a vector or a matrix is read as m·I, diag(m) or itself. Any function of one point is a diffusion.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ._text import as_call, value_text
from ._types import Field, LogDensity, MatrixField, Point, is_traced
from .params import as_float, as_function, constant, unwrap
from .special import norm_power

__all__ = ["AbstractDiffusion", "bounded", "decay", "identity", "of_model", "redescending"]


class AbstractDiffusion(eqx.Module):
    """Something that gives the field m for a model."""

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def at(self, model: LogDensity) -> MatrixField:
        """The field x ↦ m(x) at this model."""


class Constant(AbstractDiffusion):
    """The same m everywhere; `identity` is the constant 1."""

    value: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        if np.ndim(self.value) > 2:
            raise ValueError(
                f"A constant diffusion is a scalar, a vector or a matrix, got shape {np.shape(self.value)}."
            )

    def at(self, model: LogDensity) -> MatrixField:
        return lambda x: jnp.asarray(self.value)


class Pointwise(AbstractDiffusion):
    """A field that does not know the model."""

    field: Callable = eqx.field(converter=as_function)

    def at(self, model: LogDensity) -> MatrixField:
        return self.field


class Decay(eqx.Module):
    """The field m(x) = s/(1 + r^α), r = ‖(x − c)/s‖; made by `decay`."""

    alpha: Any = eqx.field(converter=as_float)
    centre: Any = eqx.field(converter=as_float)
    scale: Any = eqx.field(converter=as_float)

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, x: Point) -> Field:
        return self.scale / (1 + norm_power((x - self.centre) / self.scale, jnp.asarray(self.alpha, x.dtype)))


class Redescending(eqx.Module):
    """The field m(x) = s exp(−r²/2a²), r = ‖(x − c)/s‖; made by `redescending`."""

    a: Any = eqx.field(converter=as_float)
    centre: Any = eqx.field(converter=as_float)
    scale: Any = eqx.field(converter=as_float)

    def __repr__(self) -> str:
        if not is_traced(self.a) and np.isinf(self.a):
            return f"Constant(value={value_text(self.scale)}), as the score redescends by itself"
        return as_call(self)

    def __call__(self, x: Point) -> Field:
        z = (x - self.centre) / self.scale
        return self.scale * jnp.exp(-jnp.vdot(z, z) / (2 * self.a**2))


class Bounded(eqx.Module):
    """The field m(x) = diag(h(x)) that vanishes at the edges of a box; made by `bounded`."""

    low: Any = eqx.field(converter=as_float)
    high: Any = eqx.field(converter=as_float)

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, x: Point) -> Field:
        has_low, has_high = jnp.isfinite(self.low), jnp.isfinite(self.high)
        low, high = jnp.where(has_low, self.low, 0), jnp.where(has_high, self.high, 1)
        below, above = x - low, high - x
        both = below * above / jnp.where(has_low & has_high, high - low, 1)
        return jnp.where(has_low & has_high, both, jnp.where(has_low, below, jnp.where(has_high, above, 1)))


class Within(eqx.Module):
    """The field of `bounded` in coordinates with an edge, and a scale s in the others."""

    edges: Bounded
    scale: Any = eqx.field(converter=as_float)

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, x: Point) -> Field:
        has_edge = jnp.isfinite(self.edges.low) | jnp.isfinite(self.edges.high)
        return jnp.where(has_edge, self.edges(x), self.scale)


class OfModel(AbstractDiffusion):
    """The field m(x) = fn(model, x); made by `of_model`."""

    fn: Callable = eqx.field(converter=as_function)
    moving: bool = eqx.field(static=True)
    refreeze: bool = eqx.field(static=True, default=False)

    def at(self, model: LogDensity) -> "AtModel":
        return AtModel(self.fn, model, self.moving)


class AtModel(eqx.Module):
    """The field x ↦ fn(model, x) at one model, which is a constant of differentiation unless the field is moving."""

    fn: Callable
    model: LogDensity
    moving: bool = eqx.field(static=True)

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, x: Point) -> Field:
        model = unwrap(self.model)
        return self.fn(model if self.moving else constant(model), x)


identity = Constant(1.0)
"""m = I, under which DKSD is KSD and DSM is score matching."""


def decay(alpha: Any, centre: Any = 0.0, scale: Any = 1.0) -> Decay:
    """m(x) = s/(1 + r^α), r = ‖(x − c)/s‖, which takes weight from observations far from c: a robust estimate.

    Args:
        alpha: α > 0. For log p falling as −|x|^b, α ≥ b − 1 keeps distant observations harmless.
        centre: c, a number or shape (d,).
        scale: s > 0, a number or shape (d,): the unit in which distance is measured, coordinate by coordinate.

    >>> round(float(ms.diffusions.decay(2.0, centre=1.0, scale=2.0)(jnp.array([5.0]))), 4)     # 2/(1 + 2²)
    0.4
    """
    _check_positive("decay", "alpha", alpha)
    _check_positive("decay", "scale", scale)
    return Decay(alpha, centre, scale)


def redescending(a: Any, centre: Any = 0.0, scale: Any = 1.0) -> Redescending:
    """m(x) = s exp(−r²/2a²), r = ‖(x − c)/s‖: observations many units from c have no influence at all.

    With c and s the median and the scaled median absolute deviation of the data and a = 2.5, estimates of a normal
    location are 95 % efficient.

    Args:
        a: a > 0, the distance at which the weight has fallen to e^(−1/2).
        centre: c, a number or shape (d,).
        scale: s > 0, a number or shape (d,): the unit in which distance is measured, coordinate by coordinate.

    >>> round(float(ms.diffusions.redescending(2.5)(jnp.array([2.5]))), 4)               # e^(−1/2)
    0.6065
    """
    _check_positive("redescending", "a", a)
    _check_positive("redescending", "scale", scale)
    return Redescending(a, centre, scale)


def _check_positive(owner: str, name: str, value: Any) -> None:
    if not is_traced(value) and not np.all(np.asarray(value) > 0):
        got = f"{float(value):g}" if np.ndim(value) == 0 else f"{np.asarray(value)}"
        raise ValueError(f"{owner}: {name} must be positive, got {got}.")


def bounded(low: Any = -np.inf, high: Any = np.inf) -> Bounded:
    """m(x) = diag(h), h = x − low, high − x, or (x − low)(high − x)/(high − low): for data on a half-line or a box.

    It vanishes at the edges, so that the Stein identity holds although the density does not vanish there. With
    low = 0, DSM is the score matching of non-negative data.

    Args:
        low, high: numbers, or shape (d,); infinite where the support has no edge.

    >>> m = ms.diffusions.bounded(low=0.0)
    >>> float(m(jnp.array([0.3]))[0])
    0.30000001192092896
    """
    if not is_traced((low, high)) and not np.all(np.asarray(low) < np.asarray(high)):
        raise ValueError("bounded: low must be below high.")
    return Bounded(low, high)


def of_model(fn: Callable, *, moving: bool = False, refreeze: bool = False) -> OfModel:
    """The diffusion m(x) = fn(model, x), which depends on θ.

    Args:
        fn: a function of the model and one point that returns a scalar, a vector or a matrix.
        moving: if false, the field is a constant when the loss is differentiated in θ, and `fit` holds it at a pilot
            fit; if true it moves with θ, as printed in the paper. Minimising with a moving field is often ill-posed.
        refreeze: hold the field at the fit again, and again, until it moves no more; harmful where there are outliers.

    >>> m = ms.diffusions.of_model(lambda model, x: 1 + ((x[0] - model.loc) / model.scale) ** 2 / model.df)
    """
    if moving and refreeze:
        raise ValueError("of_model: a field either moves with θ or is held again at each fit, not both.")
    return OfModel(fn, moving, refreeze)


def as_diffusion(diffusion: Any) -> AbstractDiffusion:
    """Read the user's argument: None, a number or array, a function of one point, or a diffusion."""
    if diffusion is None:
        return identity
    if isinstance(diffusion, AbstractDiffusion):
        return diffusion
    return Pointwise(diffusion) if callable(diffusion) else Constant(diffusion)
