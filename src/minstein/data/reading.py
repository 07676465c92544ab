"""Reading the user's data: everything that enters the package is turned into rows here, once."""

from numbers import Real
from typing import Any

import jax
import numpy as np

from .. import errors
from .in_memory import InMemory
from .rows import AbstractRows
from .spaces import REALS, AbstractSpace
from .spreading import as_sharded, is_spread


def read(x: Any, space: AbstractSpace = REALS) -> AbstractRows:
    """Return the user's data as (n, d) floating-point rows, or raise if they are not in the space.

    Rows on disk are refused.
    """
    rows = _as_given(x)
    rows.require_memory("This")
    return rows.check(space)


def read_or_leave(x: Any, space: AbstractSpace = REALS) -> AbstractRows:
    """Return what `read` returns, except that rows on disk stay there and are checked in one pass."""
    return _as_given(x).check(space)


def _as_given(x: Any) -> AbstractRows:
    """Return the user's data as rows, before they are checked."""
    if isinstance(x, AbstractRows):
        return x
    if np.ma.is_masked(x):
        raise _masked(int(np.ma.count_masked(x)))
    if is_spread(x):
        return as_sharded(x)
    return InMemory(x if isinstance(x, jax.Array) else _as_array(x))


def _as_array(x: Any) -> np.ndarray:
    """Return the user's data as an array of numbers."""
    if x is None or isinstance(x, str | bytes):
        raise _not_an_array(x)
    try:
        array = np.asarray(x)
    except ValueError as reason:
        raise _ragged(x) from reason
    if array.dtype.kind in "OUSMm":  # objects, texts and dates
        raise _not_an_array(x) if array.ndim == 0 else _not_numbers_in(x, array)
    return array


@errors.explained("sharp-bits.md")
def _ragged(x: Any) -> ValueError:
    lengths = sorted({len(row) if hasattr(row, "__len__") else 1 for row in x})
    return ValueError(
        f"x must have shape (n, d) or (n,), but its rows have different lengths, {', '.join(map(str, lengths[:8]))}. "
        "Each row is one observation, with one number for each of the d variables."
    )


@errors.explained("sharp-bits.md")
def _not_an_array(x: Any) -> TypeError:
    if x is None:
        return TypeError(
            "x is None, but a sample is needed: an array of shape (n, d), or (n,) for one variable."
        )
    if isinstance(x, str | bytes):
        return TypeError(
            f"x must be an array of shape (n, d) or (n,), got the text {x!r}. If it names a file, read that first: "
            "np.load, np.loadtxt or pandas; ms.OnDisk(path) is for more rows than fit into memory."
        )
    return TypeError(f"x must be an array of shape (n, d) or (n,), got {type(x).__name__}.")


@errors.explained("sharp-bits.md")
def _not_numbers_in(x: Any, array: np.ndarray) -> TypeError:
    """Return the error for entries that are texts, dates or objects.

    `x` is what the user gave, perhaps a data frame with named columns.
    """
    if hasattr(x, "select_dtypes"):
        others = [
            repr(name)
            for name, kind in zip(x.columns, x.dtypes, strict=True)
            if kind.kind not in "fiub"
        ]
        if others:
            return TypeError(
                f"x must be floating point, but its columns {', '.join(others)} do not hold numbers. Leave them out: "
                'x.select_dtypes("number").'
            )
    odd = (i for i, entry in np.ndenumerate(array) if not isinstance(entry, Real))
    first = next(odd, None)
    entry = "" if first is None else f": the entry in row {first[0]} is {array[first]!r}"
    return TypeError(
        f"x must be floating point, got {array.dtype}{entry}. If the entries represent numbers, pass "
        "np.asarray(x, float), which turns missing values into NaN, and drop those rows."
    )


@errors.explained("sharp-bits.md")
def _masked(count: int) -> ValueError:
    return ValueError(
        f"x is a masked array with {count} masked entries. Drop those rows: np.ma.compress_rows(x)."
    )
