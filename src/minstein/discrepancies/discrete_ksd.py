"""The kernel Stein discrepancy of discrete models."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..kernels import AbstractKernel, Hamming, as_kernel
from ..pairs.backends import fits
from ..pairs.forms import Features
from ..pairs.shifts import Shifts, stein_pairs, stored_shifts
from .base import AbstractPairwise, check_together, too_few
from .discrete import MPF, explain_ratios, finite_space
from .neighbours import log_ratios


class DiscreteKSD(AbstractPairwise):
    """The squared kernel Stein discrepancy of Yang et al. (2018), the mean of k⁰ over pairs.

    The model must be defined on a finite alphabet. The Stein operator is s f − Δ*f with
    s_i(x) = 1 − p(x shifted cyclically in coordinate i)/p(x), and k⁰ = k s(x)·s(y) − s(x)·Δ*_y k −
    Δ*_x k·s(y) + tr Δ*_x Δ*_y k. The U- and V-statistic are those of `DKSD`.

    Args:
        kernel: `ms.kernels.Hamming(lengthscale)`, or any function k(x, y) of two states that
            returns a number, which is slower. If None, the Hamming kernel with the number of
            coordinates as lengthscale.
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
            raise too_few(x.shape[0])
        check_together("DiscreteKSD", x)
        return eqx.tree_at(lambda d: d.space, self, space, is_leaf=lambda leaf: leaf is None)

    def stein_matrix(self, model, sample):
        return stein_pairs(self.kernel, self.space, sample.x, self.features(model, sample))

    @property
    def still(self):
        return True

    def features(self, model, sample):
        s = 1 - jnp.exp(log_ratios(model, self.space, sample)[..., 0])
        return Features(sample.zero_padding(s), sample.real.astype(s.dtype))

    def operator(self, sample):
        return Shifts(self.kernel, self.space, sample.x)

    def stored(self, model, sample):
        if not fits(1, sample):
            return None
        return (stored_shifts(self.kernel, self.space, sample, sample.real.astype(sample.x.dtype)),)

    def as_v(self):
        return DiscreteKSD(self.kernel, unbiased=False)

    def explain(self, model, x, loss):
        explain_ratios(model, x, loss)

    @property
    def companion(self):
        return MPF()

    @property
    def kind(self):
        return f"discrete KSD as a {'U' if self.unbiased else 'V'}-statistic"

    def facts(self):
        return (("Kernel", repr(self.kernel)),)
