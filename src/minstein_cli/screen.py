"""What is shown: tables, summaries, what is being done. Rich on a terminal, plain text elsewhere."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .catalogue import Entry, Parameter

_WIDE = 1000
"""Where nobody looks at the output but a program, no line is broken."""


def console() -> Console:
    """Text as it is: no markup, no highlighting. Colours only on a terminal."""
    screen = Console(markup=False, highlight=False, soft_wrap=False)
    if not screen.is_terminal:
        screen.width = _WIDE
    return screen


@contextlib.contextmanager
def stage(text: str, *, quiet: bool) -> Iterator[None]:
    """A line on stderr that says what is being done, and goes away; only on a terminal."""
    shown = sys.stderr.isatty() and not quiet
    if shown:
        sys.stderr.write(f"\r\x1b[2K\x1b[2m{text} …\x1b[0m")
        sys.stderr.flush()
    try:
        yield
    finally:
        if shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def entries(rows: tuple[Entry, ...], note: str) -> None:
    """A table of the catalogue."""
    screen = console()
    table = Table(box=SIMPLE, pad_edge=False, show_edge=False)
    for title in ("name", "what it is", "parameters"):
        table.add_column(title, style="bold" if title == "name" else None, no_wrap=title == "name", overflow="fold")
    for entry in rows:
        table.add_row(entry.name, entry.line, "\n".join(map(_parameter, entry.parameters)) or "–")
    screen.print(table if screen.is_terminal else _plain(rows))
    screen.print()
    screen.print(note)


def _plain(rows: tuple[Entry, ...]) -> Table:
    """The same with one line for each entry, for programs."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for entry in rows:
        table.add_row(entry.name, entry.line, "; ".join(map(_parameter, entry.parameters)))
    return table


def _parameter(p: Parameter) -> str:
    default = f"{p.default:g}" if isinstance(p.default, float) else p.default
    state = f", held at {default}" if p.held else f" [{default}]" if default is not None else ""
    return f"{p.name}: {p.meaning}{state}"


def summary(table: Any) -> None:
    """A `Summary` of the library: as it prints itself, or laid out for the width of the terminal."""
    screen = console()
    if not screen.is_terminal:
        print(table)
        return
    screen.print(Text(table.title, style="bold"))
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in table.facts:
        facts.add_row(name, value)
    screen.print(facts)
    numbers = Table(box=SIMPLE, pad_edge=False)
    numbers.add_column("", style="bold", no_wrap=True)
    for column in table.columns:
        numbers.add_column(column, justify="right")
    for name, values in table.rows:
        numbers.add_row(name, *map(_number, values))
    screen.print(numbers)
    for note in table.notes:
        screen.print(Padding(Text(note), (0, 0, 0, 2)))


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4g}"


def side_by_side(columns: list[str], rows: list[tuple[str, list[str]]], notes: list[str]) -> None:
    """A table with a row for each name and a column for each fit."""
    screen = console()
    table = Table(box=SIMPLE if screen.is_terminal else None, pad_edge=False, show_edge=screen.is_terminal)
    table.add_column("", style="bold", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    for name, cells in rows:
        table.add_row(name, *cells)
    screen.print(table)
    for note in notes:
        screen.print(note)
