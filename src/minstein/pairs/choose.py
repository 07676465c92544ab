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
"""Pairs that take as long as one frequency, measured."""

_SECONDS = 1e-8
"""What a pair takes by tiles, roughly."""

_HOURS = 50
"""Refuse a pair sum from disk that is estimated to take longer than this for one evaluation."""


def choose(
    terms: tuple[Summand, ...], x: Any, order: Callable[[], int], wish: AbstractBackend | None
) -> AbstractBackend:
    """Return the backend for these data: the one wished for, with what it must know of them, or the
    best.

    `order()` is 0 if m is one number a point, 1 if it is diagonal, 2 if it is a matrix.
    """
    n, d = x.shape
    if not as_rows(x).is_here:
        return _elsewhere(terms, as_rows(x), wish)
    if wish == Waves():
        return _ask_for_waves(terms, x, order)
    if wish is not None:
        wish.check(terms, d)
        return wish
    return _waves_that_pay(terms, x, order) or choose_by_size(terms, bucket(n), d, x.dtype)


def _waves_that_pay(
    terms: tuple[Summand, ...], x: Any, order: Callable[[], int]
) -> AbstractBackend | None:
    """Return a Fourier series if there is one and it is faster than visiting every pair."""
    n, d = x.shape
    large = d in (2, 3) and n >= fourier.ROWS and x.dtype == np.float64
    if not (large and radial(terms) and fourier.installed() and _come_apart(terms, order())):
        return None
    modes = fourier.needed_modes(radial(terms), x)
    return Waves(modes) if modes and math.prod(modes) * _WORTH <= n**2 else None


def choose_by_size(terms: tuple[Summand, ...], rows: int, d: int, dtype: Any) -> AbstractBackend:
    """Return the backend for padded data of this shape and precision, whatever their values.

    Weights of exponentials are large and of both signs, which in single precision costs three more
    digits: lines are then chosen only if they are asked for.
    """
    large = d == 1 and rows >= SORTED and dtype == np.float64
    pays = large and all(lines.supports(term.profile) for term in radial(terms))
    return Lines() if pays else Stored()


def _elsewhere(
    terms: tuple[Summand, ...], x: AbstractRows, wish: AbstractBackend | None
) -> AbstractBackend:
    """Return the backend for rows that are not in memory: they meet as tiles, or not at all."""
    if wish is not None and wish != Around():
        x.check_backend(wish.name)
    if not x.reads_from_disk:
        return Around()
    hours = len(x) ** 2 * _SECONDS / 3600
    if radial(terms) and hours > _HOURS:
        raise _too_many_pairs(len(x), hours)
    return Tiles()


def _come_apart(terms: tuple[Summand, ...], order: int) -> bool:
    """Whether the form of every term is `Multiple` or `Columns`."""
    return order == 0 or (
        order == 1 and all(term.mix is None or term.column is not None for term in radial(terms))
    )


def _ask_for_waves(terms: tuple[Summand, ...], x: Any, order: Callable[[], int]) -> Waves:
    """Refuse a Fourier series if there is none."""
    if not fourier.installed():
        raise _no_fourier("jax-finufft is not installed: pip install minstein[fast]")
    if x.shape[1] not in (2, 3):
        raise _no_fourier(f"the data have {x.shape[1]} coordinates")
    if not _come_apart(terms, order()):
        raise _no_fourier("the diffusion is a matrix")
    for term in radial(terms):
        if not fourier.supports(term.profile):
            raise _no_fourier(f"the kernel {type(term.profile).__name__} has no such series")
    modes = fourier.needed_modes(radial(terms), x)
    if modes is None:
        raise _no_fourier(
            f"the data spread so far that more than {fourier.MODES} frequencies are needed, or are "
            "being traced by JAX"
        )
    return Waves(modes)


@errors.explained("large-data.md")
def _too_many_pairs(n: int, hours: float) -> ValueError:
    return ValueError(
        f"{n} rows on disk have {float(n) ** 2:.2g} pairs, about {hours:.2g} hours for each evaluation. Use ms.SM() or "
        "ms.DSM(m), whose work grows with n, or a kernel of finite rank, such as that of ms.design(model, "
        "x.some(10_000), 'efficient'); or fit a sample: x.some(100_000). On the command line: --discrepancy sm, or "
        "--goal efficient."
    )


@errors.explained("large-data.md")
def _no_fourier(why: str) -> ValueError:
    return ValueError(
        f'backend="fourier" sums pairs in two or three dimensions by fast Fourier transforms, but {why}. It needs '
        "kernels Gaussian, IMQ or RationalQuadratic, their sums or multiples, and a diffusion that is a number or "
        'diagonal. Use backend="tiles", or None to choose.'
    )
