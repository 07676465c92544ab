"""The ways of summing over pairs that a user can name, as values; `choose` chooses among them.

    tiles    every pair, a tile of pairs at a time: any kernel, any dimension
    stored   as tiles, but a search keeps the kernel's matrix if the diffusion is θ-free
    lines    one dimension, in linear time
    fourier  two and three dimensions, by non-uniform fast Fourier transforms, for smooth kernels
    parts    only the pairs within random parts of the sample: another statistic with the same mean
    ring     every pair of rows that are spread over devices, whose blocks travel round a ring

All except parts give the same numbers, up to rounding and the tolerances of lines and fourier.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .. import errors
from ..data.memory import available
from ..data.padding import bucket
from ..data.sample import Sample
from ..kernels import AbstractRadial, Span, Term
from ..kernels._kernel import Free
from ..kernels.terms import radial as radial
from . import fourier, lines
from .forms import AbstractForm, AbstractWay, Columns, Multiple
from .lines import no_lines
from .operator import AbstractOperator
from .parts import Within
from .reduce import mixing
from .ring import Ring
from .tiles import Tiles as ByTiles

Summand = Term | Span | Free


BYTES = 1 << 29
"""The most memory that stored matrices may take (512 MB); if they need more, pair sums are computed
anew each time.
"""


def fits(matrices: int, sample: Sample) -> bool:
    """Whether this number of matrices fits into memory; never if rows are on several devices."""
    rows = sample.x.shape[0]
    size = matrices * rows**2 * sample.x.dtype.itemsize
    return sample.blocks is None and size <= min(BYTES, available() // 4)


class Formed(AbstractOperator):
    """G of one radial term, from its form and its profile, visiting the pairs in some way."""

    form: AbstractForm
    kernel: AbstractRadial
    way: AbstractWay

    def apply(self, phis, *, still=False, once=False):
        return self.form.sum_pairs(self.way, self.kernel, phis, still=still, once=once)

    def own(self, phis):
        k, k1, _ = self.kernel.profile(np.zeros((), phis.t.dtype))
        return self.form.diagonal(k, 2 * k1, phis)


class AbstractBackend(eqx.Module):
    """A way of summing over pairs, as a value. By default every pair is visited, by tiles."""

    name: ClassVar[str]
    visits_pairs: ClassVar[bool] = True
    """Whether the pairs of rows on one device are visited one by one."""

    def way(self, sample: Sample) -> AbstractWay:
        """The way to visit the pairs of a form."""
        return ByTiles(sample.n)

    def operator(self, term: Term, form: AbstractForm, sample: Sample) -> AbstractOperator:
        """G of a radial term, given its form."""
        return Formed(form, term.profile, self.way(sample))

    def ready(
        self, terms: tuple[Summand, ...], x: Any, order: Callable[[], int]
    ) -> "AbstractBackend":
        """Return this backend with what it precomputes from the data, or raise if it cannot sum the
        pairs of such a kernel and such data; arguments as in `choose`.
        """
        return self

    def stores(self, matrices: int, sample: Sample) -> bool:
        """Whether a search keeps this number of kernel matrices."""
        return False

    def notes(self, n: int) -> tuple[str, ...]:
        """The notes on a fit of n observations."""
        return ()


class Tiles(AbstractBackend):
    """Every pair, a tile at a time, computed anew whenever it is needed."""

    name: ClassVar[str] = "tiles"


class Stored(AbstractBackend):
    """As `Tiles`, but a search keeps the kernel's matrix if it fits into memory."""

    name: ClassVar[str] = "stored"
    at_any_price: bool = eqx.field(static=True, default=False)
    """Whether to store the matrix whatever its size, because the user asked for it."""

    def stores(self, matrices, sample):
        return self.at_any_price or fits(matrices, sample)


class Around(AbstractBackend):
    """Every pair of rows that are spread over devices, in a ring."""

    name: ClassVar[str] = "ring"
    visits_pairs: ClassVar[bool] = False

    def way(self, sample):
        assert sample.blocks is not None
        return Ring(sample.blocks)


class Lines(AbstractBackend):
    """Sums over points in ascending order; by tiles if m is not a number at each point."""

    name: ClassVar[str] = "lines"
    visits_pairs: ClassVar[bool] = False

    def operator(self, term, form, sample):
        match form:
            case Multiple():
                z = form.z[:, 0]
                order = jnp.argsort(z) if sample.order is None else sample.order
                return lines.Line(z, order, term.profile)
            case _:
                return super().operator(term, form, sample)

    def ready(self, terms, x, order):
        if x.shape[1] != 1:
            raise no_lines(f"the data have {x.shape[1]} coordinates")
        for term in radial(terms):
            if not lines.supports(term.profile):
                raise no_lines(f"the kernel {type(term.profile).__name__} has no such sum")
        return self

    def notes(self, n):
        return (_linear_time(self.name),)


class Waves(AbstractBackend):
    """Fast Fourier transforms, with `modes` frequencies along each axis; () if not yet known."""

    name: ClassVar[str] = "fourier"
    visits_pairs: ClassVar[bool] = False
    modes: tuple[int, ...] = eqx.field(static=True, default=())

    def operator(self, term, form, sample):
        match form:
            case Multiple() | Columns():
                return fourier.Box(form.z, mixing(term, sample.x), term.profile, self.modes)
            case _:
                return super().operator(term, form, sample)

    def ready(self, terms, x, order):
        if self.modes:
            return self
        why = fourier.obstacle(radial(terms), x, order)
        modes = None if why else fourier.needed_modes(radial(terms), x)
        if modes is None:
            raise _no_fourier(
                why
                or f"the data spread so far that more than {fourier.MODES} frequencies are needed, "
                "or are being traced by JAX"
            )
        return Waves(modes)

    def notes(self, n):
        return (_linear_time(self.name),)


class Parts(AbstractBackend):
    """Sum only the pairs within random parts of the sample.

    Args:
        rows: the largest number of observations in a part. Work is proportional to it, and the loss
            of precision to its inverse.
        seed: the seed with which observations are dealt out to parts.

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
        """The number of parts for n observations."""
        return -(-bucket(n) // min(bucket(self.rows), bucket(n)))

    def way(self, sample):
        return Within.of(sample, self.count(sample.x.shape[0]), self.seed)

    def notes(self, n):
        return (_only_parts(n, self.count(n)),) if self.count(n) > 1 else ()


_FEWEST = 16
"""The fewest observations in a part: the smallest padded size, and with fewer the mean over its
pairs would be too noisy to be of use.
"""

KINDS: dict[str, AbstractBackend] = {
    "tiles": Tiles(),
    "stored": Stored(at_any_price=True),
    "lines": Lines(),
    "fourier": Waves(),
    "parts": Parts(),
}
"""The backends by the names that users give them."""


def as_backend(wish: Any) -> AbstractBackend | None:
    """Convert the user's argument, a name, a backend or None, to a backend; None means to choose."""
    if wish is None or isinstance(wish, AbstractBackend):
        return wish
    if wish not in KINDS:
        raise _unknown_backend(wish)
    return KINDS[wish]


def spans(terms: tuple[Summand, ...]) -> tuple[Span, ...]:
    """Those of the terms that are of finite rank, which need no sum over pairs."""
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


@errors.explained("large-data.md")
def _no_fourier(why: str) -> ValueError:
    return ValueError(
        f'backend="fourier" sums pairs in two or three dimensions by fast Fourier transforms, but {why}. It needs '
        "kernels Gaussian, IMQ or RationalQuadratic, their sums or multiples, and a diffusion that is a number or "
        'diagonal. Use backend="tiles", or None to choose.'
    )
