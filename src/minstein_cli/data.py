"""Reading DATA: CSV and Parquet by Arrow, .npy by NumPy; every refusal says which column and how
many.
"""

import csv
import io
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import checks, memory, text_file
from .plain import plain
from .problem import Problem, unknown


class Reading(NamedTuple):
    """How the user wants the file read; None means: find out."""

    columns: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None
    decimal: str = "."
    drop_missing: bool = False
    on_disk: bool | None = None


class Data(NamedTuple):
    """An (n, d) array of float64, the names of its columns, and what was done to get it.

    `kept` says of each row of the file whether it is in x, if rows may have been left out.
    """

    x: Any
    columns: tuple[str, ...]
    name: str
    notes: tuple[str, ...] = ()
    kept: Any = None

    @property
    def rows(self) -> Any:
        """The number in the file of each row of x, counted from 1 as in the messages about a file."""
        import numpy as np

        return np.arange(1, len(self.x) + 1) if self.kept is None else np.flatnonzero(self.kept) + 1


def dataset_name(source: str) -> str | None:
    """The name of data that ship with minstein, from dataset:NAME; None for a file."""
    prefix, colon, name = source.partition(":")
    return name if colon and prefix == "dataset" else None


def _is_file(source: str) -> bool:
    return source != "-" and dataset_name(source) is None


def check_source(source: str) -> None:
    """Refuse a file that does not exist, before anything slow is loaded."""
    if not _is_file(source):
        return
    path = Path(source)
    if not path.exists():
        raise Problem(
            f"There is no file {source}. Data that ship with minstein are read as dataset:NAME."
        )
    if path.is_dir():
        raise Problem(f"{source} is a directory, not a file.")


def stays_on_disk(source: str, reading: Reading) -> bool:
    """Whether the rows are read in blocks while they are fitted: as told, or where memory may be
    too small for them.
    """
    if reading.on_disk is False:
        return False
    entries = _extent(source) if _is_file(source) else None
    if entries is None and reading.on_disk:
        raise Problem(
            f"{source} cannot be read in blocks. --on-disk is for Parquet and .npy files."
        )
    return entries is not None and (bool(reading.on_disk) or entries * _BYTES > memory.total() / 4)


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


def places(source: str, wanted: tuple[str, ...]) -> tuple[list[int], tuple[str, ...]]:
    """Where the chosen columns stand in a Parquet or .npy file, and their names."""
    import numpy as np

    with open(source, "rb") as file:
        is_array = file.read(6) == b"\x93NUMPY"
    if is_array:
        array = np.load(source, mmap_mode="r", allow_pickle=False)
        names = [f"x{j + 1}" for j in range(math.prod(array.shape[1:]))]
    else:
        names = _check_distinct(source, _parquet_file(source, source).schema_arrow.names)
    chosen = _choose(source, names, wanted)
    return [names.index(name) for name in chosen], tuple(chosen)


def share(n: int, part: tuple[int, int]) -> slice:
    """The rows, of n, that belong to process i of P."""
    i, P = part
    return slice(i * n // P, (i + 1) * n // P)


def take_share(whole: Data, part: tuple[int, int]) -> Data:
    """The share of process i of P of data that have been read as a whole."""
    import numpy as np

    mine = share(len(whole.x), part)
    if whole.kept is None:
        return whole._replace(x=whole.x[mine])
    ends = np.append(np.flatnonzero(whole.kept), len(whole.kept))
    begin = 0 if mine.start == 0 else ends[mine.start]
    return whole._replace(x=whole.x[mine], kept=whole.kept[begin : ends[mine.stop]])


def read(source: str, reading: Reading, part: tuple[int, int] | None = None) -> Data:
    """The chosen columns of a file, as numbers, without missing values; of process i of P, its
    share of the rows.
    """
    if part is not None:
        return _read_part(source, reading, part)
    content = text_file.unix_lines(_bytes(source))
    if not content.strip():
        raise Problem(f"{source} is empty.")
    if content.startswith(b"\x93NUMPY"):
        columns = _select(source, _npy(source, io.BytesIO(content)), reading.columns)
    elif content.startswith(b"PAR1"):
        columns = _parquet(source, content, reading.columns)
    elif content.startswith(b"PK"):
        raise Problem(
            f"{source} is a zip archive (.npz, .xlsx). Save the data as CSV, Parquet or .npy."
        )
    else:
        columns = _csv(source, content, reading)
    return assemble(source, columns, reading)


def _read_part(source: str, reading: Reading, part: tuple[int, int]) -> Data:
    """Only this process's share of the file is read, unless the file is compressed."""
    from pyarrow import parquet

    with open(source, "rb") as file:
        begin = file.read(text_file.HEAD)
        begin += b"" if begin.startswith(text_file.BINARY) else file.readline() + file.readline()
    if begin.startswith(b"\x93NUMPY"):
        columns = _select(source, _npy(source, source, part), reading.columns)
    elif begin.startswith(b"PAR1"):
        file = parquet.ParquetFile(source, memory_map=True)
        columns = _parquet_part(source, file, reading.columns, part)
    elif begin.startswith(text_file.PACKED) or text_file.has_bare_returns(begin):
        return take_share(read(source, reading), part)
    else:
        columns = _csv_part(source, begin, reading, part)
    return assemble(
        f"{source} (the share of process {part[0]} of {part[1]})",
        columns,
        reading,
        part=part,
        name=source,
    )


def _parquet_part(
    source: str, file: Any, wanted: tuple[str, ...], part: tuple[int, int]
) -> dict[str, Any]:
    """From the groups of rows that hold some of this process's share."""
    mine = share(file.metadata.num_rows, part)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    begins = [sum(sizes[:g]) for g in range(len(sizes))]
    groups = [g for g, b in enumerate(begins) if b < mine.stop and b + sizes[g] > mine.start]
    chosen = _choose(source, _check_distinct(source, file.schema_arrow.names), wanted)
    table = file.read_row_groups(groups, columns=chosen)
    offset = mine.start - (begins[groups[0]] if groups else 0)
    return {name: table.column(name).slice(offset, mine.stop - mine.start) for name in chosen}


def from_dataset(dataset: Any, source: str, reading: Reading) -> Data:
    """Data that ship with minstein."""
    columns = {str(name): dataset.x[:, j] for j, name in enumerate(dataset.columns)}
    return assemble(source, _select(source, columns, reading.columns), reading)


def _select(source: str, columns: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    return {name: columns[name] for name in _choose(source, list(columns), wanted)}


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


def assemble(
    source: str,
    columns: dict[str, Any],
    reading: Reading,
    *,
    part: tuple[int, int] | None = None,
    name: str = "",
) -> Data:
    """The columns as one array, after every check that needs no model, nor rows that other
    processes have.
    """
    import numpy as np

    if part is None and all(len(column) == 0 for column in columns.values()):
        raise Problem(f"{source} has no rows.")
    for column in columns:
        checks.check_numeric(
            source, column, columns[column], columns, may_be_empty=part is not None
        )
    table = {column: checks.numbers(columns[column]) for column in columns}
    table, notes = (
        checks.without_index(table, from_first=part is None) if not reading.columns else (table, ())
    )
    x, names = np.column_stack(list(table.values())), tuple(map(plain, table))
    x, kept, dropped = checks.without_missing(source, x, names, reading.drop_missing)
    checks.check_infinite(source, x, names)
    if part is None:
        checks.check_extent(
            source, len(x), names, x.min(0, initial=np.inf), x.max(0, initial=-np.inf)
        )
    return Data(x, names, name or source, notes + dropped, kept)


def _choose(source: str, names: list[str], wanted: tuple[str, ...]) -> list[str]:
    """The columns that were asked for, in that order: by name, or by number where there is no such
    name.
    """
    if not wanted:
        return names
    found = []
    for text in _split(wanted, names):
        name = _column(source, names, text)
        if name in found:
            raise Problem(f"--columns names {name!r} twice.")
        found.append(name)
    return found


def _split(wanted: tuple[str, ...], names: list[str]) -> Iterator[str]:
    """Each name of lists such as 'a,b'; the name of a column may itself contain commas."""
    for text in wanted:
        yield from [text] if text in names else map(str.strip, text.split(","))


def _column(source: str, names: list[str], text: str) -> str:
    """The column of this name or, if there is none, of this number, counted from 1."""
    if text in names:
        return text
    if text.isdigit() and 1 <= int(text) <= len(names):
        return names[int(text) - 1]
    raise unknown(f"column in {source} named", text, names)


def _check_distinct(source: str, names: list[str]) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Problem(f"{source} has two columns named {twice!r}. Rename one of them.")
    return names


# Arrow


class _Layout(NamedTuple):
    """How a CSV file is laid out.

    Attributes: skip: the number of lines before the table. header: whether its first line has
        names. delimiter: what separates its columns. names: those of all columns. block: the number
        of bytes to parse at once.
    """

    skip: int
    header: bool
    delimiter: str
    names: list[str]
    block: int


def _layout(source: str, beginning: bytes, reading: Reading) -> _Layout:
    """Find the layout of a CSV file from its first lines, unless the user gives it."""
    skip, lines = text_file.head(source, beginning)
    try:
        delimiter = text_file.delimiter(reading.delimiter, lines)
        first = next(csv.reader(lines, delimiter=delimiter))
    except csv.Error as reason:
        raise Problem(f"{source} cannot be read as CSV: {reason}.") from reason
    header = reading.header
    if header is None:
        header = not all(text_file.is_number(cell, reading.decimal) for cell in first)
    names = [cell.strip() if header else f"x{i + 1}" for i, cell in enumerate(first)]
    return _Layout(skip, header, delimiter, _check_distinct(source, names), text_file.block(lines))


def _csv(source: str, content: bytes, reading: Reading) -> dict[str, Any]:
    """The chosen columns of a whole CSV file."""
    layout = _layout(source, text_file.beginning(content), reading)
    chosen = _choose(source, layout.names, reading.columns)
    skip = layout.skip + layout.header
    return _csv_columns(source, content, layout, chosen, skip=skip, decimal=reading.decimal)


def _csv_part(
    source: str, beginning: bytes, reading: Reading, part: tuple[int, int]
) -> dict[str, Any]:
    """The chosen columns of the lines that belong to process i of P; `beginning` is that of the
    file.
    """
    import pyarrow

    content = text_file.lines_of(source, beginning, part)
    layout = _layout(source, beginning, reading)
    chosen = _choose(source, layout.names, reading.columns)
    skip = int(layout.header and part[0] == 0)
    if content.count(b"\n") <= skip and not content.split(b"\n")[-1].strip():
        return {name: pyarrow.chunked_array([[]], pyarrow.float64()) for name in chosen}
    return _csv_columns(source, content, layout, chosen, skip=skip, decimal=reading.decimal)


def _csv_columns(
    source: str, content: bytes, layout: _Layout, chosen: list[str], *, skip: int, decimal: str
) -> dict[str, Any]:
    """Columns by name, parsed by Arrow after skipping some lines."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                skip_rows=skip, column_names=layout.names, block_size=layout.block
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=layout.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                null_values=text_file.MISSING,
                strings_can_be_null=True,
                decimal_point=decimal,
                include_columns=chosen,
            ),
        )
    except pyarrow.ArrowInvalid as reason:
        raise Problem(f"{source} cannot be read as CSV: {str(reason).rstrip('.')}.") from reason
    return {name: table.column(name) for name in chosen}


def _parquet(source: str, content: bytes, wanted: tuple[str, ...]) -> dict[str, Any]:
    import pyarrow

    file = _parquet_file(source, pyarrow.BufferReader(content))
    chosen = _choose(source, _check_distinct(source, file.schema_arrow.names), wanted)
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


# NumPy


def _npy(source: str, file: Any, part: tuple[int, int] | None = None) -> dict[str, Any]:
    import numpy as np

    try:
        array = np.load(file, mmap_mode=None if part is None else "r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as reason:
        if _holds_objects(file):
            raise Problem(
                f"{source} holds Python objects, which are not loaded because that may run code."
            ) from reason
        raise Problem(f"{source} cannot be read: {str(reason).rstrip('.')}.") from reason
    if array.ndim not in (1, 2):
        raise Problem(
            f"{source} has shape {array.shape}. It needs a row for each observation: (n, d) or (n,)."
        )
    if array.dtype.kind not in "iuf":
        raise Problem(f"{source} holds {array.dtype}, not real numbers.")
    array = array if part is None else array[share(len(array), part)]
    table = array.reshape(len(array), math.prod(array.shape[1:])).astype(np.float64)
    return {f"x{j + 1}": table[:, j] for j in range(table.shape[1])}


def _holds_objects(file: Any) -> bool:
    """Whether the header of an .npy file, given by its path or its bytes, declares Python objects."""
    from numpy.lib import format as npy

    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with (
        io.BytesIO(file.getvalue()) if isinstance(file, io.BytesIO) else open(file, "rb") as stream
    ):
        try:
            header = headers[npy.read_magic(stream)](stream)
        except (KeyError, ValueError):  # a version of names beyond ASCII, or a damaged header
            return False
    return header[2].hasobject
