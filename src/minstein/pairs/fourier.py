"""G in two and three dimensions in nearly linear time: sums over points are non-uniform fast
Fourier transforms.

On a box around the data, of periods L, a smooth kernel is the Fourier series κ(‖z‖²) = Σ_ω c(ω)
e^(iω·z). With m = h C and A(ω) = c(ω) Σⱼ (tⱼ − i Cᵀω hⱼ) e^(−iω·zⱼ),

    F(z) = Σ_ω A(ω) e^(iω·z),    J(z) = Σ_ω (i Cᵀω)·A(ω) e^(iω·z),

less what a point sends to itself. For m = C diag(h) the products with Cᵀω are by components. The
transforms are those of finufft, from the extra `fast`.
"""

import importlib.util
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Float

from .._types import Array, is_traced, namespace
from ..kernels import IMQ, AbstractRadial, Gaussian, RationalQuadratic, Term
from ..kernels.algebra import RadialMultiple, RadialSum
from .forms import Features
from .operator import AbstractOperator

ROWS = 16_384
"""Rows from which on the transforms pay."""

MODES = 1 << 23
"""The most frequencies: their sums take a gigabyte."""

_EPS = {8: 1e-12, 4: 1e-6}
"""What finufft is asked for, by the bytes of a number."""

_GAUSSIAN, _POWER = 8.5, 30.0
"""Frequencies that matter, over the scale of the kernel: e^(−ω²/2) and e^(−ω) are then lost in
rounding.
"""

_FAR, _EDGE, _WIDER = 9.5, 6.0, 0.1
"""The distance, in lengthscales, beyond which a Gaussian is zero. Other kernels are made to vanish
beyond the largest difference, over this many of their scales and this share of the difference.
"""

_STEEP = 5.5
"""½ erfc of this is lost in rounding."""


class Box(AbstractOperator):
    """m = h C or C diag(h), in a box: as `Multiple` and `Columns`, with C itself.

    `modes` is the number of frequencies along each axis.
    """

    z: Float[Array, "n e"]
    C: Float[Array, "e r"]
    kernel: AbstractRadial
    modes: tuple[int, ...] = eqx.field(static=True)

    def apply(self, phis, *, still=False, once=False):
        rows = jnp.concatenate([phis.t, phis.m.reshape(*phis.t.shape[:2], -1)], 2)
        fields = _batch_fields(self, rows)
        r = phis.t.shape[2]
        return Features(fields[..., :r], fields[..., r:].reshape(phis.m.shape))

    def own(self, phis):
        k, k1, _ = self.kernel.profile(jnp.zeros((), phis.t.dtype))
        lengths = jnp.sum(self.C**2, 0 if phis.m.ndim == phis.t.ndim else None)
        return Features(k * phis.t, -2 * k1 * lengths * phis.m)


def installed() -> bool:
    return importlib.util.find_spec("jax_finufft") is not None


def needed_modes(terms: tuple[Term, ...], x: Any) -> tuple[int, ...] | None:
    """The frequencies along each axis that a kernel needs on these data; None if it has no such
    series, or too many.
    """
    if is_traced((terms, x)) or not all(supports(term.profile) for term in terms):
        return None
    each = [_modes(term, np.asarray(x, np.float64)) for term in terms]
    modes = tuple(np.max(each, axis=0).astype(int).tolist())
    return modes if math.prod(modes) <= MODES else None


def _modes(term: Term, x: Float[Array, "n d"]) -> Float[Array, " e"]:
    z = x if term.whiten is None else x @ np.asarray(term.whiten).T
    width = np.ptp(z, axis=0)
    needed = np.ceil(_period(term.profile, width) * _highest(term.profile) / (2 * np.pi))
    return 2 * np.minimum(8 * np.ceil(needed / 8), MODES) + 1


def supports(kernel: AbstractRadial) -> bool:
    """Whether a kernel is smooth enough for few frequencies."""
    match kernel:
        case RadialSum():
            return all(map(supports, kernel.profiles))
        case RadialMultiple():
            return supports(kernel.of)
        case _:
            return isinstance(kernel, Gaussian | IMQ | RationalQuadratic)


def _highest(kernel: Any) -> Any:
    """The highest frequency that matters."""
    match kernel:
        case RadialSum():
            return max(map(_highest, kernel.profiles))
        case RadialMultiple():
            return _highest(kernel.of)
        case Gaussian():
            return _GAUSSIAN / kernel.lengthscale
        case _:
            return _POWER / _scale(kernel)


def _scale(kernel: Any) -> Any:
    """c of (c² + r²)^β."""
    return kernel.c if isinstance(kernel, IMQ) else kernel.lengthscale * math.sqrt(2 * kernel.alpha)


def _period(kernel: Any, width: Any) -> Any:
    """The periods of a box in which no point meets the image of another."""
    match kernel:
        case RadialSum():
            return reduce(
                namespace(width).maximum,
                _periods(kernel, width),
            )
        case RadialMultiple():
            return _period(kernel.of, width)
        case Gaussian():
            return width + _FAR * kernel.lengthscale
        case _:
            return 2 * (width + _margin(kernel, width))


def _periods(kernel: RadialSum, width: Any) -> list:
    return [_period(profile, width) for profile in kernel.profiles]


def _margin(kernel: Any, width: Any) -> Any:
    """Over which a kernel that falls slowly is made to vanish."""
    return _EDGE * _scale(kernel) + _WIDER * width


def _batch_fields(box: Box, phis: Float[Array, "a n c"]) -> Float[Array, "a n c"]:
    """(G φ)ᵢ for a batch of features, t and then h in each row; a batch of batches is one batch."""

    @jax.custom_batching.custom_vmap
    def batched(phis: Float[Array, "a n c"]) -> Float[Array, "a n c"]:
        return _fields(box, box.kernel, phis)

    @batched.def_vmap
    def _(_size: int, _is_batched: list, phis: Float[Array, "b a n c"]) -> tuple[Array, bool]:
        return batched(phis.reshape(-1, *phis.shape[2:])).reshape(phis.shape), True

    return batched(phis)


def _fields(
    form: Box, kernel: AbstractRadial, phis: Float[Array, "a n c"]
) -> Float[Array, "a n c"]:
    from jax_finufft import nufft1, nufft2

    low, high = jnp.min(form.z, 0), jnp.max(form.z, 0)
    L = _period(kernel, high - low)
    at = tuple((2 * jnp.pi / L * (form.z - (low + high) / 2)).T)
    omega = jnp.stack(jnp.meshgrid(*map(_frequencies, L, form.modes), indexing="ij"))
    along = 1j * jnp.einsum("er,e...->r...", form.C, omega)
    r, eps = form.C.shape[1], _EPS[phis.dtype.itemsize]
    sources = jnp.moveaxis(phis, 2, 1).astype(along.dtype)
    sums = _each(lambda rows: nufft1(form.modes, rows, *at, iflag=-1, eps=eps), sources)
    A = coefficients(kernel, L, high - low, form.modes) * (sums[:, :r] - along * sums[:, r:])
    slopes = along * A
    slopes = slopes if phis.shape[2] == 2 * r else jnp.sum(slopes, 1, keepdims=True)
    waves = jnp.concatenate([A, slopes], 1)
    fields = _each(lambda rows: nufft2(rows, *at, iflag=1, eps=eps), waves)
    return jnp.moveaxis(jnp.real(fields), 1, 2) - _own(form, kernel, phis)


def _each(transform: Callable, batch: Array) -> Array:
    """A transform of one leading axis, over two."""
    out = transform(batch.reshape(-1, *batch.shape[2:]))
    return out.reshape(*batch.shape[:2], *out.shape[1:])


def _own(form: Box, kernel: AbstractRadial, phis: Float[Array, "a n c"]) -> Float[Array, "a n c"]:
    """What each point sends to itself."""
    r = form.C.shape[1]
    k, k1, _ = kernel.profile(jnp.zeros((), phis.dtype))
    lengths = jnp.sum(form.C**2, 0) if phis.shape[2] == 2 * r else jnp.sum(form.C**2)[None]
    return phis * jnp.concatenate([jnp.full(r, k), -2 * k1 * lengths])


def _frequencies(period: Array, modes: int) -> Float[Array, " k"]:
    return 2 * jnp.pi / period * jnp.arange(-(modes // 2), modes // 2 + 1)


def coefficients(
    kernel: Any, L: Float[Array, " e"], width: Float[Array, " e"], modes: tuple[int, ...]
) -> Float[Array, "..."]:
    """c(ω) on the grid of frequencies: in closed form for a Gaussian, else by a fast Fourier
    transform.
    """
    match kernel:
        case RadialSum():
            return reduce(
                jnp.add, (coefficients(profile, L, width, modes) for profile in kernel.profiles)
            )
        case RadialMultiple():
            return kernel.factor * coefficients(kernel.of, L, width, modes)
        case Gaussian():
            ell = kernel.lengthscale
            factors = [
                jnp.sqrt(2 * jnp.pi)
                * ell
                / period
                * jnp.exp(-((ell * _frequencies(period, count)) ** 2) / 2)
                for period, count in zip(L, modes, strict=True)
            ]
            return reduce(jnp.multiply, jnp.meshgrid(*factors, indexing="ij"))
        case _:
            return _sampled(kernel, L, width, modes)


def _sampled(
    kernel: AbstractRadial, L: Float[Array, " e"], width: Float[Array, " e"], modes: tuple[int, ...]
) -> Float[Array, "..."]:
    """The kernel times a window that is one for every difference of two points and vanishes half a
    period away.
    """
    steps = [
        period * jnp.arange(-(count // 2), count // 2 + 1) / count
        for period, count in zip(L, modes, strict=True)
    ]
    margin = _margin(kernel, width)
    windows = [
        erfc(_STEEP * (2 * (jnp.abs(step) - w) / edge - 1)) / 2
        for step, w, edge in zip(steps, width, margin, strict=True)
    ]
    square = reduce(jnp.add, jnp.meshgrid(*(step**2 for step in steps), indexing="ij"))
    values = kernel.profile(square)[0] * reduce(jnp.multiply, jnp.meshgrid(*windows, indexing="ij"))
    return jnp.fft.fftshift(jnp.fft.fftn(jnp.fft.ifftshift(values)).real) / math.prod(modes)
