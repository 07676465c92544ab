"""DKSD and KSD, means over pairs of observations."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import LogDensity, Point, Scalar, is_traced
from ..data.memory import available, for_pairs
from ..data.sample import Sample, bucket
from ..kernels import AbstractKernel, as_kernel
from ..pairs import matrix
from ..pairs.backends import AbstractBackend, Around, Parts, Summand, as_backend, radial
from ..pairs.choose import choose, choose_by_size
from ..pairs.forms import Features
from ..pairs.of_kernel import OfKernel
from ..pairs.stored import store
from ..params import names, unwrap
from ..stein import matrix_fields
from ..stein.affine import is_affine
from ..stein.diagnose import explain
from ..stein.diffusions import AbstractDiffusion, Pointwise, as_diffusion
from ..stein.operator import check_kernel, features, field_at, score
from .base import AbstractPairwise, check_together, too_few
from .base.pairs_on_disk import TablePairs
from .continuous import check_continuous, check_inside


class DKSD(AbstractPairwise):
    """The diffusion kernel Stein discrepancy, squared: the mean of k⁰(xᵢ, xⱼ) over pairs of
    observations.

    `k⁰ = bₓᵀK bᵧ + bₓᵀ[∇ᵧK : mᵧ] + [mₓ : ∇ₓK]ᵀbᵧ + [mₓ : ∇ₓ∇ᵧK : mᵧ]` with b = mᵀ∇log p + ∇·m. As a U-statistic, the
    mean over i ≠ j, it is unbiased and may be negative; as a V-statistic, over all i and j, it is
    neither, and it is convex in the natural parameters of an exponential family.

    Args:
        kernel: a kernel of `ms.kernels`, or any function K(x, y) that returns a scalar (read as
            kI), a vector or a matrix. Functions are differentiated pair by pair, which is slow.
        diffusion: m: None for the identity, a number, an array, a function of one point,
            `diffusions.decay`, or `diffusions.of_model` for one that depends on θ.
        unbiased: the U-statistic if true, else the V-statistic.
        backend: how pairs are summed: "tiles", "stored", "lines" or "fourier"; "parts" (`ms.Parts`)
            for those within random parts of the sample only; None to choose by size, dimension and
            kernel.

    >>> x = np.array([0.1, -0.4, 0.7, 1.5])
    >>> loss = ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.decay(2.0))(ms.models.Gaussian(0.0, 1.0), x)
    >>> round(float(loss), 6)
    -0.3042
    """

    needs_stein_class: ClassVar[bool] = True
    kernel: AbstractKernel
    diffusion: AbstractDiffusion
    unbiased: bool = eqx.field(static=True)
    backend: Any = eqx.field(static=True, default=None, repr=False)

    def __init__(
        self, kernel: Any, diffusion: Any = None, *, unbiased: bool = True, backend: Any = None
    ):
        self.kernel = as_kernel(kernel)
        self.diffusion = as_diffusion(diffusion)
        self.unbiased = bool(unbiased)
        self.backend = as_backend(backend)

    def ready(self, model, x):
        check_continuous(self, model)
        check_inside(self.diffusion, x)
        if self.unbiased and x.shape[0] < 2:
            raise too_few(x.shape[0])
        terms, backend = self.terms(), self.backend
        if _is_reducible(terms):
            order = lambda: self._order(model, x.shape[1])
            backend = choose(terms, x, order, as_backend(backend))
        else:
            check_together(f"{type(self).__name__} with a kernel of your own", x)
            if backend is not None:
                raise _plain_backend(backend.name)
        return DKSD(self.kernel, self.diffusion, unbiased=self.unbiased, backend=backend)

    def visited_terms(self, sample):
        terms = self.terms()
        visits = _is_reducible(terms) and self._backend_for(sample).visits_pairs
        return terms if visits else None

    def width(self, model: LogDensity, d: int) -> int:
        """The number of features of one observation."""
        return d + d ** self._order(model, d)

    def sums_all_pairs(self, n: int, d: int, dtype: Any) -> bool:
        """Whether the backend was chosen automatically and visits every pair."""
        terms = self.terms()
        by_pairs = _is_reducible(terms) and bool(radial(terms))
        chosen = choose_by_size(terms, bucket(n), d, dtype)
        asked = self.backend is not None and self.backend != chosen
        return by_pairs and not asked and chosen.visits_pairs

    def _order(self, model: LogDensity, d: int) -> int:
        """The order of m as a tensor: 0 for a scalar, 1 for a diagonal, 2 for a matrix."""
        point = jax.ShapeDtypeStruct((d,), jnp.float32)
        return jax.eval_shape(lambda x: field_at(unwrap(model), self.diffusion, x)(x), point).ndim

    def pairing(self, n: int, d: int, dtype: Any = np.float64) -> str:
        """The name of the backend that sums the pairs of n observations of d variables in this
        precision.
        """
        if not _is_reducible(self.terms()):
            return "autodiff"
        backend = as_backend(self.backend)
        return (backend or choose_by_size(self.terms(), bucket(n), d, dtype)).name

    def operator(self, sample):
        return OfKernel(self.terms(), sample, self._backend_for(sample))

    def _backend_for(self, sample: Sample) -> AbstractBackend:
        """The backend chosen when the data were read, or else the one for a sample of this size."""
        if sample.blocks is not None:  # tiles would take the padding of each device for rows
            return Around()
        rows, d = sample.x.shape
        return as_backend(self.backend) or choose_by_size(self.terms(), rows, d, sample.x.dtype)

    def objective(self, model, sample, *, natural=False, keep=False):
        check_kernel(self.kernel, sample.centre)
        if sample.all_at_once:
            return super().objective(model, sample, natural=natural, keep=keep)
        diagonal = self.diagonal(sample)
        return TablePairs(model, sample, natural, self, diagonal, self.terms())

    def stein_matrix(self, model, sample):
        check_kernel(self.kernel, sample.x[0])
        return matrix.stein_matrix(self.terms(), sample, self.features(model, sample))

    def explain(self, model, x, loss):
        explain(self, model, x, loss)

    @property
    def box(self):
        return self.diffusion.box

    @property
    def pilots(self):
        return ("ksd",) if self.diffusion.needs_pilot else ()

    def held_at(self, model):
        if not self.diffusion.follows_model:
            return self
        return eqx.tree_at(lambda d: d.diffusion, self, Pointwise(self.diffusion.at(model)))

    def after_pilot(self, pilot, x):
        return self.held_at(pilot)

    @property
    def rests_on_pilot(self):
        return True

    def doubts(self, pilot):
        if is_traced(pilot):
            return ("The diffusion is held at a pilot fit.",)
        values = ", ".join(f"{name} = {value:.6g}" for name, value in pilot.params.items())
        return (f"The diffusion is held at a pilot fit: {values}.",)

    def simplify(self, model, x):
        if len(x) <= _ALL_PAIRS or not x.is_here:
            return self
        ready = self.ready(model, x)
        laborious = ready.sums_all_pairs(x.shape[0], x.shape[1], x.dtype)
        return dataclasses.replace(ready, backend=Parts()) if laborious else self

    def check_memory(self, model, x):
        if is_traced(x) or not x.is_here or not _is_reducible(self.terms()):
            return
        d, free = x.shape[1], available()
        need = lambda width: for_pairs(bucket(len(x)), width, x.dtype, len(names(model)))
        if need(d + d**2) > free and need(self.width(model, d)) > free:
            raise _too_large(need(self.width(model, d)), free, x.shape)

    def notes(self, x):
        return () if self.backend is None else self.backend.notes(x.shape[0])

    @property
    def kind(self):
        return f"{type(self).__name__} as a {'U' if self.unbiased else 'V'}-statistic"

    def facts(self):
        return (("Kernel", repr(self.kernel)), ("Diffusion", repr(self.diffusion)))

    def is_quadratic(self, model, d):
        return is_affine(self.diffusion, model, d)

    def along(self, model: LogDensity, x: Point, u: Point) -> tuple[Scalar, Scalar, Scalar]:
        """In direction u at x: the size of m k, that of a field of the Stein class, √(uᵀmKmᵀu), and the
        contribution of the score to k⁰.
        """
        m = field_at(model, self.diffusion, x)(x)
        K = matrix_fields.as_matrix(jnp.asarray(self.kernel(x, x)), x.size)
        mu, ms = (
            matrix_fields.transpose_apply(m, u),
            matrix_fields.transpose_apply(m, score(model, x)),
        )
        size = jnp.sqrt(mu @ K @ mu)
        return size, size, jnp.abs(u @ ms) * jnp.sqrt(u @ K @ u)

    def terms(self) -> tuple[Summand, ...]:
        return self.kernel.summands()

    @property
    def still(self):
        return not self.diffusion.follows_model

    def features(self, model, sample):
        b, m = jax.vmap(lambda x: features(model, self.diffusion, x))(sample.x)
        return Features(sample.zero_padding(b), sample.zero_padding(m))

    def stored(self, model, sample):
        terms, backend = self.terms(), self._backend_for(sample)
        if not (self.still and _is_reducible(terms) and backend.stores(len(terms), sample)):
            return None
        m = jax.vmap(lambda x: field_at(model, self.diffusion, x)(x))(sample.x)
        return store(terms, sample, sample.zero_padding(m))

    def on_few_rows(self):
        return DKSD(self.kernel, self.diffusion, unbiased=self.unbiased, backend="tiles")

    def as_v(self):
        return DKSD(self.kernel, self.diffusion, unbiased=False, backend=self.backend)


def _is_reducible(terms: tuple[Summand, ...]) -> bool:
    """Whether every term of the kernel is of a kind that needs no autodiff over pairs."""
    return not any(term.is_free for term in terms)


def KSD(kernel: Any, *, unbiased: bool = True, backend: Any = None) -> DKSD:
    """The kernel Stein discrepancy, squared: DKSD with the identity as diffusion.

    Args:
        kernel: as for `DKSD`.
        unbiased: the U-statistic if true, else the V-statistic.
        backend: as for `DKSD`.

    >>> x = np.array([0.0, 1.0])
    >>> loss = ms.KSD(ms.kernels.Gaussian(1.0))(ms.models.Gaussian(0.0, 1.0), x)
    >>> bool(np.isclose(loss, -np.exp(-0.5)))                            # k⁰(0, 1) = (xy − 2r² + 1) e^(−r²/2)
    True
    """
    return DKSD(kernel, unbiased=unbiased, backend=backend)


_ALL_PAIRS = 100_000
"""The most observations for which a fit sums every pair; a pass over them takes about a minute."""


@errors.explained("large-data.md")
def _too_large(need: int, free: int, shape: tuple[int, ...]) -> MemoryError:
    return MemoryError(
        f"A fit of data of shape {shape} by sums over pairs needs about {need / 1e9:.2g} GB of memory beside the data, "
        f"and {free / 1e9:.2g} GB are free. Fit some of the rows, take ms.SM() or ms.DSM(...), which are means over "
        "observations, or spread the rows over machines with ms.shard."
    )


@errors.explained("large-data.md")
def _plain_backend(backend: str) -> ValueError:
    return ValueError(
        f'backend="{backend}" is for kernels of ms.kernels, but this one is a function of two points, whose pairs are '
        "differentiated one by one. Leave backend out."
    )
