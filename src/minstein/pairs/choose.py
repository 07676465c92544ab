"""The one place that chooses how pairs are summed, when the data are read."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import errors
from ..data.in_memory import as_rows
from ..data.padding import bucket
from ..data.rows import AbstractRows
from ..data.sample import SORTED
from . import fourier, lines
from .backends import AbstractBackend, Around, Lines, Stored, Summand, Tiles, Waves, radial

_WORTH = 200
"""The number of pairs that take as long as one frequency."""

_SECONDS = 1e-8
"""Seconds per pair by tiles on one core, roughly."""

_HOURS = 50
"""Refuse a pair sum from disk if one evaluation is estimated to take longer than this, in hours: a
fit needs many evaluations.
"""


def choose(
    terms: tuple[Summand, ...], x: Any, order: Callable[[], int], wish: AbstractBackend | None
) -> AbstractBackend:
    """Return the backend for these data: the one asked for, made ready for them, or the fastest.

    `order()` is 0 if m is a number at each point, 1 if it is diagonal, 2 if it is a matrix.
    """
    n, d = x.shape
    if not as_rows(x).is_here:
        return _elsewhere(terms, as_rows(x), wish)
    if wish is not None:
        return wish.ready(terms, x, order)
    return _find_waves(terms, x, order) or choose_by_size(terms, bucket(n), d, x.dtype)


def _find_waves(terms: tuple[Summand, ...], x: Any, order: Callable[[], int]) -> Waves | None:
    """Return a Fourier series, or None unless there is one that is faster than visiting every pair."""
    n, d = x.shape
    large = d in (2, 3) and n >= fourier.ROWS and x.dtype == np.float64
    if not (large and radial(terms)) or fourier.obstacle(radial(terms), x, order):
        return None
    modes = fourier.needed_modes(radial(terms), x)
    return Waves(modes) if modes and math.prod(modes) * _WORTH <= n**2 else None


def choose_by_size(terms: tuple[Summand, ...], rows: int, d: int, dtype: Any) -> AbstractBackend:
    """Return the backend for padded data of this shape and precision, whatever their values.

    Sums of exponentials have large weights of both signs, which costs three digits: in single
    precision, lines are used only if the user asks for them.
    """
    large = d == 1 and rows >= SORTED and dtype == np.float64
    pays = large and all(lines.supports(term.profile) for term in radial(terms))
    return Lines() if pays else Stored()


def _elsewhere(
    terms: tuple[Summand, ...], x: AbstractRows, wish: AbstractBackend | None
) -> AbstractBackend:
    """Return the backend for rows on disk or on several devices, or raise if pairs are too many."""
    if wish is not None and wish != Around():
        x.check_backend(wish.name)
    if not x.reads_from_disk:
        return Around()
    hours = len(x) ** 2 * _SECONDS / 3600
    if radial(terms) and hours > _HOURS:
        raise _too_many_pairs(len(x), hours)
    return Tiles()


@errors.explained("large-data.md")
def _too_many_pairs(n: int, hours: float) -> ValueError:
    return ValueError(
        f"{n} rows on disk have {float(n) ** 2:.2g} pairs, about {hours:.2g} hours for each evaluation. Use ms.SM() or "
        "ms.DSM(m), whose work grows with n, or a kernel of finite rank, such as that of ms.design(model, "
        "x.some(10_000), 'efficient'); or fit a sample: x.some(100_000). On the command line: --discrepancy sm, or "
        "--goal efficient."
    )
