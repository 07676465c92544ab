"""How the user wants a file read, and which of its columns and rows that selects."""

from collections.abc import Iterator
from typing import NamedTuple

from .problem import Problem, unknown


class Reading(NamedTuple):
    """How the user wants the file read; None means that it is detected automatically."""

    columns: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None
    decimal: str = "."
    drop_missing: bool = False
    on_disk: bool | None = None


Part = tuple[int, int]
"""(i, P): the share of the rows that process i of P reads."""


def share(n: int, part: Part) -> slice:
    """Return which of n rows belong to process i of P."""
    i, P = part
    return slice(i * n // P, (i + 1) * n // P)


def choose_columns(source: str, names: list[str], wanted: tuple[str, ...]) -> list[str]:
    """Return the columns that were asked for, in that order, or all of them.

    A column is given by its name or, if no column has that name, by its number.
    """
    if not wanted:
        return names
    found = []
    for text in _split(wanted, names):
        name = _find_column(source, names, text)
        if name in found:
            raise Problem(f"--columns names {name!r} twice.")
        found.append(name)
    return found


def _split(wanted: tuple[str, ...], names: list[str]) -> Iterator[str]:
    """Yield each name in lists such as 'a,b'; the name of a column may itself contain commas."""
    for text in wanted:
        yield from [text] if text in names else map(str.strip, text.split(","))


def _find_column(source: str, names: list[str], text: str) -> str:
    """Return the column of this name or, if there is none, of this number, counted from 1."""
    if text in names:
        return text
    if text.isdigit() and 1 <= int(text) <= len(names):
        return names[int(text) - 1]
    raise unknown(f"column in {source} named", text, names)


def check_distinct(source: str, names: list[str]) -> list[str]:
    """Return the names of the columns, or raise if two are the same."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Problem(f"{source} has two columns named {twice!r}. Rename one of them.")
    return names
