"""The kernel Stein discrepancy of discrete models."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from . import errors
from .discrepancy import AbstractPairwise, check_together
from .discrete import explain_ratios, finite_space
from .kernels import AbstractKernel, Hamming, as_kernel
from .neighbours import log_ratios
from .pairs import products
from .pairs.forms import Features
from .pairs.shifts import shift_fields, shift_sum, stored_shifts
from .pairs.stored import fits
from .params import theta, unwrap, with_theta
from .tangents import tangents


class DiscreteKSD(AbstractPairwise):
    """The kernel Stein discrepancy of Yang et al. (2018) for a finite alphabet, squared: the mean of k⁰ over pairs.

    The Stein operator is s f − Δ*f with s_i(x) = 1 − p(x shifted in coordinate i)/p(x), shifts being cyclic, and
    k⁰ = k s(x)·s(y) − s(x)·Δ*_y k − Δ*_x k·s(y) + tr Δ*_x Δ*_y k. U- and V-statistic as for `DKSD`.

    Args:
        kernel: `ms.kernels.Hamming(lengthscale)`; any function k(x, y) of two states that returns a number, which is
            slower; the Hamming kernel with the number of coordinates as lengthscale if None.
        unbiased: the U-statistic if true, else the V-statistic.

    >>> x = np.array([[0, 1], [1, 1], [1, 0], [0, 0]])                   # every state once: the uniform distribution
    >>> model = ms.models.BoltzmannMachine([0.0, 0.0], 0.0)
    >>> bool(np.isclose(ms.DiscreteKSD(unbiased=False)(model, x), 0))
    True
    """

    kernel: AbstractKernel
    unbiased: bool = eqx.field(static=True)
    space: Any = eqx.field(repr=False)

    def __init__(self, kernel: Any = None, *, unbiased: bool = True):
        self.kernel = Hamming() if kernel is None else as_kernel(kernel)
        self.unbiased = bool(unbiased)
        self.space = None

    def ready(self, model, x):
        space = finite_space("DiscreteKSD", model)
        if self.unbiased and x.shape[0] < 2:
            raise errors.too_few(x.shape[0])
        check_together("DiscreteKSD", x)
        return eqx.tree_at(lambda d: d.space, self, space, is_leaf=lambda leaf: leaf is None)

    def loss(self, model, sample):
        phi = self.features(model, sample)
        return self.pair_sum(sample, phi, not self.unbiased) / self.pairs(sample)

    def information(self, model, sample):
        t = tangents(lambda v: self.features(unwrap(with_theta(model, v)), sample).t, jnp.asarray(theta(model)))
        phis = Features(t, jnp.zeros(t.shape[:2], t.dtype))
        off, on = products(phis, self.pair_fields(sample, phis))
        return (off if self.unbiased else off + on) / self.pairs(sample)

    @property
    def still(self):
        return True

    def features(self, model, sample):
        s = 1 - jnp.exp(log_ratios(model, self.space, sample)[..., 0])
        return Features(sample.zero_padding(s), sample.real.astype(s.dtype))

    def pair_sum(self, sample, phi, diagonal):
        return shift_sum(self.kernel, self.space, sample, phi, diagonal)

    def pair_fields(self, sample, phis, *, once=False):
        return shift_fields(self.kernel, self.space, sample, phis)

    def stored(self, model, sample):
        if not fits(1, sample):
            return None
        return (stored_shifts(self.kernel, self.space, sample, sample.real.astype(sample.x.dtype)),)

    def as_v(self):
        return DiscreteKSD(self.kernel, unbiased=False)

    def explain(self, model, x, loss):
        explain_ratios(model, x, loss)

    @property
    def irregular(self):
        return None

    @property
    def kind(self):
        return f"discrete KSD as a {'U' if self.unbiased else 'V'}-statistic"

    def facts(self):
        return (("Kernel", repr(self.kernel)),)

    def is_quadratic(self, model, d):
        return False
