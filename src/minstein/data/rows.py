"""Observations as rows, wherever they are: what the rest of the package asks of them.

A new kind of data source is one subclass of `AbstractRows`.
"""

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, Tree
from .sample import AnySample
from .spaces import AbstractSpace

QUICK = 1 << 12
"""Rows that are fitted in a second or so: how many of a slow source are fitted first."""


class AbstractRows(abc.ABC):
    """n observations of d variables, in memory, on several devices or on disk."""

    is_here: ClassVar[bool] = False
    """Whether every row is in the memory of this process, on one device."""

    reads_from_disk: ClassVar[bool] = False
    """Whether each pass over the rows reads them again, so that passes should be few and in order."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """The type of the entries."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape))

    # Statistics of each column

    @abc.abstractmethod
    def min(self, axis: int = 0) -> Array:
        """Return the smallest value of each column."""

    @abc.abstractmethod
    def max(self, axis: int = 0) -> Array:
        """Return the largest value of each column."""

    @abc.abstractmethod
    def mean(self, axis: int = 0) -> Array:
        """Return the mean of each column."""

    @abc.abstractmethod
    def var(self, axis: int = 0) -> Array:
        """Return the variance of each column."""

    @abc.abstractmethod
    def std(self, axis: int = 0) -> Array:
        """Return the standard deviation of each column."""

    @abc.abstractmethod
    def median(self, about: Any = None) -> Array:
        """Return the median of each column, or of the distances of its entries from `about`."""

    @abc.abstractmethod
    def gap(self, centre: Array) -> Array:
        """Return the smallest distance from the centre that is not zero, of each column."""

    # Some of the rows

    @abc.abstractmethod
    def some(self, count: int) -> Float[Array, "k d"]:
        """Return `count` rows in memory, from all over the sample; all of them if they are fewer."""

    @abc.abstractmethod
    def __getitem__(self, numbers: Any) -> Array:
        """Return a few rows in memory, by their numbers."""

    @abc.abstractmethod
    def on_host(self) -> Float[np.ndarray, "n d"]:
        """Return every row in the memory of this process."""

    @abc.abstractmethod
    def in_one_array(self, most: int) -> Float[Array, "k d"]:
        """Return all rows if they are in memory, else at most `most` of them."""

    @property
    def at_hand(self) -> "AbstractRows":
        """The rows, or some of them in memory if each look at them would be a pass over a file."""
        return self

    @property
    def few(self) -> "AbstractRows":
        """The rows, or so few of those on disk that a fit of them is quick."""
        return self

    @property
    def plain(self) -> Any:
        """The rows as a user's function expects them: an array, if they are in memory."""
        return self

    @abc.abstractmethod
    def map(self, change: Callable) -> "AbstractRows":
        """Return the rows, each changed where it is."""

    def in_double(self) -> "AbstractRows":
        """Return the rows as a NumPy array of doubles, if they are in memory and not traced."""
        return self

    def with_points(self, points: Float[Array, "k d"]) -> "AbstractRows":
        """Return the rows with further points, or without them if they are not in memory."""
        return self

    # Checks

    @abc.abstractmethod
    def check(self, space: AbstractSpace) -> "AbstractRows":
        """Return the rows as floating-point numbers; raise if some of them are not in the space."""

    @abc.abstractmethod
    def require_together(self, name: str) -> None:
        """Raise if the rows are not on one device, for a computation that needs them there."""

    def require_memory(self, name: str) -> None:  # noqa: B027  # most kinds are in memory
        """Raise if the rows are on disk, for a computation that needs them in memory."""

    def check_backend(self, name: str) -> None:  # noqa: B027  # most kinds suit every backend
        """Raise if pairs of these rows cannot be summed by the backend."""

    def first_problem(self, find: Callable[[Any], ValueError | None]) -> ValueError | None:
        """Return what `find` says is wrong with the rows, or with the first block that is wrong."""
        return find(self)

    # Computing

    @abc.abstractmethod
    def sample(self) -> AnySample:
        """Return the rows padded to a bucket size, so that similar sizes share a compilation."""

    def computing(self) -> AbstractContextManager:
        """Return a context in which the errors of a computation on these rows are explained."""
        return nullcontext()

    def check_traced(self) -> None:  # noqa: B027  # most kinds can be traced
        """Raise if JAX cannot transform a computation on these rows."""

    @abc.abstractmethod
    def bring(self, result: Tree, by_rows: bool) -> Tree:
        """Return the result of a computation as NumPy arrays, except rows that belong elsewhere."""

    @abc.abstractmethod
    def rows_like(self, rows: Array) -> Any:
        """Return a result that has a row for each of the padded sample, without the padding."""

    @abc.abstractmethod
    def flags(self, rows: Any) -> np.ndarray:
        """Return a flag for each row of the padded sample as one for each observation."""

    # What a fit says of them

    def digest(self) -> str:
        """Return the first half of a SHA-256 of the float64 values, or "" if they are not here."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a fit says of how the rows were read."""
        return ()


Data = Float[Array | AbstractRows, "n d"]
"""Observations as rows: an array, or rows wherever they are."""


@errors.explained("large-data.md")
def needs_memory(name: str) -> TypeError:
    return TypeError(
        f"{name} is not computed on rows on disk. ms.fit, the loss, its derivatives and its sandwich are, for SM, DSM, "
        "for KSD and DKSD with a kernel of ms.kernels, and for the means over observations of discrete models. Take "
        "some rows into memory instead: x.some(100_000)."
    )


@errors.explained("large-data.md")
def disk_steps(name: str) -> TypeError:
    return TypeError(
        f"{name} visits observations in random order, which is slow on disk. Leave solver out, or use "
        "ms.GaussNewton() or ms.LBFGS(); or fit a sample: x.some(1_000_000)."
    )
