"""Where observations live: the reals, a finite alphabet for each coordinate, or counts."""

import abc
import itertools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from . import errors
from ._text import as_call
from ._types import Array, is_traced, namespace

__all__ = ["BINARY", "COUNTS", "REALS", "SPINS", "Counts", "Finite", "Reals"]


class AbstractSpace(eqx.Module):
    """The values that a coordinate of x may take."""

    def __repr__(self) -> str:
        return as_call(self)

    @property
    @abc.abstractmethod
    def discrete(self) -> bool:
        """Whether the values are isolated, so that there is nothing to differentiate in x."""

    @abc.abstractmethod
    def outside(self, x: Array) -> Bool[Array, "*n"]:
        """Whether each entry of x is another value."""

    @abc.abstractmethod
    def check(self, x: np.ndarray) -> None:
        """Raise where x, of shape (n, d), has other values."""


class Reals(AbstractSpace):
    """Any real number.

    >>> ms.spaces.REALS.discrete
    False
    """

    @property
    def discrete(self):
        return False

    def outside(self, x):
        return namespace(x).zeros(x.shape, bool)

    def check(self, x):
        return None


class AbstractDiscrete(AbstractSpace):
    """A space in which a coordinate moves by shifts to other values."""

    @property
    def discrete(self):
        return True

    @property
    @abc.abstractmethod
    def shifts(self) -> tuple[int, ...]:
        """The shifts to the neighbouring values of a coordinate."""

    @abc.abstractmethod
    def shifted(self, x: Float[Array, "*n"], k: int) -> Float[Array, "*n"]:
        """Each entry of x shifted by k."""

    @abc.abstractmethod
    def inside(self, x: Float[Array, "*n"]) -> Bool[Array, "*n"]:
        """Whether each entry, reached by a shift, is a value at all."""


class Finite(AbstractDiscrete):
    """A finite alphabet, in cyclic order: a shift beyond its last value comes to the first.

    Args:
        values: the alphabet, at least two different numbers.

    >>> ms.spaces.Finite((0, 1, 2))
    Finite(values=(0.0, 1.0, 2.0))
    """

    values: tuple[float, ...] = eqx.field(static=True, converter=lambda v: tuple(float(a) for a in v))

    def __check_init__(self):
        if len(set(self.values)) != len(self.values) or len(self.values) < 2:
            raise ValueError(f"An alphabet needs at least two different values, got {self.values}.")

    @property
    def shifts(self):
        return tuple(range(1, len(self.values)))

    def outside(self, x):
        return ~namespace(x).isin(x, np.asarray(self.values, x.dtype))

    def check(self, x):
        bad = self.outside(x)
        if bad.any():
            raise errors.not_in_alphabet(x, bad, self.values)

    def shifted(self, x, k):
        letters = jnp.asarray(self.values, x.dtype)
        if len(self.values) == 2:
            return letters[0] + letters[1] - x if k % 2 else x
        return letters[(self.codes(x) + k) % len(self.values)]

    def inside(self, x):
        return jnp.ones(x.shape, bool)

    def codes(self, x: Float[Array, "*n"]) -> Int[Array, "*n"]:
        """The place of each entry in the alphabet."""
        return jnp.argmin(jnp.abs(x[..., None] - jnp.asarray(self.values, x.dtype)), axis=-1)

    def states(self, d: int) -> Float[np.ndarray, "s d"]:
        """Every state of d coordinates, the last running fastest; for a few coordinates only."""
        if len(self.values) ** d > _MOST_STATES:
            raise errors.too_many_states(len(self.values), d, _MOST_STATES)
        return np.array(list(itertools.product(self.values, repeat=d)))


_MOST_STATES = 1 << 20
"""States that may be enumerated."""


class Counts(AbstractDiscrete):
    """The whole numbers from 0 on: 0, 1, 2 and so forth.

    >>> ms.spaces.COUNTS.discrete
    True
    """

    @property
    def shifts(self):
        return (-1, 1)

    def outside(self, x):
        return (x < 0) | (x != namespace(x).floor(x))

    def check(self, x):
        bad = self.outside(x)
        if bad.any():
            raise errors.not_counts(x, bad)

    def shifted(self, x, k):
        return x + k

    def inside(self, x):
        return x >= 0


REALS, COUNTS = Reals(), Counts()
SPINS, BINARY = Finite((-1.0, 1.0)), Finite((0.0, 1.0))


def space_of(model: Any) -> AbstractSpace:
    """The space that a model says it lives on, in its attribute `space`; the reals where it says nothing."""
    space = getattr(model, "space", None)
    return space if isinstance(space, AbstractSpace) else REALS


def check_values(x: Array, space: AbstractSpace) -> None:
    """Raise where concrete data are not in the space."""
    if not is_traced(x):
        space.check(np.asarray(x))
