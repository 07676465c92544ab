"""Observations as rows, wherever they are stored: what the rest of the package asks of them.

To add a kind of data source, write a subclass of `AbstractRows`.
"""

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, Tree, namespace
from .sample import AnySample
from .spaces import AbstractSpace

QUICK = 1 << 12
"""The number of rows that are fitted first if a full fit is slow; they take about a second."""


class AbstractRows(abc.ABC):
    """n observations of d variables, in memory, on several devices or on disk."""

    is_here: ClassVar[bool] = False
    """Whether every row is in the memory of this process, on one device."""

    reads_from_disk: ClassVar[bool] = False
    """Whether each pass reads the rows from disk again, so that passes should be few and in order."""

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

    def std(self, axis: int = 0) -> Array:
        """Return the standard deviation of each column."""
        variance = self.var(axis=axis)
        return namespace(variance).sqrt(variance)

    @abc.abstractmethod
    def median(self, about: Any = None) -> Array:
        """Return the median of each column, or of the distances of its entries from `about`."""

    @abc.abstractmethod
    def gap(self, centre: Array) -> Array:
        """Return the smallest non-zero distance from the centre in each column."""

    # Some of the rows

    def some(self, count: int) -> Float[Array, "k d"]:
        """Return `count` rows in memory, evenly spaced, or all rows if there are fewer."""
        return self[np.linspace(0, len(self) - 1, min(len(self), count)).astype(int)]

    @abc.abstractmethod
    def __getitem__(self, numbers: Any) -> Array:
        """Return a few rows in memory, by their numbers."""

    @abc.abstractmethod
    def on_host(self) -> Float[np.ndarray, "n d"]:
        """Return every row in the memory of this process."""

    def in_one_array(self, most: int) -> Float[Array, "k d"]:
        """Return all rows if they are in memory, or at most `most` of them if not."""
        return self.at_hand.some(most)

    @property
    def at_hand(self) -> "AbstractRows":
        """The rows, or some of them in memory if looking at the rows means reading a file."""
        return self

    @property
    def few(self) -> "AbstractRows":
        """The rows, or a few of them that are quick to fit if the rows are on disk."""
        return self

    @property
    def plain(self) -> Any:
        """The rows as a user's function expects them: as an array if they are in memory."""
        return self

    @property
    def local(self) -> Any:
        """The rows that this process holds."""
        return self.plain

    @abc.abstractmethod
    def map(self, change: Callable) -> "AbstractRows":
        """Return the rows after applying `change` to the array that holds them."""

    def in_double(self) -> "AbstractRows":
        """Return the rows as a NumPy array of doubles, if they are in memory and not traced."""
        return self

    def with_points(self, points: Float[Array, "k d"]) -> "AbstractRows":
        """Return the rows with further points appended if they are in memory, else the rows."""
        return self

    # Checks

    @abc.abstractmethod
    def check(self, space: AbstractSpace) -> "AbstractRows":
        """Return the rows as floating-point numbers; raise if some of them are not in the space."""

    def require_together(self, name: str) -> None:  # noqa: B027  # a default, not a stub
        """Raise if the rows are not on one device; `name` is the computation that needs them there."""

    def require_memory(self, name: str) -> None:  # noqa: B027  # most kinds are in memory
        """Raise if the rows are on disk; `name` is the computation that needs them in memory."""

    def check_backend(self, name: str) -> None:  # noqa: B027  # most kinds suit every backend
        """Raise if pairs of these rows cannot be summed by the backend."""

    def first_problem(self, find: Callable[[Any], ValueError | None]) -> ValueError | None:
        """Return the problem that `find` finds in the rows, or in the first block that has one."""
        return find(self)

    # Computing

    @abc.abstractmethod
    def sample(self) -> AnySample:
        """Return the rows padded to a bucket size, so that similar sizes share a compilation."""

    def computing(self) -> AbstractContextManager:
        """Return a context that explains the errors of a computation on these rows."""
        return nullcontext()

    def check_traced(self) -> None:  # noqa: B027  # most kinds can be traced
        """Raise if JAX cannot transform a computation on these rows."""

    @abc.abstractmethod
    def bring(self, result: Tree, by_rows: bool) -> Tree:
        """Return the result of a computation, as NumPy arrays unless its rows stay on devices."""

    @abc.abstractmethod
    def rows_like(self, rows: Array) -> Any:
        """Return a result that has one row for each row of the padded sample, without the padding."""

    @abc.abstractmethod
    def flags(self, rows: Any) -> np.ndarray:
        """Return the flags of the observations, given one for each row of the padded sample."""

    # What a fit records

    def digest(self) -> str:
        """Return half of the SHA-256 of the float64 values, or "" if they are not in memory."""
        return ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes in the summary of a fit on how the rows were read."""
        return ()


Data = Float[Array | AbstractRows, "n d"]
"""Observations as rows: an array, or rows stored elsewhere."""


@errors.explained("large-data.md")
def needs_memory(name: str) -> TypeError:
    return TypeError(
        f"{name} is not computed on rows on disk. ms.fit, the loss, its derivatives and its sandwich are, for SM and "
        "DSM, for KSD and DKSD with a kernel of ms.kernels, and for the means over observations of discrete models. "
        "Take some rows into memory instead: x.some(100_000)."
    )


@errors.explained("large-data.md")
def disk_steps(name: str) -> TypeError:
    return TypeError(
        f"{name} visits observations in random order, which is slow on disk. Leave solver out, or use "
        "ms.GaussNewton() or ms.LBFGS(); or fit a sample: x.some(1_000_000)."
    )
