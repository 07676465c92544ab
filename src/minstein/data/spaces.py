"""Where observations live: the reals, a box, a finite alphabet for each coordinate, or counts."""

import abc
import itertools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .. import errors
from .._text import as_call
from .._types import Array, is_traced, namespace

__all__ = ["BINARY", "COUNTS", "REALS", "SPINS", "Box", "Counts", "Finite", "Reals"]


class AbstractSpace(eqx.Module):
    """The values that a coordinate of x may take."""

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def discrete(self) -> bool:
        """Whether the values are isolated, so that there is nothing to differentiate in x."""
        return False

    @property
    def box(self) -> "tuple[np.ndarray, np.ndarray] | None":
        """The lower and the upper edge of each coordinate, or None if the space has no edges."""
        return None

    def outside(self, x: Array) -> Bool[Array, "*n"]:
        """Whether each entry of x is another value."""
        return namespace(x).zeros(x.shape, bool)

    @abc.abstractmethod
    def check(self, x: np.ndarray) -> None:
        """Raise if x, of shape (n, d), has other values."""


class Reals(AbstractSpace):
    """Any real number.

    >>> ms.spaces.REALS.discrete
    False
    """

    def check(self, x):
        return None


def _ends(value: Any) -> tuple[float, ...]:
    """One number for all coordinates, or one for each."""
    return tuple(float(end) for end in np.ravel(np.asarray(value, np.float64)))


class Box(AbstractSpace):
    """A box, a half-line or an interval: low ≤ x ≤ high in each coordinate.

    The default of `ms.fit` for a model on a box uses a diffusion that vanishes at its edges, so
    that estimates are right whether the density vanishes there or not.

    Args:
        low, high: numbers, or shape (d,); infinite in directions in which there is no edge.

    >>> ms.spaces.Box(low=0.0).box
    (array([0.]), array([inf]))
    """

    low: tuple[float, ...] = eqx.field(static=True, converter=_ends, default=(-np.inf,))
    high: tuple[float, ...] = eqx.field(static=True, converter=_ends, default=(np.inf,))

    def __check_init__(self):
        if len({1, len(self.low), len(self.high)}) > 2:
            raise ValueError(f"Box: low has {len(self.low)} entries and high has {len(self.high)}.")
        if not np.all(np.less(*self.box)):
            raise ValueError(f"Box: low must be below high, got {self.low} and {self.high}.")

    @property
    def box(self):
        return np.array(self.low), np.array(self.high)

    def outside(self, x):
        low, high = self.box
        return (x < low) | (x > high)

    def check(self, x):
        entries = max(len(self.low), len(self.high))
        if entries not in (1, x.shape[1]):
            raise ValueError(f"The support has {entries} coordinates, but x has {x.shape[1]}.")
        bad = self.outside(x)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            low, high = (np.broadcast_to(edge, x.shape[1])[column] for edge in self.box)
            raise ValueError(
                f"x has values outside the support of the model in {errors.rows_text(np.asarray(bad.any(axis=1)))}: "
                f"x[{row}, {column}] = {x[row, column]:.6g} is not between {low:g} and {high:g}. "
                "Drop these rows, or give the support that the model has."
            )


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

    values: tuple[float, ...] = eqx.field(
        static=True, converter=lambda v: tuple(float(a) for a in v)
    )

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
            raise _not_in_alphabet(x, bad, self.values)

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
            raise _too_many_states(len(self.values), d, _MOST_STATES)
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
            raise _not_counts(x, bad)

    def shifted(self, x, k):
        return x + k

    def inside(self, x):
        return x >= 0


REALS, COUNTS = Reals(), Counts()
SPINS, BINARY = Finite((-1.0, 1.0)), Finite((0.0, 1.0))


def space_of(model: Any) -> AbstractSpace:
    """The space that a model says it lives on, in its attribute `space`; the reals where it says
    nothing.
    """
    space = getattr(model, "space", None)
    return space if isinstance(space, AbstractSpace) else REALS


def as_space(support: Any) -> AbstractSpace:
    """Read the user's `support`: a space, or the pair (low, high) of a box."""
    if isinstance(support, AbstractSpace):
        return support
    try:
        low, high = support
        return Box(low, high)
    except (TypeError, ValueError) as reason:
        raise ValueError(
            f"support must be a pair (low, high) of numbers or of arrays of shape (d,), got {support!r}. "
            "For the positive half-line write support=(0, np.inf)."
        ) from reason


def check_values(x: Array, space: AbstractSpace) -> None:
    """Raise where concrete data are not in the space."""
    if not is_traced(x):
        space.check(np.asarray(x))


@errors.explained("discrete.md")
def _not_in_alphabet(x: np.ndarray, bad: np.ndarray, values: tuple[float, ...]) -> ValueError:
    letters = ", ".join(f"{v:g}" for v in values)
    others = np.unique(x[bad])
    shown = ", ".join(f"{v:g}" for v in others[:4]) + (", …" if len(others) > 4 else "")
    do = ""
    if set(np.unique(x)) <= {0.0, 1.0}:
        do = " Write 2 * x - 1 for spins."
    elif set(np.unique(x)) <= {-1.0, 1.0}:
        do = " Write (x + 1) / 2 for zeros and ones."
    elif len(others) > 20:
        do = " These look like continuous data: use a model on the reals, or round them."
    return ValueError(
        f"x has values {shown} in {errors.rows_text(np.asarray(bad.any(axis=1)))}, but the model lives on the alphabet "
        f"{{{letters}}}.{do}"
    )


@errors.explained("discrete.md")
def _not_counts(x: np.ndarray, bad: np.ndarray) -> ValueError:
    shown = ", ".join(f"{v:g}" for v in np.unique(x[bad])[:4])
    return ValueError(
        f"x has values {shown} in {errors.rows_text(np.asarray(bad.any(axis=1)))}, but the model "
        "is one of counts 0, 1, 2, … "
        "For measurements on a continuous scale use a model on the reals."
    )


@errors.explained("discrete.md")
def _too_many_states(letters: int, d: int, most: int) -> ValueError:
    return ValueError(f"{letters}^{d} states are too many to enumerate; at most {most} are.")


@errors.explained("discrete.md")
def needs_continuous(name: str, space: Any) -> TypeError:
    return TypeError(
        f"{name} differentiates log p in x, but the model lives on {space!r}, where there is no derivative. "
        "Use ms.MPF(), ms.PseudoLikelihood(), ms.DFD(), ms.DiscreteKSD() or ms.CD(kernel)."
    )


@errors.explained("discrete.md")
def needs_discrete(name: str, what: str, space: Any) -> TypeError:
    return TypeError(
        f"{name} needs a model on {what}, but this one lives on {space!r}. For continuous data use ms.KSD or ms.SM; "
        "for a discrete model of your own say where it lives: ms.models.from_log_density(fn, params, "
        "space=ms.spaces.BINARY), or an attribute `space`."
    )
