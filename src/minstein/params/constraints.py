"""Constraints on parameters, each with a smooth one-to-one map onto ℝᵏ.

A value (a scale, a simplex, a covariance) has *coordinates*: its free numbers, which a summary
reports. `unconstrain` maps values one-to-one onto ℝᵏ, where an optimiser may move freely;
`constrain` is its inverse.
"""

import abc
from functools import lru_cache

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from .._types import Array, namespace

Coordinates = Float[Array, " k"]
Shape = tuple[int, ...]


class AbstractConstraint(eqx.Module):
    """The set of values that a parameter may take."""

    @abc.abstractmethod
    def check(self, value: Array) -> str | None:
        """Return why this value is not allowed, or None if it is."""

    @abc.abstractmethod
    def labels(self, shape: Shape) -> list[str]:
        """Return the suffix to the name of each coordinate: '' for a scalar, '[2]', '[1,0]', …"""

    @abc.abstractmethod
    def coordinates(self, value: Array) -> Coordinates:
        """Return the free numbers of a value."""

    @abc.abstractmethod
    def value(self, coordinates: Coordinates, shape: Shape) -> Array:
        """Return the value with these coordinates: the inverse of `coordinates`."""

    @abc.abstractmethod
    def unconstrain(self, value: Array) -> Coordinates:
        """Return the point of ℝᵏ that corresponds to a value."""

    @abc.abstractmethod
    def constrain(self, eta: Coordinates, shape: Shape) -> Array:
        """Return the value at a point of ℝᵏ: the inverse of `unconstrain`."""

    @abc.abstractmethod
    def links(self, shape: Shape) -> list[str]:
        """Return the scale on which each interval is symmetric: 'identity', 'log' or 'logit'."""

    def reach(self, shape: Shape) -> np.ndarray:
        """Return the size of each unconstrained coordinate beyond which its value is degenerate.

        It is ∞ for a coordinate that is unconstrained as it stands.
        """
        return np.array(
            [np.inf if link == "identity" else _LOG_REACH for link in self.links(shape)]
        )


_LOG_REACH = 25.0
"""A logarithm beyond this counts as having diverged: e²⁵ is 7e10, a ratio of scales that data
measured to any realistic precision do not support.
"""


@lru_cache(maxsize=64)
def _entry_labels(shape: Shape) -> list[str]:
    return ["" if not shape else f"[{','.join(map(str, i))}]" for i in np.ndindex(shape)]


class Entrywise(AbstractConstraint):
    """Each entry is a real number, or a positive one, mapped to ℝ by the logarithm."""

    positive: bool

    def check(self, value):
        return "must be positive" if self.positive and not np.all(np.asarray(value) > 0) else None

    def labels(self, shape):
        return _entry_labels(shape)

    def coordinates(self, value):
        return value.reshape(-1)

    def value(self, coordinates, shape):
        return coordinates.reshape(shape)

    def unconstrain(self, value):
        return (namespace(value).log(value) if self.positive else value).reshape(-1)

    def constrain(self, eta, shape):
        return (namespace(eta).exp(eta) if self.positive else eta).reshape(shape)

    def links(self, shape):
        return ["log" if self.positive else "identity"] * int(np.prod(shape))


class Scale(AbstractConstraint):
    """A scale: a positive number or vector, or a lower-triangular matrix with positive diagonal."""

    def check(self, value):
        value = np.asarray(value)
        if value.ndim < 2:
            return None if np.all(value > 0) else "must be positive"
        if value.ndim > 2 or value.shape[0] != value.shape[1]:
            return "must be a scalar, a vector or a square matrix"
        if np.any(np.triu(value, 1)) or not np.all(np.diag(value) > 0):
            return "must be lower triangular with a positive diagonal, the Cholesky factor of the covariance"
        return None

    def labels(self, shape):
        if len(shape) < 2:
            return _entry_labels(shape)
        return [f"[{i},{j}]" for i, j in zip(*np.tril_indices(shape[0]), strict=True)]

    def coordinates(self, value):
        return value.reshape(-1) if value.ndim < 2 else value[np.tril_indices(value.shape[0])]

    def value(self, coordinates, shape):
        if len(shape) < 2:
            return coordinates.reshape(shape)
        lower, place = np.tri(shape[0], dtype=bool), np.zeros(shape, int)
        place[lower] = np.arange(len(coordinates))
        return namespace(coordinates).where(lower, coordinates[place], 0)

    def unconstrain(self, value):
        xp, positive = namespace(value), self._positive(value.shape)
        coordinates = self.coordinates(value)
        return xp.where(positive, xp.log(xp.where(positive, coordinates, 1)), coordinates)

    def constrain(self, eta, shape):
        xp, positive = namespace(eta), self._positive(shape)
        return self.value(xp.where(positive, xp.exp(xp.where(positive, eta, 0)), eta), shape)

    def links(self, shape):
        return ["log" if positive else "identity" for positive in self._positive(shape)]

    def _positive(self, shape: Shape) -> np.ndarray:
        """Return which coordinates must be positive: all of a vector, the diagonal of a matrix."""
        if len(shape) < 2:
            return np.ones(int(np.prod(shape)), bool)
        rows, columns = np.tril_indices(shape[0])
        return rows == columns


class PositiveDefinite(AbstractConstraint):
    """A symmetric positive-definite matrix, mapped to ℝᵏ by way of its Cholesky factor."""

    def check(self, value):
        value = np.asarray(value)
        square = value.ndim == 2 and value.shape[0] == value.shape[1]
        if square and np.allclose(value, value.T) and np.linalg.eigvalsh(value)[0] > 0:
            return None
        return "must be a symmetric positive-definite matrix"

    def labels(self, shape):
        return Scale().labels(shape)

    def coordinates(self, value):
        return Scale().coordinates(value)

    def value(self, coordinates, shape):
        lower = Scale().value(coordinates, shape)
        return lower + namespace(lower).tril(lower, -1).T

    def unconstrain(self, value):
        return Scale().unconstrain(_cholesky(value))

    def constrain(self, eta, shape):
        factor = Scale().constrain(eta, shape)
        return factor @ factor.T

    def links(self, shape):
        return Scale().links(shape)


def _cholesky(value: Array) -> Array:
    """Return the lower Cholesky factor, or NaN if the matrix is not positive definite."""
    xp = namespace(value)
    try:
        return xp.linalg.cholesky(value)
    except np.linalg.LinAlgError:  # of NumPy; JAX returns NaN
        return np.full_like(value, np.nan)


class Simplex(AbstractConstraint):
    """Positive weights that sum to one, so that the last is determined by the others."""

    def check(self, value):
        value = np.asarray(value)
        fine = (
            value.ndim == 1 and value.size > 1 and np.all(value > 0) and np.isclose(value.sum(), 1)
        )
        return None if fine else "must be a vector of positive weights that sum to one"

    def labels(self, shape):
        return _entry_labels((shape[0] - 1,))

    def coordinates(self, value):
        return value[:-1]

    def value(self, coordinates, shape):
        return namespace(coordinates).append(coordinates, 1 - coordinates.sum())

    def unconstrain(self, value):
        log = namespace(value).log
        return log(value[:-1]) - log(value[-1])

    def constrain(self, eta, shape):
        xp = namespace(eta)
        return (softmax if xp is np else jax.nn.softmax)(xp.append(eta, 0))

    def links(self, shape):
        return ["logit"] * (shape[0] - 1)
