"""The layout of a text file: how lines end, what precedes the table, and what separates columns."""

import csv
import io
from pathlib import Path
from typing import Any

from .problem import Problem

HEAD = 1 << 16
"""The number of bytes from which the layout is detected."""

DELIMITERS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ",", "space": " "}
"""In the order in which they are tried: those that are rare in numbers and names come first."""

_LINES = 100
"""The number of lines of the table from which the delimiter is detected."""

MISSING = (
    "",
    "NA",
    "N/A",
    "na",
    "n/a",
    "NaN",
    "nan",
    "NAN",
    "NULL",
    "null",
    "None",
    "none",
    "#N/A",
    "-",
    ".",
    "?",
)
"""How a missing value is written."""


def has_bare_returns(text: bytes) -> bool:
    """Whether lines end in a carriage return alone, as on old Macs."""
    return b"\r" in text and b"\n" not in text


def unix_lines(content: bytes) -> bytes:
    """Return the text with every line ending in a line feed, unless its lines end as on Windows."""
    return content.replace(b"\r", b"\n") if has_bare_returns(content) else content


def lines_of(source: str, begin: bytes, part: tuple[int, int]) -> bytes:
    """Return the lines that begin in process i's share of the bytes of the table."""
    skip, _ = head(source, begin)
    first = sum(len(line) + 1 for line in begin.split(b"\n")[:skip])
    size = Path(source).stat().st_size
    (i, P), length = part, size - first
    with open(source, "rb") as file:
        ends = [_line_start(file, first + k * length // P, first) for k in (i, i + 1)]
        file.seek(ends[0])
        return file.read(ends[1] - ends[0])


def _line_start(file: Any, position: int, first: int) -> int:
    """Return where the first line that begins at or after a position starts."""
    if position <= first:
        return first
    file.seek(position - 1)
    file.readline()
    return file.tell()


def beginning(content: bytes) -> bytes:
    """Return the first lines: HEAD bytes, the rest of the line in which they end, and one more."""
    end = content.find(b"\n", content.find(b"\n", HEAD) + 1) if len(content) > HEAD else -1
    return content if end < 0 else content[: end + 1]


def block(lines: list[str]) -> int:
    """Return the number of bytes for Arrow to parse at once: its default, or several lines."""
    return max(1 << 20, 8 * max(map(len, lines)))


def head(source: str, begin: bytes) -> tuple[int, list[str]]:
    """Return the number of comments and blank lines before the table, and its first lines."""
    try:
        lines = io.StringIO(begin.decode("utf-8-sig")).readlines()
    except UnicodeDecodeError as reason:
        raise Problem(
            f"{source} is neither text in UTF-8 nor in any other format that minstein reads."
        ) from reason
    skip = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines)
    )
    if skip == len(lines):
        raise Problem(f"{source} has no rows, only comments.")
    return skip, lines[skip : skip + _LINES]


def delimiter(given: str | None, lines: list[str]) -> str:
    """Return the delimiter that the user gives, or the first that separates columns."""
    if given is not None:
        delimiter = DELIMITERS.get(given, given.replace("\\t", "\t"))
        if len(delimiter) != 1:
            raise Problem(
                f"--delimiter must be one character or one of {', '.join(DELIMITERS)}, got {given!r}."
            )
        return delimiter
    return next((c for c in DELIMITERS.values() if _divides(lines, c)), ",")


def _divides(lines: list[str], delimiter: str) -> bool:
    """Whether the delimiter cuts every line into the same number of parts, at least two."""
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
    except csv.Error:  # a line that it does not cut may be longer than a cell can be
        return False
    return len(counts) == 1 and counts != {1}


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell holds data: a number, or a mark for a missing value."""
    cell = cell.strip()
    if cell in MISSING:
        return True
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return False
    return True
