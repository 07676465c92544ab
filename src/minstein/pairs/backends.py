"""Which way to sum over pairs: the one place that chooses.

    tiles    every pair, a tile of pairs at a time: any kernel, any dimension
    stored   as tiles, but a search keeps the kernel's matrix where the diffusion is θ-free
    lines    one dimension, in linear time

All give the same numbers, but for rounding and the tolerance of `lines`.
"""

from typing import Any

import numpy as np

from ..errors import no_lines
from ..kernels import Term
from ..sample import SORTED, Sample
from . import lines
from .forms import AbstractFactored, Features, Full, Multiple
from .reduce import reduced

BACKENDS = ("tiles", "stored", "lines")


def chosen(terms: tuple[Term, ...], x: Any, wish: str | None = None) -> str:
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
    pays = large and all(lines.supports(term.profile) for term in terms)
    return "lines" if pays else "stored"


def _check_lines(terms: tuple[Term, ...], d: int) -> None:
    """Refuse linear time where there is none."""
    if d != 1:
        raise no_lines(f"the data have {d} coordinates")
    for term in terms:
        if not lines.supports(term.profile):
            raise no_lines(f"the kernel {type(term.profile).__name__} has no such sum")


def formed(
    term: Term, sample: Sample, phi: Features, backend: str
) -> tuple[AbstractFactored | Full | lines.Line, Features]:
    """The form of a term as the backend wants it, and φ rewritten for it."""
    form, features = reduced(term, sample, phi)
    if backend == "lines" and isinstance(form, Multiple):
        return lines.Line.of(form, sample), features
    return form, features
