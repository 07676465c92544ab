"""Radial kernels, each given by its profile and two derivatives as functions of u = r²."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._types import Array, is_traced
from ..params import as_float
from ._kernel import AbstractRadial


def check_positive(
    owner: str, name: str, value: Any, *, advice: str = " Try kernels.median_heuristic(x)."
) -> None:
    """Raise unless a kernel parameter is a single positive finite number."""
    if is_traced(value):
        return
    if np.ndim(value) != 0 or not 0 < float(value) < math.inf:
        got = f"{float(value):g}" if np.ndim(value) == 0 else f"an array of shape {np.shape(value)}"
        raise ValueError(f"{owner}: {name} must be a positive number, got {got}.{advice}")


def _powers(v: Array, p: float) -> tuple[Array, Array]:
    """v^(−p) for p > 0, and 1/v.

    Half-integer powers up to 4 are products with at most one square root, many times cheaper than a
    power. The square root is of the reciprocal, because XLA's reciprocal square root in 64 bits
    costs more than both; and 1/v is its square, so that no array of reciprocals takes up cache.
    """
    inverse = 1 / v
    if not float(2 * p).is_integer() or p > 4:
        return jnp.exp(p * jnp.log(inverse)), inverse
    if p % 1 == 0:
        return math.prod([inverse] * (int(p) - 1), start=inverse), inverse
    root = jnp.sqrt(inverse)
    return math.prod([root] * int(2 * p - 1), start=root), root**2


class Gaussian(AbstractRadial):
    """k = exp(−r²/2ℓ²).

    Args:
        lengthscale: ℓ > 0; `kernels.median_heuristic(x)` is a sensible choice.

    >>> round(float(ms.kernels.Gaussian(1.0)(jnp.array([0.0]), jnp.array([1.0]))), 4)    # e^(−1/2)
    0.6065
    """

    lengthscale: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        check_positive("Gaussian", "lengthscale", self.lengthscale)

    def profile(self, u):
        a = 0.5 / self.lengthscale**2
        k = jnp.exp(-a * u)
        return k, -a * k, a**2 * k


class IMQ(AbstractRadial):
    """The inverse multiquadric k = (c² + r²)^β, β < 0.

    Args:
        c: c > 0, the scale on which the kernel decays; `kernels.median_heuristic(x)` is a sensible
            choice.
        beta: β < 0; the paper and most later work use −1/2. Half-integers are fastest.

    >>> round(float(ms.kernels.IMQ(1.0)(jnp.array([0.0]), jnp.array([1.0]))), 4)         # 1/√2
    0.7071
    """

    c: Any = eqx.field(converter=as_float, default=1.0)
    beta: float = eqx.field(converter=float, static=True, default=-0.5)

    def __check_init__(self):
        check_positive("IMQ", "c", self.c)
        if not -math.inf < self.beta < 0:
            raise ValueError(
                f"IMQ: beta must be negative, got {self.beta:g}, because (c² + r²)^β is positive definite only then. "
                "The usual choice is beta=-0.5."
            )

    def profile(self, u):
        k, inverse = _powers(self.c**2 + u, -self.beta)
        k1 = self.beta * k * inverse
        return k, k1, (self.beta - 1) * k1 * inverse


class Matern(AbstractRadial):
    """The Matérn kernel with smoothness 5/2 or 7/2.

    With a = √(2ν)/ℓ: `(1 + ar + a²r²/3)e^(−ar)` and `(1 + ar + 2a²r²/5 + a³r³/15)e^(−ar)`. Both are
    smooth enough for the two derivatives that a Stein kernel takes.

    Args:
        lengthscale: ℓ > 0.
        smoothness: ν, 5/2 or 7/2.

    >>> round(float(ms.kernels.Matern(1.0)(jnp.array([0.0]), jnp.array([0.0]))), 4)
    1.0
    """

    lengthscale: Any = eqx.field(converter=as_float)
    smoothness: float = eqx.field(converter=float, static=True, default=2.5)

    def __check_init__(self):
        check_positive("Matern", "lengthscale", self.lengthscale)
        if self.smoothness not in (2.5, 3.5):
            raise ValueError(
                f"Matern: smoothness must be 5/2 or 7/2, got {self.smoothness:g}, because the Stein kernel needs two "
                "continuous derivatives. For a smoother kernel use kernels.Gaussian."
            )

    def profile(self, u):
        a = jnp.sqrt(2 * self.smoothness) / self.lengthscale
        ar = a * jnp.sqrt(u)
        e = jnp.exp(-ar)
        if self.smoothness == 2.5:
            return (1 + ar + ar**2 / 3) * e, -(a**2) / 6 * (1 + ar) * e, a**4 / 12 * e
        k = (1 + ar + 0.4 * ar**2 + ar**3 / 15) * e
        return k, -(a**2) / 10 * (1 + ar + ar**2 / 3) * e, a**4 / 60 * (1 + ar) * e


class RationalQuadratic(AbstractRadial):
    """k = (1 + r²/2αℓ²)^(−α): a mixture of Gaussian kernels of many lengthscales.

    Args:
        lengthscale: ℓ > 0.
        alpha: α > 0; large α approaches the Gaussian kernel.

    >>> round(float(ms.kernels.RationalQuadratic(1.0)(jnp.array([0.0]), jnp.array([2.0]))), 4)     # 1/(1 + 4/2)
    0.3333
    """

    lengthscale: Any = eqx.field(converter=as_float)
    alpha: float = eqx.field(converter=float, static=True, default=1.0)

    def __check_init__(self):
        check_positive("RationalQuadratic", "lengthscale", self.lengthscale)
        check_positive("RationalQuadratic", "alpha", self.alpha, advice="")

    def profile(self, u):
        slope = 0.5 / self.lengthscale**2
        k, inverse = _powers(1 + slope * u / self.alpha, self.alpha)
        return k, -slope * k * inverse, slope**2 * (1 + 1 / self.alpha) * k * inverse**2
