"""The Hamming kernel, for discrete data."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..params import POSITIVE, as_float, check_value
from ._kernel import AbstractKernel


class Hamming(AbstractKernel):
    """k(x, y) = exp(−h/ℓ), where h is the number of coordinates in which x and y differ.

    Args:
        lengthscale: ℓ > 0; the number of coordinates if None, as in Yang et al. (2018).

    >>> k = ms.kernels.Hamming(2.0)
    >>> round(float(k(jnp.array([0.0, 1.0]), jnp.array([1.0, 1.0]))), 4)                 # e^(−1/2)
    0.6065
    """

    lengthscale: Any = eqx.field(
        default=None, converter=lambda value: None if value is None else as_float(value)
    )

    def __check_init__(self):
        if self.lengthscale is not None:
            check_value("Hamming: lengthscale", self.lengthscale, POSITIVE)

    def __call__(self, x, y):
        return jnp.exp(-jnp.sum(x != y) / self.scale(x.shape[0]))

    def scale(self, d: int) -> Any:
        """The lengthscale ℓ in d dimensions."""
        return float(d) if self.lengthscale is None else self.lengthscale
