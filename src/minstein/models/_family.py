"""What every model of the package has in common, and what a family adds to it."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float, PRNGKeyArray

from .._text import as_call
from .._types import Array, Point, is_traced, namespace
from ..constraints import AbstractConstraint
from ..params import POSITIVE, Marked, as_float, check_value, is_marked, unwrap
from ..sample import read
from ..sharded import Data, Sharded, nearest
from ..spaces import space_of


class AbstractModel(eqx.Module):
    """A callable pytree: `model(x)` is log p_θ(x) up to a constant, for one point x of shape (d,)."""

    def __repr__(self) -> str:
        return as_call(self)

    def __call__(self, x: Point) -> Array:
        return unwrap(self).log_density(x)

    @abc.abstractmethod
    def log_density(self, x: Point) -> Array:
        """log p_θ(x) up to a constant, with every mark already taken off the parameters."""


class AbstractSampler(AbstractModel):
    """A model that can draw from itself."""

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
        """n independent draws: a NumPy float64 array, or a JAX array when the key or the model is traced."""
        if is_traced((self, key)):
            return unwrap(self).draw(key, n)
        with jax.enable_x64(True):
            return np.asarray(unwrap(self).draw(key, n), np.float64)

    @abc.abstractmethod
    def draw(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
        """n independent draws, with every mark already taken off the parameters."""


class AbstractFamily(AbstractSampler):
    """A model that can draw from itself and place itself on data."""

    def start(self, x: Any) -> "AbstractFamily":
        """The family at a rough, outlier-resistant estimate from the data: where a fit may begin."""
        x = read(x, space_of(self))
        return self.place(x if is_traced(x) or isinstance(x, Sharded) else np.asarray(x, np.float64))

    @abc.abstractmethod
    def place(self, x: Data) -> "AbstractFamily":
        """`start`, for data that have been read."""


def check_fields(model: AbstractModel, *, positive: tuple[str, ...] = ()) -> None:
    """Check each parameter against its field's constraint; the named shape parameters must be positive too."""
    for name, field in type(model).__dataclass_fields__.items():
        constraint = POSITIVE if name in positive else field.metadata.get("constraint")
        if constraint is not None:
            check_value(f"{type(model).__name__}: {name}", plain(getattr(model, name)), constraint)


def plain(value: Any) -> Any:
    """A parameter's value, marked or not."""
    return value.value if is_marked(value) else value


def as_array(value: Any) -> Any:
    """A parameter as a floating-point array, marked or not; a list that was marked too."""
    return Marked(as_float(value.value), value.constraint) if is_marked(value) else as_float(value)


def dimension(loc: Any, scale: Any = 1.0) -> int:
    """d, as the shapes of location and scale tell it."""
    return max(np.size(plain(loc)), np.shape(plain(scale))[-1] if np.ndim(plain(scale)) else 1)


def centred(x: Point, loc: Array) -> Point:
    """x − loc, refusing one location for several coordinates."""
    if np.size(loc) != x.shape[0]:
        raise ValueError(
            f"x has {x.shape[0]} coordinates, but the model's loc has shape {np.shape(loc)}. "
            f"Give loc one entry for each coordinate: shape ({x.shape[0]},)."
        )
    return x - jnp.reshape(loc, x.shape)


def standardised(x: Point, loc: Array, scale: Array) -> Point:
    """L⁻¹(x − loc), where the scale is σ (L = σI), a vector (L = diag σ) or L itself, lower triangular."""
    z = centred(x, loc)
    if np.ndim(scale) > 0 and np.shape(scale)[-1] != x.shape[0]:
        raise ValueError(
            f"x has {x.shape[0]} coordinates, but the model's scale has shape {np.shape(scale)}. "
            f"Give a scalar, a vector of shape ({x.shape[0]},) or a matrix of shape ({x.shape[0]}, {x.shape[0]})."
        )
    if jnp.ndim(scale) == 2:
        return solve_triangular(scale, z, lower=True)
    return z / scale


def spread(z: Float[Array, "n d"], loc: Array, scale: Array) -> Float[Array, "n d"]:
    """loc + L z for each row of z: the inverse of `standardised`."""
    return jnp.reshape(loc, (-1,)) + (z @ scale.T if jnp.ndim(scale) == 2 else z * scale)


MAD_TO_SD = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""


def median_and_mad(x: Data) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Median and scaled median absolute deviation of each coordinate, or what is left where most values are tied."""
    xp = namespace(x)
    if isinstance(x, Sharded):
        centre = x.median()
        deviation = MAD_TO_SD * x.median(about=centre)
    else:
        centre = xp.median(x, axis=0)
        deviation = MAD_TO_SD * xp.median(xp.abs(x - centre), axis=0)
    deviation = xp.where(deviation > 0, deviation, x.std(axis=0))
    return centre, xp.where(deviation > 0, deviation, 1.0)


def between_data(x: Data) -> Float[Array, " d"]:
    """The median of each coordinate, moved a little off any observation, for models with a kink at their location."""
    xp = namespace(x)
    centre, deviation = median_and_mad(x)
    if isinstance(x, Sharded):
        gap = x.look(nearest, centre)
    else:
        gaps = xp.abs(x - centre)
        gap = xp.where(gaps > 0, gaps, xp.inf).min(axis=0)
    return centre + xp.minimum(gap / 2, deviation / 100)


def scale_like(template: Any, deviation: Float[Array, " d"]) -> Array:
    """A scale of the template's form (scalar, vector, triangular matrix) with these deviations."""
    xp = namespace(deviation)
    match np.ndim(plain(template)):
        case 0:
            return xp.asarray(xp.exp(xp.mean(xp.log(deviation))))
        case 1:
            return deviation
        case _:
            return xp.diag(deviation)


def _forbidden(constraint: AbstractConstraint, value: Array) -> bool:
    return not is_traced(value) and constraint.check(value) is not None


def moved(model: Any, **values: Array) -> Any:
    """The model with new parameter values; marks stay, and what a mark forbids keeps its old value."""
    for name, value in values.items():
        old = getattr(model, name)
        if np.size(value) != np.size(plain(old)):
            raise ValueError(f"x has {np.size(value)} coordinates, but the model's {name} has {np.size(plain(old))}.")
        shaped = namespace(value).reshape(value, np.shape(plain(old)))
        if is_marked(old) and (old.constraint is None or _forbidden(old.constraint, shaped)):
            continue
        new = eqx.tree_at(lambda mark: mark.value, old, shaped) if is_marked(old) else shaped
        model = eqx.tree_at(lambda m, name=name: getattr(m, name), model, new, is_leaf=is_marked)
    return model
