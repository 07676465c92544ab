"""The abstract classes of models, and functions that the families share."""

import abc
from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float, PRNGKeyArray

from .._text import as_call
from .._types import Array, LogDensity, Point, is_traced, namespace
from ..data.keys import as_key
from ..data.reading import read
from ..data.robust import median_and_mad, scatter_factor
from ..data.rows import AbstractRows
from ..data.spaces import space_of
from ..params import POSITIVE, Marked, as_float, check_value, is_marked, unwrap
from ..params import plain as plain
from ..params.constraints import AbstractConstraint


class AbstractModel(eqx.Module):
    """A callable pytree: `model(x)` is log p_θ(x) up to a constant, for one point x."""

    def __repr__(self) -> str:
        return as_call(self)

    # Any, because what a user's function returns is checked only where it is used.
    def __call__(self, x: Point) -> Any:
        return unwrap(self).log_density(x)

    @abc.abstractmethod
    def log_density(self, x: Point) -> Array:
        """Return log p_θ(x) up to a constant; the parameters of self have no marks."""


class AbstractSampler(AbstractModel):
    """A model with a sampler."""

    def sample(self, key: Any, n: int) -> Float[Array, "n d"]:
        """Return n independent draws as a NumPy float64 array.

        If the key or the model is traced, the result is a JAX array.
        """
        key = as_key(key)
        if is_traced((self, key)):
            return unwrap(self).draw(key, n)
        with jax.enable_x64(True):
            return np.asarray(unwrap(self).draw(key, n), np.float64)

    @abc.abstractmethod
    def draw(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d"]:
        """Return n independent draws; the parameters of self have no marks."""


class AbstractFamily(AbstractSampler):
    """A model with a sampler and a rough estimate from data from which a fit may start."""

    def start(self, x: Any) -> "AbstractFamily":
        """Return the family at a rough, outlier-resistant estimate from which a fit may start."""
        return self.place(read(x, space_of(self)).in_double())

    @abc.abstractmethod
    def place(self, x: AbstractRows) -> "AbstractFamily":
        """Return what `start` returns, for data that have already been read."""


def is_family(model: LogDensity) -> TypeGuard[AbstractFamily]:
    """Whether a model can estimate its start from data."""
    return isinstance(model, AbstractFamily)


def starting_models(model: LogDensity, x: Any) -> list[LogDensity]:
    """Return the model itself, and its family's start on the data unless the model is traced."""
    if is_family(model) and not is_traced(model):
        return [model, model.start(x)]
    return [model]


def check_fields(model: AbstractModel, *, positive: tuple[str, ...] = ()) -> None:
    """Check each parameter against the constraint of its field.

    The shape parameters named in `positive` are held at their values and so declare no constraint;
    they must be positive.
    """
    for name, field in type(model).__dataclass_fields__.items():
        constraint = POSITIVE if name in positive else field.metadata.get("constraint")
        if constraint is not None:
            check_value(f"{type(model).__name__}: {name}", plain(getattr(model, name)), constraint)


def as_array(value: Any) -> Any:
    """Return a parameter as a floating-point array, with its mark if it has one."""
    return Marked(as_float(value.value), value.constraint) if is_marked(value) else as_float(value)


def dimension(loc: Any, scale: Any = 1.0) -> int:
    """Return the dimension d that the shapes of location and scale imply."""
    return max(np.size(plain(loc)), np.shape(plain(scale))[-1] if np.ndim(plain(scale)) else 1)


def centre(x: Point, loc: Array) -> Point:
    """Return x − loc, or raise if loc does not have one entry for each coordinate."""
    if np.size(loc) != x.shape[0]:
        raise ValueError(
            f"x has {x.shape[0]} coordinates, but the model's loc has shape {np.shape(loc)}. "
            f"Give loc one entry for each coordinate: shape ({x.shape[0]},)."
        )
    return x - jnp.reshape(loc, x.shape)


def standardise(x: Point, loc: Array, scale: Array) -> Point:
    """Return L⁻¹(x − loc) for a number σ (L = σI), a vector σ (L = diag σ) or a triangular L."""
    z = centre(x, loc)
    if np.ndim(scale) > 0 and np.shape(scale)[-1] != x.shape[0]:
        raise ValueError(
            f"x has {x.shape[0]} coordinates, but the model's scale has shape {np.shape(scale)}. "
            f"Give a scalar, a vector of shape ({x.shape[0]},) or a matrix of shape ({x.shape[0]}, {x.shape[0]})."
        )
    if jnp.ndim(scale) == 2:
        return solve_triangular(scale, z, lower=True)
    return z / scale


def spread(z: Float[Array, "n d"], loc: Array, scale: Array) -> Float[Array, "n d"]:
    """Return loc + Lz for each row z: the inverse of `standardise`."""
    return jnp.reshape(loc, (-1,)) + (z @ scale.T if jnp.ndim(scale) == 2 else z * scale)


def median_between_data(x: AbstractRows) -> Float[Array, " d"]:
    """Return the median of each coordinate, moved slightly so that no observation equals it.

    This is for models with a kink at their location.
    """
    centre, deviation = median_and_mad(x)
    # Half-way to the nearest other observation, but by no more than a hundredth of the spread, which
    # is negligible in a starting point.
    return centre + namespace(centre).minimum(x.gap(centre) / 2, deviation / 100)


def scale_like(template: Any, x: AbstractRows, factor: Any = 1.0) -> Array:
    """Return `factor` times the robust scale of the data.

    It has the form of the template: a scalar, a vector or a triangular matrix.
    """
    _, deviation = median_and_mad(x)
    xp = namespace(deviation)
    match np.ndim(plain(template)):
        case 0:
            return xp.asarray(factor * xp.exp(xp.mean(xp.log(deviation))))
        case 1:
            return factor * deviation
        case _:
            return factor * scatter_factor(x)


def _is_forbidden(constraint: AbstractConstraint, value: Array) -> bool:
    return not is_traced(value) and constraint.check(value) is not None


def with_values(model: Any, **values: Array) -> Any:
    """Return the model with new parameter values and the same marks.

    A parameter that is fixed, or whose mark forbids the new value, keeps its old one.
    """
    for name, value in values.items():
        old = getattr(model, name)
        if np.size(value) != np.size(plain(old)):
            raise ValueError(
                f"x has {np.size(value)} coordinates, but the model's {name} has {np.size(plain(old))}."
            )
        shaped = namespace(value).reshape(value, np.shape(plain(old)))
        if is_marked(old) and (old.constraint is None or _is_forbidden(old.constraint, shaped)):
            continue
        new = eqx.tree_at(lambda mark: mark.value, old, shaped) if is_marked(old) else shaped
        model = eqx.tree_at(lambda m, name=name: getattr(m, name), model, new, is_leaf=is_marked)
    return model
