"""Tables in files, read a few rows at a time.

To add a file format, write a subclass of `AbstractFile` and add it to `FORMATS`.
"""

import abc
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .. import errors
from .kinds import wrong_shape


@dataclass(frozen=True)
class AbstractFile(abc.ABC):
    """A table in a file, as it was when it was opened.

    Attributes:
        stamp: the time of the file's last change and its size.
        columns: the names of the columns that are read.
        dtype: the type as which `read` returns them.
    """

    name: ClassVar[str]
    """The format as a message names it."""

    magic: ClassVar[bytes]
    """The bytes with which every file of the format begins."""

    path: str
    stamp: tuple[int, int]
    rows: int
    columns: tuple[str, ...]
    dtype: Any

    @classmethod
    @abc.abstractmethod
    def open(cls, path: str, columns: Sequence[str | int] | None) -> "AbstractFile":
        """Return the chosen columns of a file, or all of them; raise if they are not numbers."""

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows from start up to stop, in the file's own type."""


@dataclass(frozen=True)
class Npy(AbstractFile):
    """A NumPy array: `offset` bytes of header, then the entries, by rows or by columns."""

    name = ".npy"
    magic = b"\x93NUMPY"

    offset: int
    wide: int
    chosen: tuple[int, ...]
    by_columns: bool

    @classmethod
    def open(cls, path, columns):
        shape, by_columns, dtype, offset = _read_header(path)
        n, d = shape[0], shape[1] if len(shape) == 2 else 1
        stamp = file_stamp(path)
        if stamp[1] < offset + n * d * dtype.itemsize:
            raise _unreadable(path, f"it is shorter than {n} rows of {d} columns")
        chosen = _choose_columns(path, tuple(f"x{j}" for j in range(d)), columns)
        names = tuple(f"x{j}" for j in chosen)
        return cls(path, stamp, n, names, dtype, offset, d, chosen, by_columns and len(shape) == 2)

    def read(self, start, stop):
        """Read without a memory map, whose pages would stay in memory."""
        with open(self.path, "rb") as file:
            if self.by_columns:
                return np.stack(
                    [self._entries(file, j * self.rows + start, stop - start) for j in self.chosen],
                    1,
                )
            entries = self._entries(file, start * self.wide, (stop - start) * self.wide)
            return entries.reshape(-1, self.wide)[:, self.chosen]

    def _entries(self, file: Any, first: int, count: int) -> np.ndarray:
        file.seek(self.offset + first * self.dtype.itemsize)
        return np.fromfile(file, self.dtype, count)


def _read_header(path: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Return the shape, whether entries are by columns, their type, and where they begin; raise if
    they are not the numbers of a table.
    """
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with open(path, "rb") as file:
        try:
            shape, by_columns, dtype = readers[np.lib.format.read_magic(file)](file)
        except (ValueError, KeyError) as reason:
            raise _unreadable(path, str(reason)) from reason
        offset = file.tell()
    if dtype.kind not in "biuf":
        raise _not_numbers(path, str(dtype))
    if len(shape) not in (1, 2):
        raise wrong_shape(shape)
    return shape, by_columns, dtype, offset


@dataclass(frozen=True)
class Parquet(AbstractFile):
    """A Parquet file, decoded in order; `begins` holds the first row of each group of rows."""

    name = "Parquet"
    magic = b"PAR1"

    begins: tuple[int, ...]
    stream: list = field(default_factory=list, compare=False, repr=False)
    lock: Any = field(default_factory=threading.Lock, compare=False, repr=False)

    @classmethod
    def open(cls, path, columns):
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as reason:
            raise _needs_arrow(path) from reason
        try:
            with parquet.ParquetFile(path) as file:
                schema, facts = file.schema_arrow, file.metadata
                sizes = [facts.row_group(g).num_rows for g in range(facts.num_row_groups)]
        except (pyarrow.ArrowException, OSError) as reason:
            raise _unreadable(path, str(reason)) from reason
        places = _choose_columns(path, tuple(schema.names), columns)
        names = tuple(schema.names[j] for j in places)
        dtype = _common_type(path, schema, names)
        begins = tuple(int(b) for b in np.cumsum([0, *sizes])[:-1])
        return cls(path, file_stamp(path), sum(sizes), names, dtype, begins)

    def read(self, start, stop):
        """Continue after the last read if possible, else decode from the group that holds `start`."""
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
            yield from file.iter_batches(
                1 << 14, row_groups=groups, columns=list(self.columns), use_threads=False
            )


FORMATS: tuple[type[AbstractFile], ...] = (Npy, Parquet)
"""The formats that can be read in blocks."""


def file_stamp(path: str) -> tuple[int, int]:
    """Return the time of the last change of a file and its size."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size


def open_file(path: str, columns: Sequence[str | int] | None) -> AbstractFile:
    """Return the table in a file, whose format is recognised by its content, not its name."""
    if not os.path.isfile(path):
        raise _no_such_file(path)
    path = os.path.abspath(path)
    with open(path, "rb") as file:
        begin = file.read(max(len(format.magic) for format in FORMATS))
    for format in FORMATS:
        if begin.startswith(format.magic):
            return format.open(path, columns)
    raise _not_by_blocks(path)


def _common_type(path: str, schema: Any, names: tuple[str, ...]) -> np.dtype:
    """Return the type that holds the numbers of these columns; raise if one is not numeric."""
    kinds = [schema.field(name).type for name in names]
    for name, kind in zip(names, kinds, strict=True):
        if not _is_numeric(kind):
            raise _not_numbers(path, f"{kind} in column {name!r}")
    single = all(str(kind) in ("float", "halffloat") for kind in kinds)
    return np.dtype(np.float32 if single else np.float64)


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def _numbers(batch: Any, dtype: Any) -> np.ndarray:
    """Return the columns of a batch side by side, with NaN for missing values."""
    import pyarrow

    kind = pyarrow.from_numpy_dtype(dtype)
    as_numbers = lambda column: (
        column.cast(pyarrow.int8()) if pyarrow.types.is_boolean(column.type) else column
    )
    columns = [
        as_numbers(column).cast(kind, safe=False).to_numpy(zero_copy_only=False)
        for column in batch.columns
    ]
    return np.stack(columns, 1) if columns else np.empty((0, 0), dtype)


def _choose_columns(
    path: str, names: tuple[str, ...], wanted: Sequence[str | int] | None
) -> tuple[int, ...]:
    """Return the positions of the columns that were asked for, by name or by number."""
    if wanted is None:
        return tuple(range(len(names)))
    places = []
    for column in wanted:
        place = names.index(column) if column in names else column
        if not isinstance(place, int) or not 0 <= place < len(names):
            raise _no_such_column(path, column, names)
        places.append(place)
    return tuple(places)


_NAMES = " and ".join(format.name for format in FORMATS)


@errors.explained("large-data.md")
def _no_such_file(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"There is no file {path}. ms.OnDisk reads {_NAMES} files.")


@errors.explained("large-data.md")
def _not_by_blocks(path: str) -> ValueError:
    return ValueError(
        f"{path} cannot be read in blocks: it is not in the format of {_NAMES} files. Write the rows with np.save, or "
        "with pyarrow.parquet.ParquetWriter if there are more than fit into memory."
    )


@errors.explained("large-data.md")
def _unreadable(path: str, reason: str) -> ValueError:
    return ValueError(f"{path} cannot be read: {reason.rstrip('.')}.")


@errors.explained("large-data.md")
def _not_numbers(path: str, kind: str) -> TypeError:
    return TypeError(
        f"{path} holds {kind}, not real numbers. Python objects are never loaded, because that may run code. If only "
        "some columns are not numeric, choose the others: ms.OnDisk(path, columns=[...])."
    )


@errors.explained("large-data.md")
def _needs_arrow(path: str) -> ImportError:
    return ImportError(f"{path} is a Parquet file, which pyarrow reads: pip install pyarrow.")


@errors.explained("large-data.md")
def _no_such_column(path: str, name: object, names: tuple[str, ...]) -> ValueError:
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return ValueError(f"{path} has no column {name!r}. It has: {shown}.")
