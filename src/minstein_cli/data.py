"""Reading DATA into one array, with every check that needs no model."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

from . import checks, memory
from .formats import BYTES, find_format, list_formats
from .plain import plain
from .problem import Problem
from .reading import Part, choose_columns, share
from .reading import Reading as Reading

_PACKED = (b"PK", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd")
"""How compressed files begin."""


class Data(NamedTuple):
    """An (n, d) array of float64, the names of its columns, and notes on how it was read.

    `kept` says for each row of the file whether it is in x, if rows may have been left out.
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
    """Return NAME if the source is dataset:NAME, data that ship with minstein; None for a file."""
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
    """Whether the rows are read in blocks during the fit: if the user says so, or by default if the
    file is large compared with the memory.
    """
    if reading.on_disk is False:
        return False
    found = find_format(_begin(source)) if _is_file(source) else None
    if found is not None and found.in_blocks:
        return bool(reading.on_disk) or found.entries(source) * BYTES > memory.total() / 4
    if reading.on_disk:
        allowed = list_formats("and", in_blocks=True)
        raise Problem(f"{source} cannot be read in blocks. --on-disk is for {allowed} files.")
    return False


def _begin(source: str) -> bytes:
    with open(source, "rb") as file:
        return file.read(16)


def places(source: str, wanted: tuple[str, ...]) -> tuple[list[int], tuple[str, ...]]:
    """Return the positions and the names of the chosen columns, for a file that is read in blocks."""
    names = find_format(_begin(source)).names(source)
    chosen = choose_columns(source, names, wanted)
    return [names.index(name) for name in chosen], tuple(chosen)


def take_share(whole: Data, part: Part) -> Data:
    """Return the share of process i of P, of data that have been read as a whole."""
    import numpy as np

    mine = share(len(whole.x), part)
    if whole.kept is None:
        return whole._replace(x=whole.x[mine])
    ends = np.append(np.flatnonzero(whole.kept), len(whole.kept))
    begin = 0 if mine.start == 0 else ends[mine.start]
    return whole._replace(x=whole.x[mine], kept=whole.kept[begin : ends[mine.stop]])


def read(source: str, reading: Reading, part: Part | None = None) -> Data:
    """Return the chosen columns of a file as numbers without missing values.

    Process i of P gets its share of the rows.
    """
    if part is not None:
        return _read_part(source, reading, part)
    content = _bytes(source)
    if not content.strip():
        raise Problem(f"{source} is empty.")
    if content.startswith(b"PK"):
        raise Problem(
            f"{source} is a zip archive (.npz, .xlsx). Save the data as {list_formats()}."
        )
    return assemble(source, find_format(content).read(source, content, reading), reading)


def _read_part(source: str, reading: Reading, part: Part) -> Data:
    """Return a share of the rows, and read only that share of the file if the format allows it."""
    begin = _begin(source)
    columns = None
    if not begin.startswith(_PACKED):
        columns = find_format(begin).read_part(source, reading, part)
    if columns is None:
        return take_share(read(source, reading), part)
    named = f"{source} (the share of process {part[0]} of {part[1]})"
    return assemble(named, columns, reading, part=part, name=source)


def from_dataset(dataset: Any, source: str, reading: Reading) -> Data:
    """Return data that ship with minstein."""
    names = [str(name) for name in dataset.columns]
    chosen = choose_columns(source, names, reading.columns)
    return assemble(source, {name: dataset.x[:, names.index(name)] for name in chosen}, reading)


def _bytes(source: str) -> bytes:
    """Return the whole file, unpacked if its name ends in .gz or similar."""
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
    part: Part | None = None,
    name: str = "",
) -> Data:
    """Return the columns as one array, after every check that needs neither a model nor the rows of
    other processes.
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
        checks.drop_index(table, from_first=part is None) if not reading.columns else (table, ())
    )
    x, names = np.column_stack(list(table.values())), tuple(map(plain, table))
    x, kept, dropped = checks.drop_missing_rows(source, x, names, reading.drop_missing)
    checks.check_infinite(source, x, names)
    if part is None:
        checks.check_extent(
            source, len(x), names, x.min(0, initial=np.inf), x.max(0, initial=-np.inf)
        )
    return Data(x, names, name or source, notes + dropped, kept)
