"""Rows that stay in a file and are read a block at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .. import errors
from .files import AbstractFile, file_stamp, open_file
from .in_memory import InMemory
from .kinds import empty_sample
from .padding import bucket, pad
from .rows import QUICK, AbstractRows, needs_memory
from .sample import Table
from .spaces import REALS, AbstractSpace

_ENTRIES, _LEAST_ROWS, _MOST_ROWS = 1 << 16, 1 << 4, 1 << 16
"""The default number of entries in a block, and the bounds on its number of rows."""

_IMPRESSION = 1 << 20
"""The number of entries in the rows from which medians and starts are computed; the same bounds on
the number of rows apply.
"""


class Survey(NamedTuple):
    """The result of one pass over the rows.

    Attributes:
        low, high: the range of each column.
        some: rows from all over the file.
        bad, bad_count: the numbers of the first few unusable rows, and the number of all of them.
    """

    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    some: Float[np.ndarray, "k d"]
    bad: tuple[int, ...]
    bad_count: int


@dataclass(frozen=True, repr=False)
class OnDisk(AbstractRows):
    """n observations as the rows of a .npy or Parquet file that may be larger than memory.

    `ms.fit(model, ms.OnDisk("x.npy"), ms.SM())` reads one block at a time and holds only that block
    in memory. Whole numbers are read as floating-point numbers. Nothing is unpickled.

    Args:
        path: the file.
        columns: the columns to read, by name or by number from 0; all by default.
        block: the number of rows in a block; by default about 2¹⁶ entries, but at least 16 rows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]]))
    ...     x = ms.OnDisk(f"{folder}/x.npy", columns=[0])
    ...     fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> x.shape, round(fit.params["loc"], 6)
    ((3, 1), 3.0)
    """

    reads_from_disk: ClassVar[bool] = True

    file: AbstractFile
    block: int
    problems: list = field(compare=False)
    surveys: dict = field(compare=False)

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str | int] | None = None,
        *,
        block: int | None = None,
    ):
        file = open_file(str(path), columns)
        if file.rows == 0 or not file.columns:
            raise empty_sample((file.rows, len(file.columns)))
        if block is not None and block < 1:
            raise ValueError(f"block must be a number of rows, at least 1, got {block}.")
        facts = {
            "file": file,
            "block": min(file.rows, block or _rows(_ENTRIES, len(file.columns))),
            "problems": [],
            "surveys": {},
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self.shape[1]} columns in {self.file.path}>"

    @property
    def shape(self) -> tuple[int, int]:
        return self.file.rows, len(self.file.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; x0, x1, … in a .npy file."""
        return self.file.columns

    @property
    def dtype(self) -> np.dtype:
        """The type as which rows are read: float32 if the file has no more precision, else float64."""
        small = self.file.dtype.kind == "f" and self.file.dtype.itemsize <= 4
        return np.dtype(np.float32 if small else np.float64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise needs_memory("This")

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-len(self) // self.block)

    def rows(self, start: int, stop: int) -> Float[np.ndarray, "b d"]:
        """Return the rows from start up to stop."""
        if file_stamp(self.file.path) != self.file.stamp:
            raise _file_changed(self.file.path)
        found = self.file.read(start, min(stop, len(self)))
        return np.ascontiguousarray(found, self.dtype)

    def padded_block(self, number: int) -> Float[np.ndarray, "B d"]:
        """Return a block, padded with copies of its first row.

        This is a callback of compiled code, which cannot raise: `computing` raises the problem later.
        """
        start, size = number * self.block, bucket(self.block)
        try:
            return pad(self.rows(start, start + self.block), size)
        except Exception as problem:
            self.problems.append(problem)
            return np.full((size, self.shape[1]), np.nan, self.dtype)

    def sample(self):
        some = InMemory(self.impression).sample()
        return Table(self, some.centre, some.largest, some.deviation)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Raise the first problem that occurred while a computation read blocks."""
        self.problems.clear()
        try:
            yield
        except Exception as reason:
            raise (self.problems or [reason])[0] from None
        if self.problems:
            raise self.problems[0]

    def pieces(self) -> Iterator[tuple[int, Float[np.ndarray, "b d"]]]:
        """Yield each block with the number of its first row."""
        for start in range(0, len(self), self.block):
            yield start, self.rows(start, start + self.block)

    def some(self, count: int, *, seed: int = 0) -> Float[np.ndarray, "k d"]:
        """Return `count` rows, one drawn at random from each of `count` equal parts of the file.

        They are read in one pass.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.arange(1000.0))
        ...     x = ms.OnDisk(f"{folder}/x.npy").some(10)
        >>> x.shape, (x[:, 0] // 100).tolist()
        ((10, 1), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
        """
        numbers = self._draw_numbers(count, seed)
        return np.concatenate(
            [rows[_within(numbers, start, len(rows))] for start, rows in self.pieces()]
        )

    @property
    def impression(self) -> Float[np.ndarray, "k d"]:
        """The rows from which medians and starts are computed: at most 2¹⁶ rows or 2²⁰ entries."""
        return self._any_survey.some

    @property
    def at_hand(self):
        return InMemory(self.impression)

    @property
    def few(self):
        rows = self.impression
        return InMemory(rows[:: -(-len(rows) // QUICK)])

    def min(self, axis=0):
        return self._any_survey.low

    def max(self, axis=0):
        return self._any_survey.high

    def mean(self, axis=0):
        return self.at_hand.mean()

    def var(self, axis=0):
        return self.at_hand.var()

    def median(self, about=None):
        return self.at_hand.median(about)

    def gap(self, centre):
        return self.at_hand.gap(centre)

    def __getitem__(self, numbers):
        raise needs_memory("This")

    def map(self, change):
        raise needs_memory("This")

    def on_host(self):
        raise needs_memory("This")

    def check(self, space):
        found = self.survey(space)
        if found.bad:
            raise _unusable_rows(found.bad, found.bad_count, len(self), space)
        return self

    def require_together(self, name):
        raise needs_memory(name)

    def require_memory(self, name):
        raise needs_memory(name)

    def check_backend(self, name):
        if name != "tiles":
            raise _disk_backend(name)

    def check_traced(self):
        raise disk_is_traced()

    def first_problem(self, find):
        for start, rows in self.pieces():
            problem = find(InMemory(rows))
            if problem is not None:
                return _in_rows(problem, start, start + len(rows))
        return None

    def bring(self, result, by_rows):
        return jax.tree.map(np.asarray, result)

    def rows_like(self, rows):
        raise needs_memory("A number for every observation")

    def flags(self, rows):
        raise needs_memory("A flag for every observation")

    @property
    def notes(self):
        return (
            f"The rows were read from disk in blocks of {self.block}; scales that were not given were computed from "
            f"{len(self.impression)} of them, and the search began at a fit of {len(self.few)}.",
        )

    @property
    def _any_survey(self) -> Survey:
        """Any survey, an earlier one if possible: they differ only in which rows are usable."""
        return next(iter(self.surveys.values()), None) or self.survey(REALS)

    def survey(self, space: AbstractSpace) -> Survey:
        """Return the result of one pass over the rows, which is made once for each space."""
        if space in self.surveys:
            return self.surveys[space]
        numbers = self._draw_numbers(_rows(_IMPRESSION, self.shape[1]), 0)
        low, high = np.full(self.shape[1], np.inf), np.full(self.shape[1], -np.inf)
        some, bad, count = [], [], 0
        for start, rows in self.pieces():
            wrong = (~np.isfinite(rows) | space.outside(rows)).any(1)
            bad += (start + np.flatnonzero(wrong)[: errors.FEW - len(bad)]).tolist()
            count += int(wrong.sum())
            low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
            some.append(rows[_within(numbers, start, len(rows))])
        self.surveys[space] = Survey(low, high, np.concatenate(some), tuple(bad), count)
        return self.surveys[space]

    def _draw_numbers(self, count: int, seed: int) -> np.ndarray:
        """Return the numbers of `count` rows in ascending order, or of all rows if there are fewer."""
        if count >= len(self):
            return np.arange(len(self))
        ends = np.arange(count + 1) * len(self) // count
        return np.random.default_rng(seed).integers(ends[:-1], ends[1:])


def _rows(entries: int, d: int) -> int:
    """Return the largest power of two of rows that have at most this many entries in d columns."""
    return 1 << max(_LEAST_ROWS, min(_MOST_ROWS, entries // d)).bit_length() - 1


def _within(numbers: np.ndarray, start: int, length: int) -> np.ndarray:
    """Return the numbers that belong to a block, counted from its first row."""
    first, last = np.searchsorted(numbers, (start, start + length))
    return numbers[first:last] - start


@errors.explained("large-data.md")
def _file_changed(path: str) -> RuntimeError:
    return RuntimeError(
        f"{path} was changed after ms.OnDisk opened it, so there is no result. Open it again once it is complete."
    )


@errors.explained("large-data.md")
def _unusable_rows(first: tuple[int, ...], count: int, n: int, space: Any) -> ValueError:
    what = (
        f"that are not in {space!r}, where the model lives"
        if space.discrete
        else "that are NaN or infinite"
    )
    return ValueError(
        f"x has entries {what}, in {errors.named_rows(first, count, n)}. Rows on disk are used as they are: write "
        "the file again without these rows."
    )


@errors.explained("large-data.md")
def disk_is_traced() -> TypeError:
    return TypeError(
        "JAX is transforming the model, but rows on disk are read by callbacks of compiled code, which have no "
        "derivative. Use ms.value_and_grad(discrepancy, model, x), or rows in memory: x.some(100_000)."
    )


@errors.explained("large-data.md")
def _disk_backend(backend: str) -> ValueError:
    return ValueError(
        f'backend="{backend}" needs all rows in memory, but they are on disk, and pairs of their blocks are summed '
        "as tiles. Leave backend out."
    )


def _in_rows(problem: Exception, start: int, stop: int) -> ValueError:
    return ValueError(f"In rows {start} to {stop - 1}, numbered from 0 at row {start}: {problem}")
