"""G in two and three dimensions in nearly linear time, by non-uniform fast Fourier transforms.

On a box around the data with periods L, a smooth kernel is the Fourier series κ(‖z‖²) = Σ_ω c(ω)
e^(iω·z). With m = h C and A(ω) = c(ω) Σⱼ (tⱼ − i Cᵀω hⱼ) e^(−iω·zⱼ),

    F(z) = Σ_ω A(ω) e^(iω·z),    J(z) = Σ_ω (i Cᵀω)·A(ω) e^(iω·z),

minus the contribution of each point to itself. For m = C diag(h) the products with Cᵀω are taken by
component. The transforms are those of finufft, from the extra `fast`.
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
from .forms import Features
from .operator import AbstractOperator

ROWS = 16_384
"""Below this number of rows, visiting every pair is as fast."""

MODES = 1 << 23
"""The largest number of frequencies: the sums at more would take over a gigabyte."""

_EPS = {8: 1e-12, 4: 1e-6}
"""The relative accuracy asked of finufft, by the bytes of a number: near the best that it reaches
in that precision.
"""

_GAUSSIAN, _POWER = 8.5, 30.0
"""The highest frequencies used, in units of the inverse scale of the kernel: the coefficients,
e^(−ω²/2) = 2e-16 and e^(−ω) = 1e-13, are then negligible.
"""

_FAR = 9.5
"""The distance in lengthscales at which a Gaussian kernel is negligible: e^(−9.5²/2) = 3e-20."""

_EDGE, _WIDER = 6.0, 0.1
"""The width of the margin in which other kernels are made to vanish, beyond the largest difference
of two points: 6 of their scales plus a tenth of that difference, wide enough for a smooth window.
"""

_STEEP = 5.5
"""½ erfc(5.5) = 4e-15: at this argument the window is zero up to rounding."""

_SMOOTH = Gaussian | IMQ | RationalQuadratic
"""Kernels smooth enough to need few frequencies."""


class Box(AbstractOperator):
    """G for m = h C or C diag(h), as in `Multiple` and `Columns`, in a box around the points.

    `modes` is the number of frequencies along each axis.
    """

    z: Float[Array, "n e"]
    C: Float[Array, "e r"]
    kernel: AbstractRadial
    modes: tuple[int, ...] = eqx.field(static=True)

    def apply(self, phis, *, still=False, once=False):
        rows = jnp.concatenate([phis.t, phis.m.reshape(*phis.t.shape[:2], -1)], 2)
        fields, own, r = _batch_fields(self, rows), self.own(phis), phis.t.shape[2]
        return Features(fields[..., :r] - own.t, fields[..., r:].reshape(phis.m.shape) - own.m)

    def own(self, phis):
        k, k1, _ = self.kernel.profile(jnp.zeros((), phis.t.dtype))
        lengths = jnp.sum(self.C**2, 0 if phis.m.ndim == phis.t.ndim else None)
        return Features(k * phis.t, -2 * k1 * lengths * phis.m)


def obstacle(terms: tuple[Term, ...], x: Any, order: Callable[[], int]) -> str | None:
    """Return why these terms have no Fourier series for such data, or None if they have one.

    `order()` is that of `choose`.
    """
    if importlib.util.find_spec("jax_finufft") is None:
        return "jax-finufft is not installed: pip install minstein[fast]"
    if x.shape[1] not in (2, 3):
        return f"the data have {x.shape[1]} coordinates"
    mixed = any(term.mix is not None and term.column is None for term in terms)
    if order() > (0 if mixed else 1):  # the form of some term is then `Full`
        return "the diffusion is a matrix"
    for term in terms:
        if not all(isinstance(p, _SMOOTH) for _, p in term.profile.components()):
            return f"the kernel {type(term.profile).__name__} has no such series"
    return None


def needed_modes(terms: tuple[Term, ...], x: Any) -> tuple[int, ...] | None:
    """Return the number of frequencies along each axis that a kernel needs on these data, or None if
    there are too many or JAX is tracing.
    """
    if is_traced((terms, x)):
        return None
    each = [_modes(term, np.asarray(x, np.float64)) for term in terms]
    modes = tuple(np.max(each, axis=0).astype(int).tolist())
    return modes if math.prod(modes) <= MODES else None


def _modes(term: Term, x: Float[Array, "n d"]) -> Float[Array, " e"]:
    z = x if term.whiten is None else x @ np.asarray(term.whiten).T
    width = np.ptp(z, axis=0)
    highest = max(_highest(profile) for _, profile in term.profile.components())
    needed = np.ceil(_periods(term.profile, width) * highest / (2 * np.pi))
    # a multiple of 8, so that data of similar spread share one compilation
    return 2 * np.minimum(8 * np.ceil(needed / 8), MODES) + 1


def _highest(kernel: Any) -> Any:
    """The highest frequency at which the coefficient of a profile is not negligible."""
    match kernel:
        case Gaussian():
            return _GAUSSIAN / kernel.lengthscale
        case _:
            return _POWER / _scale(kernel)


def _scale(kernel: Any) -> Any:
    """c of (c² + r²)^β."""
    match kernel:
        case IMQ():
            return kernel.c
        case _:
            return kernel.lengthscale * math.sqrt(2 * kernel.alpha)


def _periods(kernel: AbstractRadial, width: Any) -> Any:
    """The periods of a box so large that no point is affected by the periodic images of others."""

    def periods(profile: Any) -> Any:
        match profile:
            case Gaussian():
                return width + _FAR * profile.lengthscale
            case _:
                return 2 * (width + _margin(profile, width))

    return reduce(namespace(width).maximum, (periods(p) for _, p in kernel.components()))


def _margin(kernel: Any, width: Any) -> Any:
    """The width of the margin in which a slowly decreasing kernel is made to vanish."""
    return _EDGE * _scale(kernel) + _WIDER * width


def _batch_fields(box: Box, phis: Float[Array, "a n c"]) -> Float[Array, "a n c"]:
    """G φ, including each point with itself, for a batch of features with t and then h in each row.

    Under vmap a batch of batches is treated as one batch.
    """

    @jax.custom_batching.custom_vmap
    def batched(phis: Float[Array, "a n c"]) -> Float[Array, "a n c"]:
        return _fields(box, phis)

    @batched.def_vmap
    def _(_size: int, _is_batched: list, phis: Float[Array, "b a n c"]) -> tuple[Array, bool]:
        return batched(phis.reshape(-1, *phis.shape[2:])).reshape(phis.shape), True

    return batched(phis)


def _fields(box: Box, phis: Float[Array, "a n c"]) -> Float[Array, "a n c"]:
    from jax_finufft import nufft1, nufft2

    low, high = jnp.min(box.z, 0), jnp.max(box.z, 0)
    L = _periods(box.kernel, high - low)
    at = tuple((2 * jnp.pi / L * (box.z - (low + high) / 2)).T)
    omega = jnp.stack(jnp.meshgrid(*map(_frequencies, L, box.modes), indexing="ij"))
    along = 1j * jnp.einsum("er,e...->r...", box.C, omega)
    r, eps = box.C.shape[1], _EPS[phis.dtype.itemsize]
    sources = jnp.moveaxis(phis, 2, 1).astype(along.dtype)
    sums = _each(lambda rows: nufft1(box.modes, rows, *at, iflag=-1, eps=eps), sources)
    A = _coefficients(box, L, high - low) * (sums[:, :r] - along * sums[:, r:])
    slopes = along * A
    slopes = slopes if phis.shape[2] == 2 * r else jnp.sum(slopes, 1, keepdims=True)
    waves = jnp.concatenate([A, slopes], 1)
    fields = _each(lambda rows: nufft2(rows, *at, iflag=1, eps=eps), waves)
    return jnp.moveaxis(jnp.real(fields), 1, 2)


def _each(transform: Callable, batch: Array) -> Array:
    """Apply a transform that takes one batch axis to a batch with two."""
    out = transform(batch.reshape(-1, *batch.shape[2:]))
    return out.reshape(*batch.shape[:2], *out.shape[1:])


def _frequencies(period: Array, modes: int) -> Float[Array, " k"]:
    return 2 * jnp.pi / period * jnp.arange(-(modes // 2), modes // 2 + 1)


def _coefficients(
    box: Box, L: Float[Array, " e"], width: Float[Array, " e"]
) -> Float[Array, "..."]:
    """c(ω) on the grid of frequencies: in closed form for a Gaussian, else by a fast Fourier
    transform.
    """

    def coefficients(profile: AbstractRadial) -> Float[Array, "..."]:
        match profile:
            case Gaussian():
                return _gaussian_coefficients(profile.lengthscale, L, box.modes)
            case _:
                return _sampled_coefficients(profile, L, width, box.modes)

    return reduce(jnp.add, (w * coefficients(p) for w, p in box.kernel.components()))


def _gaussian_coefficients(
    ell: Any, L: Float[Array, " e"], modes: tuple[int, ...]
) -> Float[Array, "..."]:
    factors = [
        jnp.sqrt(2 * jnp.pi)
        * ell
        / period
        * jnp.exp(-((ell * _frequencies(period, count)) ** 2) / 2)
        for period, count in zip(L, modes, strict=True)
    ]
    return reduce(jnp.multiply, jnp.meshgrid(*factors, indexing="ij"))


def _sampled_coefficients(
    kernel: AbstractRadial, L: Float[Array, " e"], width: Float[Array, " e"], modes: tuple[int, ...]
) -> Float[Array, "..."]:
    """c(ω) of the kernel times a window that is one for every difference of two points and vanishes
    half a period away.
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
