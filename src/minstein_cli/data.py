"""Reading DATA: CSV and Parquet by Arrow, .npy by NumPy; every refusal says which column and how many."""

import csv
import io
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from .problem import Problem, unknown

_HEAD = 1 << 16
"""Bytes that are looked at to find out how a text file is written."""

_DELIMITERS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ",", "space": " "}
"""In the order in which they are tried: what seldom stands in a number or a name comes first."""

_LINES = 100
_MISSING = ("", "NA", "N/A", "na", "n/a", "NaN", "nan", "NAN", "NULL", "null", "None", "none", "#N/A", "-", ".", "?")


class Reading(NamedTuple):
    """How the user wants the file read; None means: find out."""

    columns: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None
    decimal: str = "."
    drop_missing: bool = False
    on_disk: bool | None = None


class Data(NamedTuple):
    """An (n, d) array of float64, the names of its columns, and what was done to get it."""

    x: Any
    columns: tuple[str, ...]
    name: str
    notes: tuple[str, ...] = ()


def check_source(source: str) -> None:
    """Refuse a file that is not there, before anything slow is loaded."""
    if source == "-" or source.startswith("dataset:"):
        return
    path = Path(source)
    if not path.exists():
        raise Problem(f"There is no file {source}. Data that ship with minstein are read as dataset:NAME.")
    if path.is_dir():
        raise Problem(f"{source} is a directory, not a file.")


def stays_on_disk(source: str, reading: Reading) -> bool:
    """Whether the rows are read in blocks while they are fitted: as told, or where memory may be too small for them."""
    if reading.on_disk is False:
        return False
    entries = None if source == "-" or source.startswith("dataset:") else _extent(source)
    if entries is None and reading.on_disk:
        raise Problem(f"{source} cannot be read in blocks. --on-disk is for Parquet and .npy files.")
    return entries is not None and (bool(reading.on_disk) or entries * _BYTES > _memory() / 4)


_BYTES = 8
"""Of a number in memory."""


def _extent(source: str) -> int | None:
    """How many numbers a file holds, if it is one that can be read in blocks."""
    with open(source, "rb") as file:
        begin = file.read(6)
    if begin == b"\x93NUMPY":
        return Path(source).stat().st_size // _BYTES
    if begin.startswith(b"PAR1"):
        facts = _parquet_file(source, source).metadata
        return facts.num_rows * facts.num_columns
    return None


_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Where Linux tells a container how much memory it may have."""


def _memory() -> float:
    """Bytes that this machine has, or this container may have."""
    import os

    known = getattr(os, "sysconf_names", {})
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_PHYS_PAGES" in known else math.inf
    limit = _LIMIT.read_text().strip() if _LIMIT.exists() else ""
    return min(physical, int(limit)) if limit.isdigit() else physical


def places(source: str, wanted: tuple[str, ...]) -> tuple[list[int], tuple[str, ...]]:
    """Where the chosen columns stand in a Parquet or .npy file, and their names."""
    import numpy as np

    with open(source, "rb") as file:
        is_array = file.read(6) == b"\x93NUMPY"
    if is_array:
        array = np.load(source, mmap_mode="r", allow_pickle=False)
        names = [f"x{j + 1}" for j in range(math.prod(array.shape[1:]))]
    else:
        names = _distinct(source, _parquet_file(source, source).schema_arrow.names)
    chosen = _chosen(source, names, wanted)
    return [names.index(name) for name in chosen], tuple(chosen)


def share(n: int, part: tuple[int, int]) -> slice:
    """The rows, of n, that belong to process i of P."""
    i, P = part
    return slice(i * n // P, (i + 1) * n // P)


def read(source: str, reading: Reading, part: tuple[int, int] | None = None) -> Data:
    """The chosen columns of a file, as numbers, without missing values; of process i of P, its share of the rows."""
    if part is not None:
        return _read_part(source, reading, part)
    content = _bytes(source)
    if not content.strip():
        raise Problem(f"{source} is empty.")
    if content.startswith(b"\x93NUMPY"):
        columns = _named(source, _npy(source, io.BytesIO(content)), reading.columns)
    elif content.startswith(b"PAR1"):
        columns = _parquet(source, content, reading.columns)
    elif content.startswith(b"PK"):
        raise Problem(f"{source} is a zip archive (.npz, .xlsx). Save the data as CSV, Parquet or .npy.")
    else:
        columns = _csv(source, content, reading)
    return finished(source, columns, reading)


def _read_part(source: str, reading: Reading, part: tuple[int, int]) -> Data:
    """Only this process's share of the file is read, unless the file is compressed."""
    from pyarrow import parquet

    with open(source, "rb") as file:
        begin = file.read(_HEAD)
    if begin.startswith(b"\x93NUMPY"):
        columns = _named(source, _npy(source, source, part), reading.columns)
    elif begin.startswith(b"PAR1"):
        file = parquet.ParquetFile(source, memory_map=True)
        columns = _parquet_part(source, file, reading.columns, part)
    elif begin.startswith((b"PK", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd")):
        whole = read(source, reading)
        return whole._replace(x=whole.x[share(len(whole.x), part)])
    else:
        columns = _csv(source, _lines_of(source, begin, part), reading, begin, part)
    return finished(f"{source} (the share of process {part[0]} of {part[1]})", columns, reading, part=part, name=source)


def _lines_of(source: str, begin: bytes, part: tuple[int, int]) -> bytes:
    """The lines of the table that begin in this process's share of its bytes."""
    skip, _ = _head(source, begin)
    first = sum(len(line) + 1 for line in begin.split(b"\n")[:skip])
    size = Path(source).stat().st_size
    (i, P), length = part, size - first
    with open(source, "rb") as file:
        ends = [_line_start(file, first + k * length // P, first) for k in (i, i + 1)]
        file.seek(ends[0])
        return file.read(ends[1] - ends[0])


def _line_start(file: Any, position: int, first: int) -> int:
    """Where the first line begins at or after a position."""
    if position <= first:
        return first
    file.seek(position - 1)
    file.readline()
    return file.tell()


def _parquet_part(source: str, file: Any, wanted: tuple[str, ...], part: tuple[int, int]) -> dict[str, Any]:
    """From the groups of rows that hold some of this process's share."""
    mine = share(file.metadata.num_rows, part)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    begins = [sum(sizes[:g]) for g in range(len(sizes))]
    groups = [g for g, b in enumerate(begins) if b < mine.stop and b + sizes[g] > mine.start]
    chosen = _chosen(source, _distinct(source, file.schema_arrow.names), wanted)
    table = file.read_row_groups(groups, columns=chosen)
    offset = mine.start - (begins[groups[0]] if groups else 0)
    return {name: table.column(name).slice(offset, mine.stop - mine.start) for name in chosen}


def from_dataset(dataset: Any, source: str, reading: Reading) -> Data:
    """Data that ship with minstein."""
    columns = {str(name): dataset.x[:, j] for j, name in enumerate(dataset.columns)}
    return finished(source, _named(source, columns, reading.columns), reading)


def _named(source: str, columns: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    return {name: columns[name] for name in _chosen(source, list(columns), wanted)}


def _bytes(source: str) -> bytes:
    """The whole file, unpacked if its name ends in .gz or its like."""
    if source == "-":
        return sys.stdin.buffer.read()
    import pyarrow

    try:
        with pyarrow.input_stream(source) as stream:
            return stream.read()
    except OSError as reason:
        raise Problem(f"{source} cannot be read: {reason.strerror or reason}.") from reason


def finished(
    source: str, columns: dict[str, Any], reading: Reading, *, part: tuple[int, int] | None = None, name: str = ""
) -> Data:
    """The columns as one array, after every check that needs no model, nor rows that other processes have."""
    import numpy as np

    if part is None and all(len(column) == 0 for column in columns.values()):
        raise Problem(f"{source} has no rows.")
    for column in columns:
        _check_numeric(source, column, columns[column], columns, may_be_empty=part is not None)
    x = np.column_stack([_numbers(columns[column]) for column in columns])
    x, notes = _without_missing(source, x, tuple(columns), reading.drop_missing)
    _check_infinite(source, x, tuple(columns))
    if part is None:
        check_extent(source, len(x), tuple(columns), x.min(0, initial=np.inf), x.max(0, initial=-np.inf))
    return Data(x, tuple(columns), name or source, notes)


def _chosen(source: str, names: list[str], wanted: tuple[str, ...]) -> list[str]:
    """The columns that were asked for, in that order: by name, or by number where there is no such name."""
    if not wanted:
        return names
    found = []
    for text in wanted:
        for name in [text] if text in names else [part.strip() for part in text.split(",")]:
            if name not in names and name.isdigit() and 1 <= int(name) <= len(names):
                name = names[int(name) - 1]
            if name not in names:
                raise unknown(f"column in {source} named", name, names)
            if name in found:
                raise Problem(f"--columns names {name!r} twice.")
            found.append(name)
    return found


def _distinct(source: str, names: list[str]) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Problem(f"{source} has two columns named {twice!r}. Rename one of them.")
    return names


# Arrow


def _csv(
    source: str, content: bytes, reading: Reading, head: bytes | None = None, part: tuple[int, int] | None = None
) -> dict[str, Any]:
    """The table, or the share of it that a process has, where `head` is how it begins."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    skip, lines = _head(source, content if head is None else head)
    delimiter = _delimiter(reading.delimiter, lines)
    first = next(csv.reader(lines, delimiter=delimiter))
    header = not all(_is_number(cell, reading.decimal) for cell in first) if reading.header is None else reading.header
    named = [cell.strip() for cell in first] if header else [f"x{i + 1}" for i in range(len(first))]
    names = _distinct(source, named)
    chosen = _chosen(source, names, reading.columns)
    if part is not None:
        skip, header = 0, header and part[0] == 0
        if content.count(b"\n") <= header and not content.split(b"\n")[-1].strip():
            return {name: pyarrow.chunked_array([[]], pyarrow.float64()) for name in chosen}
    try:
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(content),
            read_options=arrow_csv.ReadOptions(skip_rows=skip + header, column_names=names),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(
                null_values=_MISSING, strings_can_be_null=True, decimal_point=reading.decimal, include_columns=chosen
            ),
        )
    except pyarrow.ArrowInvalid as reason:
        raise Problem(f"{source} cannot be read as CSV: {str(reason).rstrip('.')}.") from reason
    return {name: table.column(name) for name in chosen}


def _head(source: str, content: bytes) -> tuple[int, list[str]]:
    """How many lines of comment and blank lines there are before the table, and the first lines of it."""
    try:
        text = content[:_HEAD].decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        if reason.start < len(content[:_HEAD]) - 4:
            raise Problem(f"{source} is neither text in UTF-8 nor a Parquet or .npy file.") from reason
        text = content[: reason.start].decode("utf-8-sig")
    lines = io.StringIO(text).readlines()
    skip = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    if skip == len(lines):
        raise Problem(f"{source} has no rows, only comments.")
    return skip, lines[skip : skip + _LINES] if len(content) <= _HEAD else lines[skip:-1][:_LINES] or lines[skip:]


def _delimiter(given: str | None, lines: list[str]) -> str:
    if given is not None:
        delimiter = _DELIMITERS.get(given, given.replace("\\t", "\t"))
        if len(delimiter) != 1:
            raise Problem(f"--delimiter must be one character or one of {', '.join(_DELIMITERS)}, got {given!r}.")
        return delimiter
    return next((c for c in _DELIMITERS.values() if _divides(lines, c)), ",")


def _divides(lines: list[str], delimiter: str) -> bool:
    """Whether the delimiter cuts every line into the same number of parts, two at least."""
    counts = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
    return len(counts) == 1 and counts != {1}


def _is_number(cell: str, decimal: str) -> bool:
    """Whether a cell of the first row is data: a number, or a mark for a missing one."""
    cell = cell.strip()
    if cell in _MISSING:
        return True
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _parquet(source: str, content: bytes, wanted: tuple[str, ...]) -> dict[str, Any]:
    import pyarrow

    file = _parquet_file(source, pyarrow.BufferReader(content))
    chosen = _chosen(source, _distinct(source, file.schema_arrow.names), wanted)
    try:
        table = file.read(columns=chosen)
    except (pyarrow.ArrowException, OSError) as reason:
        raise _not_parquet(source, reason) from reason
    return {name: table.column(name) for name in chosen}


def _parquet_file(source: str, content: Any) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(content)
    except (pyarrow.ArrowException, OSError) as reason:
        raise _not_parquet(source, reason) from reason


def _not_parquet(source: str, reason: Exception) -> Problem:
    return Problem(f"{source} cannot be read as Parquet: {str(reason).rstrip('.')}.")


def _check_numeric(source: str, name: str, column: Any, columns: dict[str, Any], *, may_be_empty: bool) -> None:
    from pyarrow import types

    kind = getattr(column, "type", None)
    if kind is None or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return
    if types.is_null(kind) and may_be_empty:
        return
    if types.is_null(kind):
        raise Problem(f"Column {name!r} of {source} has no values at all. Leave it out with --columns.")
    usable = [n for n, c in columns.items() if types.is_integer(c.type) or types.is_floating(c.type)]
    advice = f" The numeric columns are: --columns {','.join(usable)}" if usable else ""
    raise Problem(f"Column {name!r} of {source} is not numeric: {_example(column, kind)}.{advice}")


def _example(column: Any, kind: Any) -> str:
    """The first cell that is not a number."""
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value if value is not None else 0)
        except (TypeError, ValueError):
            hint = " (is that a decimal comma? then --decimal ,)" if _is_number(str(value), ",") else ""
            return f"row {row + 1} has {str(value)[:40]!r}{hint}"
    return f"its type is {kind}"


def _numbers(column: Any) -> Any:
    """A column as float64, with NaN for what is missing."""
    import numpy as np

    if isinstance(column, np.ndarray):
        return column
    import pyarrow

    return column.cast(pyarrow.float64(), safe=False).to_numpy().astype(np.float64)


# NumPy


def _npy(source: str, file: Any, part: tuple[int, int] | None = None) -> dict[str, Any]:
    import numpy as np

    try:
        array = np.load(file, mmap_mode=None if part is None else "r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as reason:
        if "allow_pickle" in str(reason):
            raise Problem(f"{source} holds Python objects, which are not loaded because that may run code.") from reason
        raise Problem(f"{source} cannot be read: {str(reason).rstrip('.')}.") from reason
    if array.ndim not in (1, 2):
        raise Problem(f"{source} has shape {array.shape}. It needs a row for each observation: (n, d) or (n,).")
    if array.dtype.kind not in "iuf":
        raise Problem(f"{source} holds {array.dtype}, not real numbers.")
    array = array if part is None else array[share(len(array), part)]
    table = array.reshape(len(array), math.prod(array.shape[1:])).astype(np.float64)
    return {f"x{j + 1}": table[:, j] for j in range(table.shape[1])}


# Checks


def _without_missing(source: str, x: Any, columns: tuple[str, ...], drop: bool) -> tuple[Any, tuple[str, ...]]:
    import numpy as np

    missing = np.isnan(x)
    if not missing.any():
        return x, ()
    rows = int(missing.any(axis=1).sum())
    if not drop:
        counts = ", ".join(f"{name} {int(n)}" for name, n in zip(columns, missing.sum(axis=0), strict=True) if n)
        raise Problem(
            f"{source} has missing values in {rows} of {len(x)} rows. By column: {counts}. "
            "Leave those rows out with --drop-missing."
        )
    return x[~missing.any(axis=1)], (f"{rows} of {len(x)} rows have missing values and were left out.",)


def _check_infinite(source: str, x: Any, columns: tuple[str, ...]) -> None:
    import numpy as np

    for name, column in zip(columns, x.T, strict=True):
        infinite = int(np.isinf(column).sum())
        if infinite:
            raise Problem(f"Column {name!r} of {source} has {infinite} infinite value{'s' * (infinite > 1)}.")


def check_extent(source: str, n: int, columns: tuple[str, ...], low: Any, high: Any) -> None:
    """Refuse what is too little to fit anything to: of n rows, the least and the greatest value of each column."""
    if n == 0:
        raise Problem(f"{source} has no rows without missing values.")
    if n == 1:
        raise Problem(f"{source} has one row, and a fit needs at least two observations.")
    for name, least, greatest in zip(columns, low, high, strict=True):
        if least == greatest:
            raise Problem(
                f"Column {name!r} of {source} is constant: all {n} values are {least:g}, "
                "so it says nothing about a distribution. Leave it out with --columns."
            )
