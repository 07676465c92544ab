"""Printing tables, summaries and progress: with Rich on a terminal, as plain text elsewhere."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .catalogue import Entry, Parameter
from .plain import plain

_WIDE = 1000
"""The width if the output is not a terminal, so that no line is wrapped."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise, so that the caller sets the exit status; Rich would exit with status 1."""
        raise BrokenPipeError


def console() -> Console:
    """Return a console that prints text unchanged, and uses colours only on a terminal."""
    screen = _Console(markup=False, highlight=False, soft_wrap=False)
    if not screen.is_terminal:
        screen.width = _WIDE
    return screen


@contextlib.contextmanager
def stage(text: str, *, quiet: bool) -> Iterator[None]:
    """Show on stderr what is being done, until it is done; only on a terminal."""
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
    """Print entries of the catalogue as a table."""
    titles = ("name", "parameters", "what it is")
    listing(titles, [(e.name, ", ".join(map(_brief, e.parameters)) or "–", e.line) for e in rows])
    console().print(f"\n{note}")


def listing(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table, with one line for each row if the terminal is wide enough."""
    screen = console()
    table = Table(box=SIMPLE if screen.is_terminal else None, pad_edge=False, show_edge=False)
    for i, title in enumerate(titles):
        table.add_column(title, style="bold" if i == 0 else None, no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    screen.print(table)


def entry(one: Entry) -> None:
    """Print one entry of the catalogue, with the meaning of its parameters."""
    screen = console()
    screen.print(Text.assemble((one.name, "bold"), f": {one.line}"))
    for p in one.parameters:
        screen.print(f"  {p.name}: {p.meaning}{_origin(p)}")


def _origin(p: Parameter) -> str:
    """Return where the value of a parameter comes from."""
    if p.required:
        return "; must be given"
    if p.option:
        return f"; see {p.option}"
    return f"; held at {_default(p)}" if p.held else f"; by default {_default(p)}"


def _brief(p: Parameter) -> str:
    """Return 'loc', 'df=5', or 'c (--lengthscale)' for a parameter with its own option."""
    if p.option:
        return f"{p.name} ({p.option})"
    return f"{p.name}={_default(p)}" if isinstance(p.default, float) or p.held else p.name


def _default(p: Parameter) -> str:
    return f"{p.default:g}" if isinstance(p.default, float) else str(p.default)


def summary(table: Any) -> None:
    """Print a `Summary` of the library, laid out for the terminal if there is one."""
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
    screen.print()
    numbers = Table(box=SIMPLE, pad_edge=False, show_edge=False)
    numbers.add_column("", style="bold", no_wrap=True)
    for column in table.columns:
        numbers.add_column(column, justify="right", overflow="fold")
    for name, values in table.rows:
        numbers.add_row(name, *map(_number, values))
    screen.print(numbers)
    screen.print()
    for note in table.notes:
        screen.print(Text(note))


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4g}"


def side_by_side(columns: list[str], rows: list[tuple[str, list[str]]], notes: list[str]) -> None:
    """Print one row for each name and one column for each fit, in several tables if necessary."""
    screen = console()
    columns = list(map(plain, columns))
    rows = [(plain(name), list(map(plain, cells))) for name, cells in rows]
    room = screen.width - max(len(name) for name, _ in rows)
    for chosen in _pack(_widths(columns, rows), room):
        screen.print(_table(screen, columns, rows, chosen))
        screen.print()
    for note in notes:
        screen.print(note)


def _table(
    screen: Console, columns: list[str], rows: list[tuple[str, list[str]]], chosen: list[int]
) -> Table:
    """Return a table of some of the columns."""
    table = Table(box=SIMPLE if screen.is_terminal else None, pad_edge=False, show_edge=False)
    table.add_column("", style="bold", no_wrap=True)
    for i in chosen:
        table.add_column(columns[i], justify="right", overflow="fold")
    for name, cells in rows:
        table.add_row(name, *(cells[i] for i in chosen))
    return table


def _widths(columns: list[str], rows: list[tuple[str, list[str]]]) -> list[int]:
    """Return the width of each column, which is that of its longest text."""
    texts = zip(columns, *(cells for _, cells in rows), strict=True)
    return [max(map(len, column)) for column in texts]


def _pack(widths: list[int], room: int) -> list[list[int]]:
    """Return the columns of each table: as many as there is room for, but at least one."""
    tables: list[list[int]] = [[]]
    for i, width in enumerate(widths):
        if tables[-1] and sum(widths[j] + 3 for j in tables[-1]) + width + 3 > room:
            tables.append([])
        tables[-1].append(i)
    return tables
