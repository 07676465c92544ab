"""The columns of a file as numbers, and every check of them that needs no model."""

from typing import Any

from .problem import Problem
from .text_file import is_number


def check_numeric(
    source: str, name: str, column: Any, columns: dict[str, Any], *, may_be_empty: bool
) -> None:
    """Raise if an Arrow column is not numeric, or is empty when it holds all the rows."""
    from pyarrow import types

    kind = getattr(column, "type", None)
    if kind is None or _is_numeric(kind) or (types.is_null(kind) and may_be_empty):
        return
    if types.is_null(kind):
        raise Problem(
            f"Column {name!r} of {source} has no values at all. Leave it out with --columns."
        )
    usable = [other for other, values in columns.items() if _is_numeric(values.type)]
    advice = f" The numeric columns are: --columns {','.join(usable)}" if usable else ""
    raise Problem(f"Column {name!r} of {source} is not numeric: {_example(column, kind)}.{advice}")


def _is_numeric(kind: Any) -> bool:
    """Whether an Arrow type holds numbers."""
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def _example(column: Any, kind: Any) -> str:
    """Return a description of the first cell that is not a number."""
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value if value is not None else 0)
        except (TypeError, ValueError):
            hint = (
                " (is that a decimal comma? then --decimal ,)" if is_number(str(value), ",") else ""
            )
            return f"row {row + 1} has {str(value)[:40]!r}{hint}"
    return f"its type is {kind}"


def numbers(column: Any) -> Any:
    """Return a column as float64, with NaN for missing values."""
    import numpy as np

    if isinstance(column, np.ndarray):
        return column
    import pyarrow

    return column.cast(pyarrow.float64(), safe=False).to_numpy().astype(np.float64)


_INDEX = ("", "Unnamed: 0", "__index_level_0__")
"""The names that pandas and R give to the column of row numbers that they write by default."""


def drop_index(
    table: dict[str, Any], *, from_first: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the table without a nameless first column that counts the rows, and a note.

    In a share of the rows, the count may begin anywhere.
    """
    import numpy as np

    first = next(iter(table))
    values, count = table[first], np.arange(len(table[first]))
    begins = (0, 1) if from_first else tuple(values[:1])
    if (
        len(table) == 1
        or first not in _INDEX
        or not any(np.array_equal(values, begin + count) for begin in begins)
    ):
        return table, ()
    rest = {name: column for name, column in table.items() if name != first}
    return rest, (
        f"The first column, {first!r}, counts the rows and was left out; --columns 1,… takes it in.",
    )


def drop_missing_rows(
    source: str, x: Any, columns: tuple[str, ...], drop: bool
) -> tuple[Any, Any, tuple[str, ...]]:
    """Return the rows without missing values, which rows were kept, and a note.

    The second value is None if rows may not be dropped.
    """
    import numpy as np

    missing = np.isnan(x)
    kept = ~missing.any(axis=1)
    if kept.all():
        return x, kept if drop else None, ()
    rows = int((~kept).sum())
    if not drop:
        counts = ", ".join(
            f"{name} {int(n)}" for name, n in zip(columns, missing.sum(axis=0), strict=True) if n
        )
        raise Problem(
            f"{source} has missing values in {rows} of {len(x)} rows. By column: {counts}. "
            "Leave those rows out with --drop-missing."
        )
    return x[kept], kept, (f"{rows} of {len(x)} rows have missing values and were left out.",)


def check_infinite(source: str, x: Any, columns: tuple[str, ...]) -> None:
    import numpy as np

    for name, column in zip(columns, x.T, strict=True):
        infinite = int(np.isinf(column).sum())
        if infinite:
            raise Problem(
                f"Column {name!r} of {source} has {infinite} infinite value{'s' * (infinite > 1)}."
            )


def check_extent(source: str, n: int, columns: tuple[str, ...], low: Any, high: Any) -> None:
    """Raise if n rows with these least and greatest values are too few, or a column is constant."""
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
