"""The discrepancies: DKSD and KSD, sums over pairs; DSM and SM, sums over points."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from . import _fields, errors
from ._types import Array, LogDensity, Scalar
from .affine import is_affine
from .diagnose import explain
from .diffusions import AbstractDiffusion, OfModel, as_diffusion
from .discrepancy import AbstractDiscrepancy, AbstractPairwise, AbstractPointwise, check_together
from .divergence import AbstractDivergence, Exact
from .kernels import AbstractKernel, Span, Term, as_kernel
from .operator import check_kernel, features, field_at, score, stein_kernel
from .pairs import Products, autodiff, pair_fields, pair_products, pair_sum
from .pairs.backends import BACKENDS, Backend, as_backend, chosen, name, prepared
from .pairs.by_blocks import ByBlocks
from .pairs.forms import Features
from .pairs.fourier import Waves
from .pairs.nystrom import Nystrom
from .pairs.parts import Parts
from .pairs.stored import fits, store
from .params import theta, unwrap, with_theta
from .sample import AnySample, Sample, Table, bucket
from .spaces import space_of


class DKSD(AbstractPairwise):
    """The diffusion kernel Stein discrepancy, squared: the mean of k⁰(xᵢ, xⱼ) over pairs of observations.

    `k⁰ = bₓᵀK bᵧ + bₓᵀ[∇ᵧK : mᵧ] + [mₓ : ∇ₓK]ᵀbᵧ + [mₓ : ∇ₓ∇ᵧK : mᵧ]` with b = mᵀ∇log p + ∇·m. As a U-statistic, the
    mean over i ≠ j, it is unbiased and may be negative; as a V-statistic, over all i and j, it is neither, and it is
    convex in the natural parameters of an exponential family.

    Args:
        kernel: a kernel of `ms.kernels`, or any function K(x, y) that returns a scalar (read as kI), a vector or a
            matrix. Functions are differentiated pair by pair, which is slow.
        diffusion: m: None for the identity, a number, an array, a function of one point, `diffusions.decay`, or
            `diffusions.of_model` for one that depends on θ.
        unbiased: the U-statistic if true, else the V-statistic.
        backend: how pairs are summed: "tiles", "stored", "lines" or "fourier"; "parts" (`ms.Parts`) for those within
            random parts of the sample only; "nystrom" (`ms.Nystrom`) for another kernel, of finite rank; None to choose
            by size, dimension and kernel.

    >>> x = np.array([0.1, -0.4, 0.7, 1.5])
    >>> loss = ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.decay(2.0))(ms.models.Gaussian(0.0, 1.0), x)
    >>> round(float(loss), 6)
    -0.3042
    """

    kernel: AbstractKernel
    diffusion: AbstractDiffusion
    unbiased: bool = eqx.field(static=True)
    backend: Backend | None = eqx.field(static=True, default=None, repr=False)

    def __init__(self, kernel: Any, diffusion: Any = None, *, unbiased: bool = True, backend: Backend | None = None):
        self.kernel = as_kernel(kernel)
        self.diffusion = as_diffusion(diffusion)
        self.unbiased = bool(unbiased)
        if not isinstance(backend, Waves | Parts | Nystrom) and backend not in (None, *BACKENDS):
            raise errors.unknown_backend(backend, BACKENDS)
        self.backend = as_backend(backend)

    def ready(self, model, x):
        _check_continuous(self, model)
        if self.unbiased and x.shape[0] < 2:
            raise errors.too_few(x.shape[0])
        terms, backend = self.terms(), self.backend
        if terms is None:
            check_together(f"{type(self).__name__} with a kernel of your own", x)
        else:
            backend = prepared(terms, x, lambda: self._order(model, x.shape[1]), backend)
        ready = DKSD(self.kernel, self.diffusion, unbiased=self.unbiased, backend=backend)
        ready.pairing(x.shape[0], x.shape[1], x.dtype)
        return ready

    def visits_pairs(self, sample: Sample) -> bool:
        """Whether pairs of rows in one place are visited one by one, all of them or those within parts."""
        ways = ("tiles", "stored", "parts")
        return sample.blocks is None and name(chosen(self.terms() or (), sample.x, self.backend)) in ways

    def width(self, model: LogDensity, d: int) -> int:
        """Numbers of the features of one observation."""
        return d + d ** self._order(model, d)

    def sums_all_pairs(self, n: int, d: int, dtype: Any) -> bool:
        """Whether no backend is wished, and the one chosen visits every pair."""
        terms = self.terms()
        by_pairs = terms is not None and any(isinstance(term, Term) for term in terms)
        return by_pairs and self.backend is None and self.pairing(n, d, dtype) in ("tiles", "stored")

    def _order(self, model: LogDensity, d: int) -> int:
        """0 where m is one number a point, 1 where it is diagonal, 2 where it is a matrix."""
        point = jax.ShapeDtypeStruct((d,), jnp.float32)
        return jax.eval_shape(lambda x: field_at(unwrap(model), self.diffusion, x)(x), point).ndim

    def pairing(self, n: int, d: int, dtype: Any = np.float64) -> str:
        """The backend that sums the pairs of n observations of d variables in this precision."""
        terms = self.terms()
        if terms is not None:
            return name(chosen(terms, jax.ShapeDtypeStruct((bucket(n), d), dtype), self.backend))
        if self.backend is not None:
            raise errors.plain_backend(name(self.backend))
        return "autodiff"

    def loss(self, model, sample):
        check_kernel(self.kernel, sample.centre)
        if isinstance(sample, Table):
            alone = lambda block: jax.tree.map(lambda part: part[None], self.features(model, block))
            return self._mean(ByBlocks(self.terms() or (), sample, alone, self.still).products(), sample)[0, 0]
        if self.terms() is None:
            k0 = stein_kernel(model, self.diffusion, self.kernel)
            return autodiff.pair_sum(k0, sample, with_diagonal=not self.unbiased) / self.pairs(sample)
        return self.pair_sum(sample, self.features(model, sample), not self.unbiased) / self.pairs(sample)

    def _mean(self, pairs: Products, sample: AnySample) -> Float[Array, "q q"]:
        return (pairs.off if self.unbiased else pairs.off + pairs.on) / self.pairs(sample)

    def information(self, model, sample):
        if isinstance(sample, Table):
            tangents = lambda block: _without_m(score_tangents(model, self.diffusion, block))
            return self._mean(ByBlocks(self.terms() or (), sample, tangents, False).products(), sample)
        terms, t = self.terms(), score_tangents(model, self.diffusion, sample)
        if terms is None:
            return autodiff.pair_products(self.kernel, sample, t, with_diagonal=not self.unbiased) / self.pairs(sample)
        return self._mean(pair_products(terms, sample, _without_m(t), backend=self.backend), sample)

    def explain(self, model, x, loss):
        explain(self, model, x, loss)

    @property
    def irregular(self):
        return None

    @property
    def kind(self):
        return f"{type(self).__name__} as a {'U' if self.unbiased else 'V'}-statistic"

    def facts(self):
        return (("Kernel", repr(self.kernel)), ("Diffusion", repr(self.diffusion)))

    def is_quadratic(self, model, d):
        return is_affine(self.diffusion, model, d)

    def terms(self) -> tuple[Term | Span, ...] | None:
        return self.kernel.terms()

    @property
    def still(self):
        return not isinstance(self.diffusion, OfModel)

    def features(self, model, sample):
        b, m = jax.vmap(lambda x: features(model, self.diffusion, x))(sample.x)
        return Features(sample.zero_padding(b), sample.zero_padding(m))

    def pair_sum(self, sample, phi, diagonal):
        return pair_sum(self.terms() or (), sample, phi, diagonal=diagonal, backend=self.backend)

    def pair_fields(self, sample, phis, *, once=False):
        terms = self.terms() or ()
        return pair_fields(terms, sample, phis, still=self.still, once=once, backend=self.backend)

    def stored(self, model, sample):
        terms = self.terms()
        if terms is None or not self.still or chosen(terms, sample.x, self.backend) != "stored":
            return None
        if self.backend is None and not fits(len(terms), sample):
            return None
        m = jax.vmap(lambda x: field_at(model, self.diffusion, x)(x))(sample.x)
        return store(terms, sample, sample.zero_padding(m))

    def as_v(self):
        return DKSD(self.kernel, self.diffusion, unbiased=False, backend=self.backend)


def _without_m(t: Float[Array, "q N r"]) -> Features:
    """Features (t, 0)."""
    return Features(t, jnp.zeros(t.shape[:2], t.dtype))


def _check_continuous(discrepancy: AbstractDiscrepancy, model: LogDensity) -> None:
    if space_of(model).discrete:
        raise errors.needs_continuous(type(discrepancy).__name__, space_of(model))


def KSD(kernel: Any, *, unbiased: bool = True, backend: Backend | None = None) -> DKSD:
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


class DSM(AbstractPointwise):
    """Diffusion score matching: the mean of ‖mᵀ∇log p‖² + 2∇·(mmᵀ∇log p) over the observations.

    Up to a term without θ it is E‖mᵀ(∇log p − ∇log q)‖² for data from q. Non-negative score matching is
    `DSM(lambda x: x)`.

    Args:
        diffusion: m, as for `DKSD`, but without θ.
        divergence: how ∇· is evaluated: exactly if not given; `ms.Hutchinson(key)` or `ms.Sliced(key)` where d is so
            large that d derivatives for each observation are too many.

    >>> x = np.array([0.1, -0.4, 0.7, 1.5])
    >>> loss = ms.DSM(lambda x: x)(ms.models.Gaussian(0.0, 1.0), x)
    >>> bool(np.isclose(loss, np.mean(x**4 - 6 * x**2)))                 # the score is −x, so mmᵀs = −x³
    True
    """

    diffusion: AbstractDiffusion
    divergence: AbstractDivergence

    def __init__(self, diffusion: Any = None, *, divergence: AbstractDivergence | None = None):
        self.diffusion = as_diffusion(diffusion)
        if isinstance(self.diffusion, OfModel):
            raise errors.theta_dependent_dsm()
        self.divergence = Exact() if divergence is None else divergence

    def ready(self, model, x):
        _check_continuous(self, model)
        return self

    def contributions(self, model, sample):
        """‖mᵀ∇log p‖² + 2∇·(mmᵀ∇log p) at each row, a block of rows at a time so that few Hessians are in memory."""

        @jax.checkpoint
        def one(row_and_x: tuple[Array, Array]) -> Scalar:
            row, x = row_and_x
            field = field_at(model, self.diffusion, x)
            projected = lambda x: _fields.transpose_apply(field(x), score(model, x))
            v = lambda x: _fields.apply(field(x), projected(x))
            return self.divergence.contribution(projected(x), v, x, row)

        block = max(1, _ENTRIES // self.divergence.entries(sample.x.shape[1]))
        return sample.by_rows(one, (sample.numbers, sample.x), block)

    def residuals(self, model, sample):
        """mᵀ∇log p at each row."""
        m = lambda x: field_at(model, self.diffusion, x)(x)
        return sample.zero_padding(jax.vmap(lambda x: _fields.transpose_apply(m(x), score(model, x)))(sample.x))

    def explain(self, model, x, loss):
        explain(self, model, x, loss)

    @property
    def irregular(self):
        return None

    @property
    def kind(self):
        return type(self).__name__

    def facts(self):
        return (("Diffusion", repr(self.diffusion)),)

    def is_quadratic(self, model, d):
        return is_affine(self.diffusion, model, d)


def SM(*, divergence: AbstractDivergence | None = None) -> DSM:
    """Score matching: DSM with the identity as diffusion, the mean of ‖∇log p‖² + 2Δlog p.

    It is twice the loss of Hyvärinen (2005) and of the paper's SM.

    Args:
        divergence: as for `DSM`.

    >>> x = np.array([0.1, -0.4, 0.7, 1.5])
    >>> loss = ms.SM()(ms.models.Gaussian(0.0, 1.0), x)
    >>> bool(np.isclose(loss, np.mean(x**2) - 2))
    True
    """
    return DSM(divergence=divergence)


_ENTRIES = 1 << 20
"""Second derivatives that are in memory at once."""


def score_tangents(model: LogDensity, diffusion: AbstractDiffusion, sample: Sample) -> Float[Array, "p N d"]:
    """mᵀ ∂_θ ∇log p at each observation, for each parameter; the diffusion is held at the model."""

    def one(x: Array) -> Array:
        m = field_at(model, diffusion, x)(x)
        slopes = jax.jacfwd(lambda vector: score(unwrap(with_theta(model, vector)), x))(theta(model))
        return jax.vmap(lambda slope: _fields.transpose_apply(m, slope), in_axes=1)(slopes)

    return jnp.moveaxis(sample.zero_padding(jax.vmap(one)(sample.x)), 0, 1)
