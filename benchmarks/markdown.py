"""Results as tables of Markdown."""

from collections.abc import Iterable, Sequence

from .rows import Row
from .table import bound, three_digits, verdict

Results = Sequence[tuple[str, Row]]


def gates(results: Results) -> str:
    """Every amount that is held to a bound."""
    held = [(case, row) for case, row in results if row.passed is not None]
    lines = [(case, row.what, *bound(row), _emphasised(verdict(row))) for case, row in held]
    return _table(("case", "what", "measured", "gate", "verdict"), lines)


def curves(results: Results) -> str:
    """CPU seconds of each opponent against n, a table for each dimension, and the largest error of each opponent."""
    rows = [row for _, row in results if row.at is not None]
    return "\n\n".join(_curves(d, [row for row in rows if row.at.d == d]) for d in _distinct(row.at.d for row in rows))


def _curves(d: int, rows: Sequence[Row]) -> str:
    names = _distinct(row.at.name for row in rows)
    times = {(row.at.name, row.at.n): three_digits(row.time.cpu) for row in rows if row.time is not None}
    sizes = sorted({row.at.n for row in rows})
    lines = [(f"{n:,}".replace(",", " "), *(times.get((name, n), "") for name in names)) for n in sizes]
    errors = (_largest([row.error for row in rows if row.at.name == name and row.error is not None]) for name in names)
    return f"d = {d}\n\n" + _table(("n", *names), [*lines, ("largest error", *errors)])


def _largest(errors: Sequence[float]) -> str:
    return f"{max(errors):.0e}" if errors else ""


def _distinct(items: Iterable) -> list:
    return list(dict.fromkeys(items))


def _emphasised(word: str) -> str:
    return word if word in ("", "pass") else f"**{word}**"


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    body = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in body)
