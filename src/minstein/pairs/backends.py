"""Which way to sum over pairs: the one place that chooses.

    tiles    every pair, a tile of pairs at a time: any kernel, any dimension
    stored   as tiles, but a search keeps the kernel's matrix where the diffusion is θ-free
    lines    one dimension, in linear time
    fourier  two and three dimensions, by non-uniform fast Fourier transforms, for smooth kernels
    parts    only the pairs within random parts of the sample: another statistic with the same mean
    nystrom  every pair, in linear time, of another kernel: the Nyström approximation of this one

All but the last two give the same numbers, but for rounding and the tolerance of `lines` and `fourier`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..disk import OnDisk
from ..errors import disk_backend, no_fourier, no_lines, spread_backend, too_many_pairs
from ..kernels import Span, Term
from ..sample import SORTED, Sample
from ..sharded import Sharded
from . import fourier, lines
from .forms import AbstractFactored, AbstractOperator, Columns, Features, Full, Multiple, Ones
from .fourier import Waves
from .nystrom import Landmarks, Nystrom
from .parts import Parts, Scattered
from .reduce import mixing, reduced

BACKENDS = ("tiles", "stored", "lines", "fourier", "parts", "nystrom")

Backend = str | Waves | Parts | Nystrom
"""A backend by its name, or with what it must know."""

_WORTH = 200
"""Pairs that take as long as one frequency."""

_SECONDS = 1e-8
"""What a pair takes by tiles, roughly."""


def prepared(terms: tuple[Term | Span, ...], x: Any, order: Callable[[], int], wish: Backend | None) -> Backend | None:
    """The backend as wished, with what it must know of the data; None where it is chosen by their size alone.

    `order()` is 0 where m is one number a point, 1 where it is diagonal, 2 where it is a matrix.
    """
    n, d = x.shape
    if isinstance(x, Sharded):
        return _spread(wish)
    if isinstance(x, OnDisk):
        return _by_blocks(terms, n, wish)
    if isinstance(wish, Waves | Parts | Nystrom):
        return wish
    if wish == "fourier":
        return _wished_waves(terms, x, order)
    large = d in (2, 3) and n >= fourier.ROWS and x.dtype == np.float64
    if wish is not None or not large or not _radial(terms) or not fourier.installed():
        return wish
    if not _come_apart(terms, order()):
        return None
    found = fourier.waves(_radial(terms), x)
    return found if found is not None and math.prod(found.modes) * _WORTH <= n**2 else None


def _spread(wish: Backend | None) -> str:
    """Rows that are spread over devices meet in a ring of tiles."""
    if wish not in (None, "tiles"):
        raise spread_backend(name(wish))
    return "tiles"


_HOURS = 50
"""Beyond so many hours for one evaluation, pairs are not begun with."""


def _by_blocks(terms: tuple[Term | Span, ...], n: int, wish: Backend | None) -> str:
    """Rows on disk meet as tiles, if there is an end to it."""
    if wish not in (None, "tiles"):
        raise disk_backend(name(wish))
    hours = n**2 * _SECONDS / 3600
    if _radial(terms) and hours > _HOURS:
        raise too_many_pairs(n, hours)
    return "tiles"


def _come_apart(terms: tuple[Term | Span, ...], order: int) -> bool:
    """Whether the form of every term is `Multiple` or `Columns`."""
    return order == 0 or (order == 1 and all(term.mix is None or term.column is not None for term in _radial(terms)))


def _wished_waves(terms: tuple[Term | Span, ...], x: Any, order: Callable[[], int]) -> Waves:
    """Refuse a Fourier series where there is none."""
    if not fourier.installed():
        raise no_fourier("jax-finufft is not installed: pip install minstein[fast]")
    if x.shape[1] not in (2, 3):
        raise no_fourier(f"the data have {x.shape[1]} coordinates")
    if not _come_apart(terms, order()):
        raise no_fourier("the diffusion is a matrix")
    for term in _radial(terms):
        if not fourier.supports(term.profile):
            raise no_fourier(f"the kernel {type(term.profile).__name__} has no such series")
    found = fourier.waves(_radial(terms), x)
    if found is None:
        raise no_fourier(
            f"the data spread so far that more than {fourier.MODES} frequencies are needed, or are being traced by JAX"
        )
    return found


def chosen(terms: tuple[Term | Span, ...], x: Any, wish: Backend | None = None) -> Backend:
    """The backend for the terms of a kernel on padded data of the shape and precision of x.

    Weights of exponentials are large and of both signs, which in single precision costs three more digits: there
    `lines` are taken only where they are asked for.
    """
    rows, d = x.shape
    if wish == "lines":
        _check_lines(terms, d)
    if wish is not None:
        return wish
    large = d == 1 and rows >= SORTED and x.dtype == np.float64
    pays = large and all(lines.supports(term.profile) for term in _radial(terms))
    return "lines" if pays else "stored"


def as_backend(wish: Backend | None) -> Backend | None:
    """What a name stands for."""
    match wish:
        case "parts":
            return Parts()
        case "nystrom":
            return Nystrom()
        case _:
            return wish


def name(backend: Backend) -> str:
    match backend:
        case Waves():
            return "fourier"
        case Parts():
            return "parts"
        case Nystrom():
            return "nystrom"
        case _:
            return backend


def _check_lines(terms: tuple[Term | Span, ...], d: int) -> None:
    """Refuse linear time where there is none."""
    if d != 1:
        raise no_lines(f"the data have {d} coordinates")
    for term in _radial(terms):
        if not lines.supports(term.profile):
            raise no_lines(f"the kernel {type(term.profile).__name__} has no such sum")


def _radial(terms: tuple[Term | Span, ...]) -> tuple[Term, ...]:
    """Those that have a sum over pairs at all; the others are of finite rank."""
    return tuple(term for term in terms if isinstance(term, Term))


def formed(
    term: Term | Span, sample: Sample, phi: Features, backend: Backend
) -> tuple[AbstractFactored | Full | Ones | lines.Line | fourier.Box | AbstractOperator, Features]:
    """The form of a term as the backend wants it, and φ rewritten for it."""
    form, features = reduced(term, sample, phi)
    if backend == "lines" and isinstance(form, Multiple):
        return lines.Line.of(form, sample), features
    if isinstance(backend, Waves) and isinstance(form, Multiple | Columns) and isinstance(term, Term):
        return fourier.Box(form.z, mixing(term, sample.x), backend.modes), features
    if isinstance(backend, Parts) and isinstance(form, AbstractFactored | Full):
        return Scattered.of(form, sample, backend), features
    if isinstance(backend, Nystrom) and isinstance(form, AbstractFactored | Full):
        return Landmarks.of(form, sample, backend), features
    return form, features
