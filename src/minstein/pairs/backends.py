"""The ways of summing over pairs that a user can name, as values; `choose` chooses among them.

    tiles    every pair, a tile of pairs at a time: any kernel, any dimension
    stored   as tiles, but a search keeps the kernel's matrix if the diffusion is θ-free
    lines    one dimension, in linear time
    fourier  two and three dimensions, by non-uniform fast Fourier transforms, for smooth kernels
    parts    only the pairs within random parts of the sample: another statistic with the same mean
    ring     every pair of rows that are spread over devices, whose blocks go round in a ring

All except parts give the same numbers, up to rounding and the tolerance of lines and fourier.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from .. import errors
from ..data.memory import available
from ..data.padding import bucket
from ..data.sample import Sample
from ..kernels import AbstractRadial, Span, Term
from ..kernels._kernel import Free
from . import fourier, lines
from .forms import AbstractFactored, AbstractWay, Columns, Full, Multiple
from .lines import no_lines
from .operator import AbstractOperator
from .parts import Within
from .reduce import mixing
from .ring import Ring
from .tiles import Tiles as ByTiles

Summand = Term | Span | Free


BYTES = 1 << 29
"""Memory that stored matrices may take; beyond it the pair sums are computed anew each time."""


def fits(matrices: int, sample: Sample) -> bool:
    """Whether this number of matrices fits into memory; rows on several devices have none."""
    rows = sample.x.shape[0]
    size = matrices * rows**2 * sample.x.dtype.itemsize
    return sample.blocks is None and size <= min(BYTES, available() // 4)


class Formed(AbstractOperator):
    """G of one radial term: its form, its profile, and the way through the pairs."""

    form: AbstractFactored | Full
    kernel: AbstractRadial
    way: AbstractWay

    def apply(self, phis, *, still=False, once=False):
        return self.form.sum_pairs(self.way, self.kernel, phis, still=still, once=once)

    def own(self, phis):
        k, k1, _ = self.kernel.profile(np.zeros((), phis.t.dtype))
        return self.form.diagonal(k, 2 * k1, phis)


class AbstractBackend(eqx.Module):
    """A way of summing over pairs, as a value."""

    name: ClassVar[str]
    visits_pairs: ClassVar[bool] = True
    """Whether pairs of rows in one place are visited one by one."""

    @abc.abstractmethod
    def way(self, sample: Sample) -> AbstractWay:
        """The way through the pairs of a form."""

    def operator(
        self, term: Term, form: AbstractFactored | Full, sample: Sample
    ) -> AbstractOperator:
        """G of a radial term, reduced to a form."""
        return Formed(form, term.profile, self.way(sample))

    def check(self, terms: tuple[Summand, ...], d: int) -> None:
        """Raise if this way does not exist for such a kernel or dimension."""

    def stores(self, matrices: int, sample: Sample) -> bool:
        """Whether a search keeps this number of kernel matrices."""
        return False

    def notes(self, n: int) -> tuple[str, ...]:
        """What a fit of n observations says of it."""
        return ()


class Tiles(AbstractBackend):
    """Every pair, a tile at a time, computed anew whenever it is needed."""

    name: ClassVar[str] = "tiles"

    def way(self, sample):
        return ByTiles(sample.n)


class Stored(AbstractBackend):
    """As `Tiles`, and a search keeps the kernel's matrix if it fits into memory."""

    name: ClassVar[str] = "stored"
    at_any_price: bool = eqx.field(static=True, default=False)
    """Whether to store however large the matrix is, because the user asked for it."""

    def way(self, sample):
        return ByTiles(sample.n)

    def stores(self, matrices, sample):
        return self.at_any_price or fits(matrices, sample)


class Around(AbstractBackend):
    """Rows that are spread over devices meet in a ring of tiles."""

    name: ClassVar[str] = "ring"
    visits_pairs: ClassVar[bool] = False

    def way(self, sample):
        assert sample.blocks is not None
        return Ring(sample.blocks)


class Lines(AbstractBackend):
    """Sums over points in ascending order; a diffusion that is not one number a point goes by
    tiles."""

    name: ClassVar[str] = "lines"
    visits_pairs: ClassVar[bool] = False

    def way(self, sample):
        return ByTiles(sample.n)

    def operator(self, term, form, sample):
        if isinstance(form, Multiple):
            return lines.Line.of(form, sample, term.profile)
        return super().operator(term, form, sample)

    def check(self, terms, d):
        if d != 1:
            raise no_lines(f"the data have {d} coordinates")
        for term in radial(terms):
            if not lines.supports(term.profile):
                raise no_lines(f"the kernel {type(term.profile).__name__} has no such sum")

    def notes(self, n):
        return (_linear_time(self.name),)


class Waves(AbstractBackend):
    """Fast Fourier transforms with this number of frequencies along each axis."""

    name: ClassVar[str] = "fourier"
    visits_pairs: ClassVar[bool] = False
    modes: tuple[int, ...] = eqx.field(static=True, default=())

    def way(self, sample):
        return ByTiles(sample.n)

    def operator(self, term, form, sample):
        if isinstance(form, Multiple | Columns):
            return fourier.Box(form.z, mixing(term, sample.x), term.profile, self.modes)
        return super().operator(term, form, sample)

    def notes(self, n):
        return (_linear_time(self.name),)


class Parts(AbstractBackend):
    """Sum only the pairs within random parts of the sample.

    Args:
        rows: the most observations in a part. Work is proportional to it; what is lost in
            precision, to its inverse.
        seed: how the observations are dealt out.

    >>> x = np.random.default_rng(0).standard_normal((1000, 4))
    >>> model, kernel = ms.models.Gaussian(np.zeros(4), 1.0), ms.kernels.IMQ(2.0)
    >>> all_pairs, some = ms.KSD(kernel)(model, x), ms.KSD(kernel, backend=ms.Parts(256))(model, x)
    >>> bool(abs(all_pairs - some) < 0.01)
    True
    """

    name: ClassVar[str] = "parts"
    rows: int = eqx.field(static=True, default=4096)
    seed: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        if not isinstance(self.rows, int) or self.rows < _FEWEST:
            raise _parts_too_small(self.rows)

    def count(self, n: int) -> int:
        """How many parts n observations make."""
        return -(-bucket(n) // min(bucket(self.rows), bucket(n)))

    def way(self, sample):
        return Within.of(sample, self.count(sample.x.shape[0]), self.seed)

    def notes(self, n):
        return (_only_parts(n, self.count(n)),) if self.count(n) > 1 else ()


_FEWEST = 16
"""Observations in a part below which the mean over its pairs is too noisy to be of use."""

KINDS: dict[str, AbstractBackend] = {
    "tiles": Tiles(),
    "stored": Stored(at_any_price=True),
    "lines": Lines(),
    "fourier": Waves(),
    "parts": Parts(),
}
"""What a user's word stands for."""


def as_backend(wish: Any) -> AbstractBackend | None:
    """Read the user's argument: a name, a backend, or None to choose."""
    if wish is None or isinstance(wish, AbstractBackend):
        return wish
    if wish not in KINDS:
        raise _unknown_backend(wish)
    return KINDS[wish]


def radial(terms: tuple[Summand, ...]) -> tuple[Term, ...]:
    """Those that have a reduced sum over pairs; the others are of finite rank, or a user's own."""
    return tuple(term for term in terms if isinstance(term, Term))


def spans(terms: tuple[Summand, ...]) -> tuple[Span, ...]:
    """Those of finite rank, which need no sum over pairs."""
    return tuple(term for term in terms if isinstance(term, Span))


def _linear_time(name: str) -> str:
    return (
        "The pairs were summed in linear time, to ten digits or more of the largest term "
        f'(the backend "{name}").'
    )


@errors.explained("large-data.md")
def _only_parts(n: int, parts: int) -> str:
    return (
        f"Only the pairs within {parts} random parts of about {n // parts} observations were "
        f"summed, {100 / parts:.2g} % of all pairs. The standard errors are those of this estimate, "
        'and a little larger than with all pairs; backend="tiles" sums all of them.'
    )


@errors.explained("large-data.md")
def _unknown_backend(got: Any) -> ValueError:
    names = ", ".join(f'"{name}"' for name in KINDS)
    return ValueError(
        f"backend must be one of {names}, or None to choose by size, dimension and kernel; "
        f"got {got!r}."
    )


@errors.explained("large-data.md")
def _parts_too_small(rows: Any) -> ValueError:
    return ValueError(
        f"Parts: rows must be a whole number of observations, {_FEWEST} or more, got {rows!r}."
    )
