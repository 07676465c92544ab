"""Padding samples to a few sizes, so that data of similar size share one compilation."""

from typing import Any

from .._types import namespace

TILE = 256
"""Rows of a tile of the pair sum; samples are padded to multiples of it."""


def bucket(n: int) -> int:
    """Return the padded size for n rows.

    There are few distinct sizes, each larger than n by at most a quarter, or by less than a tile.
    """
    if n <= TILE:
        return max(16, 1 << (n - 1).bit_length())
    step = max(TILE, 1 << ((n - 1).bit_length() - 3))
    return -(-n // step) * step


def pad(rows: Any, length: int) -> Any:
    """Return the rows followed by copies of the first, up to the given length."""
    xp = namespace(rows)
    copies = xp.broadcast_to(rows[:1], (length - len(rows), *rows.shape[1:]))
    return xp.concatenate([rows, copies])
