"""The spaces of observations: the reals, a box, a finite alphabet for each coordinate, or counts."""

import abc
import itertools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .. import errors
from .._text import as_call
from .._types import Array, namespace

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
        """Return whether each entry of x is outside the space."""
        return namespace(x).zeros(x.shape, bool)

    def check(self, x: np.ndarray) -> None:
        """Raise if x, of shape (n, d), has values outside the space."""
        bad = np.asarray(self.outside(x))
        if bad.any():
            raise self.refusal(x, bad, errors.rows_text(np.asarray(bad.any(axis=1))))

    def refusal(self, x: np.ndarray, bad: Bool[np.ndarray, "n d"], rows: str) -> ValueError:
        """Return the error for data whose `bad` entries, in the `rows` named, are outside the space."""
        return not_in_space(rows, self)


class Reals(AbstractSpace):
    """Any real number.

    >>> ms.spaces.REALS.discrete
    False
    """


def _ends(value: Any) -> tuple[float, ...]:
    """Return one number for all coordinates, or one for each."""
    return tuple(float(end) for end in np.ravel(np.asarray(value, np.float64)))


class Box(AbstractSpace):
    """A box, a half-line or an interval: low ≤ x ≤ high in each coordinate.

    For a model on a box, the default discrepancy of `ms.fit` uses a diffusion that vanishes at the
    edges, so that estimates are consistent whether the density vanishes there or not.

    Args:
        low, high: numbers, or shape (d,); infinite where there is no edge.

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
        super().check(x)

    def refusal(self, x, bad, rows):
        row, column = np.argwhere(bad)[0]
        low, high = (np.broadcast_to(edge, x.shape[1])[column] for edge in self.box)
        return ValueError(
            f"x has values outside the support of the model in {rows}: "
            f"x[{row}, {column}] = {x[row, column]:.6g} is not between {low:g} and {high:g}. "
            "Drop these rows, or correct the support of the model."
        )


class AbstractDiscrete(AbstractSpace):
    """A space in which a shift moves a coordinate to another value."""

    @property
    def discrete(self):
        return True

    @property
    @abc.abstractmethod
    def shifts(self) -> tuple[int, ...]:
        """The shifts to the neighbouring values of a coordinate."""

    @abc.abstractmethod
    def shifted(self, x: Float[Array, "*n"], k: int) -> Float[Array, "*n"]:
        """Return each entry of x shifted by k."""

    @abc.abstractmethod
    def inside(self, x: Float[Array, "*n"]) -> Bool[Array, "*n"]:
        """Return whether each entry, reached by a shift, is in the space."""


class Finite(AbstractDiscrete):
    """A finite alphabet in cyclic order: a shift beyond the last value continues at the first.

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

    @errors.explained("discrete.md")
    def refusal(self, x, bad, rows):
        letters = ", ".join(f"{v:g}" for v in self.values)
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
            f"x has values {shown} in {rows}, but the model lives on the alphabet {{{letters}}}.{do}"
        )

    def shifted(self, x, k):
        letters = jnp.asarray(self.values, x.dtype)
        if len(self.values) == 2:
            return letters[0] + letters[1] - x if k % 2 else x
        return letters[(self.codes(x) + k) % len(self.values)]

    def inside(self, x):
        return jnp.ones(x.shape, bool)

    def codes(self, x: Float[Array, "*n"]) -> Int[Array, "*n"]:
        """Return the position of each entry in the alphabet."""
        return jnp.argmin(jnp.abs(x[..., None] - jnp.asarray(self.values, x.dtype)), axis=-1)

    def states(self, d: int) -> Float[np.ndarray, "s d"]:
        """Return every state of d coordinates, the last varying fastest; d must be small."""
        if len(self.values) ** d > _MOST_STATES:
            raise _too_many_states(len(self.values), d, _MOST_STATES)
        return np.array(list(itertools.product(self.values, repeat=d)))


_MOST_STATES = 1 << 20
"""The most states that are enumerated: 8 MB for each coordinate in float64."""


class Counts(AbstractDiscrete):
    """The counts 0, 1, 2, ….

    >>> ms.spaces.COUNTS.discrete
    True
    """

    @property
    def shifts(self):
        return (-1, 1)

    def outside(self, x):
        return (x < 0) | (x != namespace(x).floor(x))

    @errors.explained("discrete.md")
    def refusal(self, x, bad, rows):
        shown = ", ".join(f"{v:g}" for v in np.unique(x[bad])[:4])
        return ValueError(
            f"x has values {shown} in {rows}, but the model is for counts 0, 1, 2, … "
            "For measurements on a continuous scale use a model on the reals."
        )

    def shifted(self, x, k):
        return x + k

    def inside(self, x):
        return x >= 0


REALS, COUNTS = Reals(), Counts()
SPINS, BINARY = Finite((-1.0, 1.0)), Finite((0.0, 1.0))


def space_of(model: Any) -> AbstractSpace:
    """Return the model's attribute `space`, or the reals if it has none."""
    space = getattr(model, "space", None)
    return space if isinstance(space, AbstractSpace) else REALS


def as_space(support: Any) -> AbstractSpace:
    """Return the space that the user gives as `support`: a space, or the pair (low, high) of a box."""
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


@errors.explained("discrete.md")
def not_in_space(rows: str, space: AbstractSpace) -> ValueError:
    return ValueError(f"x has values in {rows} that are not in {space!r}, where the model lives.")


@errors.explained("discrete.md")
def _too_many_states(letters: int, d: int, most: int) -> ValueError:
    return ValueError(f"{letters}^{d} states are too many to enumerate; the limit is {most}.")


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
        "for a discrete model of your own, give its space: ms.models.from_log_density(fn, params, "
        "space=ms.spaces.BINARY), or an attribute `space`."
    )
