"""The file formats that are read: CSV and Parquet by Arrow, .npy by NumPy.

To add a format, write a subclass of `AbstractFormat` and add it to `FORMATS`; if it is to be read in
blocks, the library needs it too, in `minstein/data/files.py`.
"""

import abc
import csv
import io
import math
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from . import text_file
from .problem import Problem
from .reading import Part, Reading, check_distinct, choose_columns, share

Columns = dict[str, Any]
"""The values of each column, by name."""

BYTES = 8
"""The size of a number in memory."""


class AbstractFormat(abc.ABC):
    """A file format. In each method, `source` is the path of the file."""

    name: ClassVar[str]
    """The format as help and messages name it."""

    magic: ClassVar[bytes]
    """The bytes with which every file of the format begins; none for text."""

    in_blocks: ClassVar[bool] = False
    """Whether the library can read such a file in blocks; `entries` and `names` are then needed."""

    def entries(self, source: str) -> int:
        """Return the number of entries in the table, or an upper bound of it."""
        raise TypeError(f"{self.name} files are not read in blocks.")

    def names(self, source: str) -> list[str]:
        """Return the names of all columns."""
        raise TypeError(f"{self.name} files are not read in blocks.")

    @abc.abstractmethod
    def read(self, source: str, content: bytes, reading: Reading) -> Columns:
        """Return the chosen columns; `content` is the whole file, unpacked."""

    @abc.abstractmethod
    def read_part(self, source: str, reading: Reading, part: Part) -> Columns | None:
        """Return the rows of process i of P, or None if the file must be read as a whole."""


class Npy(AbstractFormat):
    """A NumPy array of shape (n, d) or (n,)."""

    name, magic, in_blocks = ".npy", b"\x93NUMPY", True

    def entries(self, source):
        return Path(source).stat().st_size // BYTES

    def names(self, source):
        import numpy as np

        return self._names(np.load(source, mmap_mode="r", allow_pickle=False))

    def read(self, source, content, reading):
        import numpy as np

        try:
            array = np.load(io.BytesIO(content), allow_pickle=False)
        except (ValueError, EOFError, OSError) as reason:
            if _holds_objects(content):
                raise Problem(
                    f"{source} holds Python objects, which are not loaded because that may run code."
                ) from reason
            raise Problem(f"{source} cannot be read: {str(reason).rstrip('.')}.") from reason
        return self._columns(source, array, reading)

    def read_part(self, source, reading, part):
        import numpy as np

        try:
            array = np.load(source, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError):
            return None  # `read` says what is wrong
        return self._columns(source, array, reading, part)

    def _columns(
        self, source: str, array: Any, reading: Reading, part: Part | None = None
    ) -> Columns:
        if array.ndim not in (1, 2):
            raise Problem(
                f"{source} has shape {array.shape}. It needs a row for each observation: (n, d) or (n,)."
            )
        if array.dtype.kind not in "iuf":
            raise Problem(f"{source} holds {array.dtype}, not real numbers.")
        names = self._names(array)
        array = array if part is None else array[share(len(array), part)]
        table = array.reshape(len(array), len(names)).astype("float64")
        chosen = choose_columns(source, names, reading.columns)
        return {name: table[:, names.index(name)] for name in chosen}

    def _names(self, array: Any) -> list[str]:
        return [f"x{j + 1}" for j in range(math.prod(array.shape[1:]))]


def _holds_objects(content: bytes) -> bool:
    """Whether the header of a .npy file declares Python objects."""
    from numpy.lib import format as npy

    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    stream = io.BytesIO(content)
    try:
        header = headers[npy.read_magic(stream)](stream)
    except (KeyError, ValueError):  # a version for names beyond ASCII, or a damaged header
        return False
    return header[2].hasobject


class Parquet(AbstractFormat):
    """A Parquet file."""

    name, magic, in_blocks = "Parquet", b"PAR1", True

    def entries(self, source):
        facts = self._open(source, source).metadata
        return facts.num_rows * facts.num_columns

    def names(self, source):
        return check_distinct(source, self._open(source, source).schema_arrow.names)

    def read(self, source, content, reading):
        import pyarrow

        file = self._open(source, pyarrow.BufferReader(content))
        chosen = self._choose(source, file, reading)
        try:
            table = file.read(columns=chosen)
        except (pyarrow.ArrowException, OSError) as reason:
            raise self._unreadable(source, reason) from reason
        return {name: table.column(name) for name in chosen}

    def read_part(self, source, reading, part):
        """Read the groups of rows that hold some of the share."""
        file = self._open(source, source)
        mine = share(file.metadata.num_rows, part)
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        begins = [sum(sizes[:g]) for g in range(len(sizes))]
        groups = [g for g, b in enumerate(begins) if b < mine.stop and b + sizes[g] > mine.start]
        chosen = self._choose(source, file, reading)
        table = file.read_row_groups(groups, columns=chosen)
        offset = mine.start - (begins[groups[0]] if groups else 0)
        return {name: table.column(name).slice(offset, mine.stop - mine.start) for name in chosen}

    def _choose(self, source: str, file: Any, reading: Reading) -> list[str]:
        names = check_distinct(source, file.schema_arrow.names)
        return choose_columns(source, names, reading.columns)

    def _open(self, source: str, content: Any) -> Any:
        import pyarrow
        from pyarrow import parquet

        try:
            return parquet.ParquetFile(content, memory_map=True)
        except (pyarrow.ArrowException, OSError) as reason:
            raise self._unreadable(source, reason) from reason

    def _unreadable(self, source: str, reason: Exception) -> Problem:
        return Problem(f"{source} cannot be read as Parquet: {str(reason).rstrip('.')}.")


class _Layout(NamedTuple):
    """How a CSV file is laid out.

    Attributes:
        skip: the number of lines before the table.
        header: whether the first line of the table holds the names of the columns.
        delimiter: what separates columns.
        names: the names of all columns.
        block: the number of bytes to parse at once.
    """

    skip: int
    header: bool
    delimiter: str
    names: list[str]
    block: int


class Csv(AbstractFormat):
    """Text in columns: the format of every file that is not in another one."""

    name, magic = "CSV", b""

    def read(self, source, content, reading):
        content = text_file.unix_lines(content)
        layout = self._layout(source, text_file.beginning(content), reading)
        return self._parse(source, content, layout, reading, skip=layout.skip + layout.header)

    def read_part(self, source, reading, part):
        """Read the lines that begin in this process's share of the bytes."""
        import pyarrow

        with open(source, "rb") as file:
            beginning = file.read(text_file.HEAD) + file.readline() + file.readline()
        if text_file.has_bare_returns(beginning):
            return None
        content = text_file.lines_of(source, beginning, part)
        layout = self._layout(source, beginning, reading)
        skip = int(layout.header and part[0] == 0)
        if content.count(b"\n") <= skip and not content.split(b"\n")[-1].strip():
            chosen = choose_columns(source, layout.names, reading.columns)
            return {name: pyarrow.chunked_array([[]], pyarrow.float64()) for name in chosen}
        return self._parse(source, content, layout, reading, skip=skip)

    def _layout(self, source: str, beginning: bytes, reading: Reading) -> _Layout:
        """Detect the layout from the first lines, unless the user gives it."""
        skip, lines = text_file.head(source, beginning)
        try:
            delimiter = text_file.delimiter(reading.delimiter, lines)
            first = next(csv.reader(lines, delimiter=delimiter))
        except csv.Error as reason:
            raise self._unreadable(source, reason) from reason
        header = reading.header
        if header is None:
            header = not all(text_file.is_number(cell, reading.decimal) for cell in first)
        names = [cell.strip() if header else f"x{i + 1}" for i, cell in enumerate(first)]
        block = text_file.block(lines)
        return _Layout(skip, header, delimiter, check_distinct(source, names), block)

    def _parse(
        self, source: str, content: bytes, layout: _Layout, reading: Reading, *, skip: int
    ) -> Columns:
        """Return the chosen columns, parsed by Arrow after skipping some lines."""
        import pyarrow
        from pyarrow import csv as arrow_csv

        chosen = choose_columns(source, layout.names, reading.columns)
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
                    decimal_point=reading.decimal,
                    include_columns=chosen,
                ),
            )
        except pyarrow.ArrowInvalid as reason:
            raise self._unreadable(source, reason) from reason
        return {name: table.column(name) for name in chosen}

    def _unreadable(self, source: str, reason: Exception) -> Problem:
        return Problem(f"{source} cannot be read as CSV: {str(reason).rstrip('.')}.")


FORMATS: tuple[AbstractFormat, ...] = (Npy(), Parquet(), Csv())
"""The formats, in the order in which a file is compared with them; text comes last."""


def find_format(begin: bytes) -> AbstractFormat:
    """Return the format of a file that begins with these bytes."""
    return next(format for format in FORMATS if begin.startswith(format.magic))


def list_formats(conjunction: str = "or", *, in_blocks: bool = False) -> str:
    """Return 'CSV, Parquet or .npy', or only the formats that can be read in blocks."""
    *others, last = [f.name for f in reversed(FORMATS) if f.in_blocks or not in_blocks]
    return f"{', '.join(others)} {conjunction} {last}"
