"""Rows that stay on disk, in a .npy or a Parquet file, and are read a block at a time."""

import abc
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from . import errors
from .padding import bucket
from .spaces import REALS, AbstractSpace

_ENTRIES, _LEAST_ROWS, _MOST_ROWS = 1 << 16, 1 << 4, 1 << 16
"""Entries of a block, unless told otherwise, and bounds of its rows."""

_IMPRESSION = 1 << 20
"""Entries that give an impression of the whole; as rows they have the same bounds."""


@dataclass(frozen=True)
class AbstractFile(abc.ABC):
    """A table in a file, as it was when it was opened; known by its path and the time of its last change."""

    path: str
    stamp: tuple[int, int]
    rows: int
    columns: tuple[str, ...]
    dtype: Any

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows from start to stop, in the file's own type."""


@dataclass(frozen=True)
class Npy(AbstractFile):
    """A NumPy array: `offset` bytes of header, then its entries, by rows or by columns."""

    offset: int
    wide: int
    chosen: tuple[int, ...]
    by_columns: bool

    def read(self, start, stop):
        """Plain reads: the pages of a memory map would stay in memory."""
        with open(self.path, "rb") as file:
            if self.by_columns:
                return np.stack([self._entries(file, j * self.rows + start, stop - start) for j in self.chosen], 1)
            entries = self._entries(file, start * self.wide, (stop - start) * self.wide)
            return entries.reshape(-1, self.wide)[:, self.chosen]

    def _entries(self, file: Any, first: int, count: int) -> np.ndarray:
        file.seek(self.offset + first * self.dtype.itemsize)
        return np.fromfile(file, self.dtype, count)


@dataclass(frozen=True)
class Parquet(AbstractFile):
    """A Parquet file, decoded in order; `begins` are the first rows of its groups."""

    begins: tuple[int, ...]
    stream: list = field(default_factory=list, compare=False, repr=False)
    lock: Any = field(default_factory=threading.Lock, compare=False, repr=False)

    def read(self, start, stop):
        """From where the last read ended, or else from the group of rows that holds the first."""
        with self.lock:
            place, left, batches = self.stream.pop() if self.stream else (-1, None, None)
            if place != start or batches is None or left is None:
                group = int(np.searchsorted(self.begins, start, side="right")) - 1
                batches, left = self._batches(group), np.empty((0, len(self.columns)), self.dtype)
                place = self.begins[group]
            pieces, have = [left], len(left)
            while place + have < stop:
                piece = _numbers(next(batches), self.dtype)
                pieces, have = [*pieces, piece], have + len(piece)
                if place + have <= start:
                    place, pieces, have = place + have, [], 0
            rows = np.concatenate(pieces)
            self.stream.append((stop, rows[stop - place :].copy(), batches))
            return rows[start - place : stop - place]

    def _batches(self, group: int) -> Iterator[Any]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            groups = range(group, len(self.begins))
            yield from file.iter_batches(1 << 14, row_groups=groups, columns=list(self.columns), use_threads=False)


class Survey(NamedTuple):
    """What one pass over the rows tells: the range of each column, some rows, and those that cannot be used.

    Of unusable rows there are the first few numbers, and how many there are.
    """

    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    some: Float[np.ndarray, "k d"]
    bad: tuple[int, ...]
    bad_count: int


@dataclass(frozen=True, repr=False)
class OnDisk:
    """n observations as the rows of a .npy or Parquet file that may be larger than memory.

    `ms.fit(model, ms.OnDisk("x.npy"), ms.SM())` reads them a block at a time, so that memory is that of a block. Whole
    numbers are read as floating-point ones. Nothing is unpickled.

    Args:
        path: the file.
        columns: which to take: names, or numbers from 0 in a .npy file; all if not given.
        block: rows in a block; if not given, as many as have 2¹⁶ entries, 16 at least.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]]))
    ...     x = ms.OnDisk(f"{folder}/x.npy", columns=[0])
    ...     fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> x.shape, round(fit.params["loc"], 6)
    ((3, 1), 3.0)
    """

    file: AbstractFile
    block: int
    problems: list = field(compare=False)
    surveys: dict = field(compare=False)

    def __init__(self, path: str | Path, columns: Sequence[str | int] | None = None, *, block: int | None = None):
        file = _opened(str(path), columns)
        if file.rows == 0 or not file.columns:
            raise errors.empty_sample((file.rows, len(file.columns)))
        if block is not None and block < 1:
            raise ValueError(f"block is a number of rows, at least 1, got {block}.")
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

    def __len__(self) -> int:
        return self.file.rows

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self.file.columns)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names; x0, x1, … in a .npy file."""
        return self.file.columns

    @property
    def dtype(self) -> np.dtype:
        """That of the rows as they are given out: single precision where the file has no more, else double."""
        small = self.file.dtype.kind == "f" and self.file.dtype.itemsize <= 4
        return np.dtype(np.float32 if small else np.float64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise errors.needs_memory("This")

    @property
    def blocks(self) -> int:
        """How many there are."""
        return -(-len(self) // self.block)

    def rows(self, start: int, stop: int) -> Float[np.ndarray, "b d"]:
        """Rows from start to stop."""
        if _stamp(self.file.path) != self.file.stamp:
            raise errors.file_changed(self.file.path)
        found = self.file.read(start, min(stop, len(self)))
        return np.ascontiguousarray(found, self.dtype)

    def padded(self, number: int) -> Float[np.ndarray, "B d"]:
        """A block, filled up with copies of its first row; for a callback, where what goes wrong is told later."""
        start, size = number * self.block, bucket(self.block)
        try:
            rows = self.rows(start, start + self.block)
            return np.concatenate([rows, np.broadcast_to(rows[:1], (size - len(rows), self.shape[1]))])
        except Exception as problem:
            self.problems.append(problem)
            return np.full((size, self.shape[1]), np.nan, self.dtype)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise what went wrong while blocks were read for a computation."""
        self.problems.clear()
        try:
            yield
        except Exception as reason:
            raise (self.problems or [reason])[0] from None
        if self.problems:
            raise self.problems[0]

    def pieces(self) -> Iterator[tuple[int, Float[np.ndarray, "b d"]]]:
        """The blocks, each with the number of its first row."""
        for start in range(0, len(self), self.block):
            yield start, self.rows(start, start + self.block)

    def some(self, count: int, *, seed: int = 0) -> Float[np.ndarray, "k d"]:
        """So many rows in memory, one drawn at random from each of as many equal parts of the file; one pass.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.arange(1000.0))
        ...     x = ms.OnDisk(f"{folder}/x.npy").some(10)
        >>> x.shape, (x[:, 0] // 100).tolist()
        ((10, 1), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
        """
        numbers = self._drawn(count, seed)
        return np.concatenate([rows[_within(numbers, start, len(rows))] for start, rows in self.pieces()])

    @property
    def impression(self) -> Float[np.ndarray, "k d"]:
        """At most 2¹⁶ rows, or 2²⁰ entries: what medians and starts are taken from."""
        known = next(iter(self.surveys.values()), None)
        return (known or self.survey(REALS)).some

    def survey(self, space: AbstractSpace) -> Survey:
        """What one pass over the rows tells, made once for each space that they should be in."""
        if space not in self.surveys:
            self.surveys[space] = self._survey(space)
        return self.surveys[space]

    def _survey(self, space: AbstractSpace) -> Survey:
        numbers = self._drawn(_rows(_IMPRESSION, self.shape[1]), 0)
        low, high = np.full(self.shape[1], np.inf), np.full(self.shape[1], -np.inf)
        some, bad, count = [], [], 0
        for start, rows in self.pieces():
            wrong = (~np.isfinite(rows) | space.outside(rows)).any(1)
            bad += (start + np.flatnonzero(wrong)[: errors.FEW - len(bad)]).tolist()
            count += int(wrong.sum())
            low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
            some.append(rows[_within(numbers, start, len(rows))])
        return Survey(low, high, np.concatenate(some), tuple(bad), count)

    def _drawn(self, count: int, seed: int) -> np.ndarray:
        """Numbers of rows, ascending; all of them where they are few."""
        if count >= len(self):
            return np.arange(len(self))
        ends = np.arange(count + 1) * len(self) // count
        return np.random.default_rng(seed).integers(ends[:-1], ends[1:])


def _rows(entries: int, d: int) -> int:
    """A power of two, so many rows of d columns as have at most so many entries."""
    return 1 << max(_LEAST_ROWS, min(_MOST_ROWS, entries // d)).bit_length() - 1


def _within(numbers: np.ndarray, start: int, length: int) -> np.ndarray:
    """Those in a block, counted from its first row."""
    first, last = np.searchsorted(numbers, (start, start + length))
    return numbers[first:last] - start


def _stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size


def _opened(path: str, columns: Sequence[str | int] | None) -> AbstractFile:
    """The file by its content, whatever its name."""
    if not os.path.isfile(path):
        raise errors.no_such_file(path)
    path = os.path.abspath(path)
    with open(path, "rb") as file:
        begin = file.read(6)
    if begin == b"\x93NUMPY":
        return _npy(path, columns)
    if begin.startswith(b"PAR1"):
        return _parquet(path, columns)
    raise errors.not_by_blocks(path)


def _npy(path: str, columns: Sequence[str | int] | None) -> Npy:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with open(path, "rb") as file:
        try:
            shape, by_columns, dtype = readers[np.lib.format.read_magic(file)](file)
        except (ValueError, KeyError) as reason:
            raise errors.unreadable(path, str(reason)) from reason
        offset = file.tell()
    if dtype.kind not in "biuf":
        raise errors.not_numbers(path, str(dtype))
    if len(shape) not in (1, 2):
        raise errors.wrong_shape(shape)
    n, d = shape[0], shape[1] if len(shape) == 2 else 1
    stamp = _stamp(path)
    if stamp[1] < offset + n * d * dtype.itemsize:
        raise errors.unreadable(path, f"it is shorter than {n} rows of {d} columns")
    chosen = _chosen(path, tuple(f"x{j}" for j in range(d)), columns)
    names = tuple(f"x{j}" for j in chosen)
    return Npy(path, stamp, n, names, dtype, offset, d, chosen, by_columns and len(shape) == 2)


def _parquet(path: str, columns: Sequence[str | int] | None) -> Parquet:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as reason:
        raise errors.needs_arrow(path) from reason
    try:
        with parquet.ParquetFile(path) as file:
            schema, facts = file.schema_arrow, file.metadata
            sizes = [facts.row_group(g).num_rows for g in range(facts.num_row_groups)]
    except (pyarrow.ArrowException, OSError) as reason:
        raise errors.unreadable(path, str(reason)) from reason
    names = tuple(schema.names[j] for j in _chosen(path, tuple(schema.names), columns))
    for name in names:
        kind = schema.field(name).type
        if not _is_numeric(kind):
            raise errors.not_numbers(path, f"{kind} in column {name!r}")
    single = all(str(schema.field(name).type) in ("float", "halffloat") for name in names)
    begins = tuple(int(b) for b in np.cumsum([0, *sizes])[:-1])
    return Parquet(path, _stamp(path), sum(sizes), names, np.dtype(np.float32 if single else np.float64), begins)


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def _numbers(batch: Any, dtype: Any) -> np.ndarray:
    """The columns of a batch side by side, with NaN for what is missing."""
    import pyarrow

    kind = pyarrow.from_numpy_dtype(dtype)
    as_numbers = lambda column: column.cast(pyarrow.int8()) if pyarrow.types.is_boolean(column.type) else column
    columns = [as_numbers(column).cast(kind, safe=False).to_numpy(zero_copy_only=False) for column in batch.columns]
    return np.stack(columns, 1) if columns else np.empty((0, 0), dtype)


def _chosen(path: str, names: tuple[str, ...], wanted: Sequence[str | int] | None) -> tuple[int, ...]:
    """The places of the columns that were asked for, by name or by number."""
    if wanted is None:
        return tuple(range(len(names)))
    places = []
    for column in wanted:
        place = names.index(column) if column in names else column
        if not isinstance(place, int) or not 0 <= place < len(names):
            raise errors.no_such_column(path, column, names)
        places.append(place)
    return tuple(places)
