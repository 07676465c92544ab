"""The results as plain text."""

from collections.abc import Iterable, Sequence

from .rows import Row

HEADINGS = ("case", "what was measured", "CPU s", "wall s", "first call", "ratio", "gate", "verdict", "error")
_NUMBERS = (2, 3, 4, 5, 6, 8)
"""The columns that are aligned at the right."""


def text(results: Iterable[tuple[str, Row]]) -> str:
    """The table, with the notes of its rows below it."""
    results = list(results)
    lines = [HEADINGS, *(_cells(case, row) for case, row in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    body = [_line(line, widths) for line in lines]
    body.insert(1, "  ".join("-" * width for width in widths))
    notes = dict.fromkeys(f"{case}: {row.note}" for case, row in results if row.note)
    return "\n".join([*body, "", *notes]).rstrip()


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (
        cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(aligned).rstrip()


def _cells(case: str, row: Row) -> tuple[str, ...]:
    times = (
        ("", "", "")
        if row.time is None
        else tuple(three_digits(t) for t in (row.time.cpu, row.time.wall, row.time.first))
    )
    error = "" if row.error is None else f"{row.error:.0e}"
    return (case, row.what, *times, *bound(row), verdict(row), error)


def bound(row: Row) -> tuple[str, str]:
    """The measured amount, and its bound."""
    if row.ratio is None:
        return "", ""
    unit = f" {row.ratio.unit}" if row.ratio.unit else ""
    sign = "≤" if row.ratio.at_most else "≥"
    bound = "" if row.ratio.limit is None else f"{sign} {row.ratio.limit:g}{unit}"
    return f"{three_digits(row.ratio.measured)}{unit}", bound


def three_digits(number: float) -> str:
    """Three significant digits, without an exponent for large numbers."""
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def verdict(row: Row) -> str:
    if not row.right:
        return "failed" if row.failed else "WRONG"
    return {None: "", True: "pass", False: "miss"}[row.passed]
