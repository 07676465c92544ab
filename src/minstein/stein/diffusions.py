"""Diffusions: the matrix field m(x) of the Stein operator, which may depend on the model.

A scalar m means m·I, a vector diag(m), and a matrix itself. Any function of one point also serves
as a diffusion.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._text import as_call
from .._types import Field, LogDensity, MatrixField, Point, is_traced
from ..data.spaces import Box
from ..params import as_float, as_function, constant, unwrap
from .fields import AbstractField, Bounded, Decay, Plateau, Redescending

__all__ = [
    "AbstractDiffusion",
    "bounded",
    "decay",
    "identity",
    "of_model",
    "plateau",
    "redescending",
]


class AbstractDiffusion(eqx.Module):
    """A rule that gives the field m for a model."""

    is_constant: ClassVar[bool] = False
    """Whether the field is known to be the same at every point."""

    follows_model: ClassVar[bool] = False
    """Whether the field depends on the model."""

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def at(self, model: LogDensity) -> MatrixField:
        """The field x ↦ m(x) at this model."""

    @property
    def box(self) -> Box | None:
        """The box at whose edges the field is known to vanish, if any."""
        return None

    @property
    def needs_pilot(self) -> bool:
        """Whether a fit evaluates the field at the estimate of a pilot fit."""
        return False


class Constant(AbstractDiffusion):
    """A constant field m; `identity` is the constant 1."""

    is_constant: ClassVar[bool] = True
    value: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        if np.ndim(self.value) > 2:
            raise ValueError(
                f"A constant diffusion must be a scalar, a vector or a matrix, got shape {np.shape(self.value)}."
            )

    def at(self, model: LogDensity) -> MatrixField:
        return lambda x: jnp.asarray(self.value)


class Pointwise(AbstractDiffusion):
    """A field that does not depend on the model."""

    field: Callable = eqx.field(converter=as_function)

    def at(self, model: LogDensity) -> MatrixField:
        return self.field

    @property
    def box(self):
        return getattr(self.field, "box", None)


class OfModel(AbstractDiffusion):
    """The field m(x) = fn(model, x); made by `of_model`."""

    follows_model: ClassVar[bool] = True
    fn: Callable = eqx.field(converter=as_function)
    moving: bool = eqx.field(static=True)

    @property
    def needs_pilot(self):
        return not self.moving

    def at(self, model: LogDensity) -> "AtModel":
        return AtModel(self.fn, model, self.moving)


class AtModel(AbstractField):
    """The field x ↦ fn(model, x) at one model; derivatives in θ ignore it unless it is moving."""

    fn: Callable
    model: LogDensity
    moving: bool = eqx.field(static=True)

    def __call__(self, x: Point) -> Field:
        model = unwrap(self.model)
        return self.fn(model if self.moving else constant(model), x)


identity = Constant(1.0)
"""m = I, under which DKSD is KSD and DSM is score matching."""


def decay(alpha: Any, centre: Any = 0.0, scale: Any = 1.0) -> Decay:
    """m(x) = s/(1 + r^α) with r = ‖(x − c)/s‖, which downweights observations far from c.

    Estimates are robust if α is large enough.

    Args:
        alpha: α > 0. If log p behaves like −|x|^b in the tails, α ≥ b − 1 bounds the influence of
            distant observations.
        centre: c, a number or shape (d,).
        scale: s > 0, a number or shape (d,): the unit of distance in each coordinate.

    >>> round(float(ms.diffusions.decay(2.0, centre=1.0, scale=2.0)(jnp.array([5.0]))), 4)     # 2/(1 + 2²)
    0.4
    """
    _check_positive("decay", "alpha", alpha)
    _check_positive("decay", "scale", scale)
    return Decay(alpha, centre, scale)


def redescending(a: Any, centre: Any = 0.0, scale: Any = 1.0) -> Redescending:
    """m(x) = s exp(−r²/2a²) with r = ‖(x − c)/s‖: distant observations have no influence at all.

    With c the median, s the scaled median absolute deviation and a = 2.5, estimates of a normal
    location are 95 % efficient.

    Args:
        a: a > 0, the distance at which the weight has decreased to e^(−1/2).
        centre: c, a number or shape (d,).
        scale: s > 0, a number or shape (d,): the unit of distance in each coordinate.

    >>> round(float(ms.diffusions.redescending(2.5)(jnp.array([2.5]))), 4)               # e^(−1/2)
    0.6065
    """
    _check_positive("redescending", "a", a)
    _check_positive("redescending", "scale", scale)
    return Redescending(a, centre, scale)


def plateau(a: Any, centre: Any, factor: Any) -> Plateau:
    """m(x) = exp(−(r/a)¹²/2) with r = ‖L⁻¹(x − c)‖: observations within a count fully, those beyond
    not at all.

    In several dimensions most of a normal sample lies at about the same distance from its centre,
    and a weight that is flat up to there loses less than `redescending` does.

    Args:
        a: a > 0, the distance at which the weight has decreased to e^(−1/2).
        centre: c, of shape (d,).
        factor: L, a lower-triangular matrix of shape (d, d) with positive diagonal, which holds the
            units and correlations of x.

    >>> m = ms.diffusions.plateau(3.0, np.zeros(2), np.eye(2))
    >>> [round(float(m(jnp.array([r, 0.0]))), 3) for r in (2.0, 3.0, 4.0)]
    [0.996, 0.607, 0.0]
    """
    _check_positive("plateau", "a", a)
    return Plateau(a, centre, factor)


def _check_positive(owner: str, name: str, value: Any) -> None:
    if not is_traced(value) and not np.all(np.asarray(value) > 0):
        got = f"{float(value):g}" if np.ndim(value) == 0 else f"{np.asarray(value)}"
        raise ValueError(f"{owner}: {name} must be positive, got {got}.")


def bounded(low: Any = -np.inf, high: Any = np.inf) -> Bounded:
    """m(x) = diag(h(x)) with h = 0 at the edges of the support, for data on a half-line or a box.

    h is x − low, high − x, or (x − low)(high − x)/(high − low), depending on which edges there are.
    Because it vanishes at the edges, the Stein identity holds even if the density does not vanish
    there. With low = 0, DSM is score matching for non-negative data.

    Args:
        low, high: numbers, or shape (d,); infinite if the support has no edge.

    >>> m = ms.diffusions.bounded(low=0.0)
    >>> float(m(jnp.array([0.3]))[0])
    0.30000001192092896
    """
    if not is_traced((low, high)) and not np.all(np.asarray(low) < np.asarray(high)):
        raise ValueError("bounded: low must be below high.")
    return Bounded(low, high)


def of_model(fn: Callable, *, moving: bool = False) -> OfModel:
    """The diffusion m(x) = fn(model, x), which depends on θ.

    Args:
        fn: a function of the model and one point that returns a scalar, a vector or a matrix.
        moving: if false, the field is treated as constant when the loss is differentiated in θ, and
            `fit` evaluates it at a pilot fit. If true, it moves with θ, as printed in the paper;
            minimisation is then often ill-posed.

    >>> m = ms.diffusions.of_model(lambda model, x: 1 + ((x[0] - model.loc) / model.scale) ** 2 / model.df)
    """
    return OfModel(fn, moving)


def as_diffusion(diffusion: Any) -> AbstractDiffusion:
    """Convert None, a number, an array, a function of one point or a diffusion to a diffusion."""
    if diffusion is None:
        return identity
    if isinstance(diffusion, AbstractDiffusion):
        return diffusion
    return Pointwise(diffusion) if callable(diffusion) else Constant(diffusion)
