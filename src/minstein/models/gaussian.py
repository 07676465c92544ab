"""The normal distribution in any dimension."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..params import SCALE, as_float, check_value, parameter
from ..params.constraints import PositiveDefinite
from ._family import (
    AbstractFamily,
    check_fields,
    dimension,
    median_and_mad,
    scale_like,
    spread,
    standardise,
    with_values,
)


class Gaussian(AbstractFamily):
    """The normal distribution with mean μ and covariance LLᵀ: log p = −‖L⁻¹(x − μ)‖²/2.

    Args:
        loc: μ, a number in one dimension, else shape (d,).
        scale: L: a number σ (L = σI), a vector of standard deviations (L = diag σ), or a
            lower-triangular matrix with positive diagonal, the Cholesky factor of the covariance.

    >>> ms.params.names(ms.models.Gaussian([0.0, 1.0], [[1.0, 0.0], [0.5, 2.0]]))
    ('loc[0]', 'loc[1]', 'scale[0,0]', 'scale[1,0]', 'scale[1,1]')
    """

    loc: Any = parameter()
    scale: Any = parameter(SCALE)

    def __check_init__(self):
        check_fields(self)

    @classmethod
    def from_covariance(cls, mean: Any, covariance: Any) -> "Gaussian":
        """Return the normal distribution with this mean and covariance matrix."""
        check_value(
            "Gaussian.from_covariance: covariance", as_float(covariance), PositiveDefinite()
        )
        return cls(mean, np.linalg.cholesky(covariance))

    def log_density(self, x):
        z = standardise(x, self.loc, self.scale)
        return -0.5 * jnp.vdot(z, z)

    def draw(self, key, n):
        z = jax.random.normal(key, (n, dimension(self.loc, self.scale)))
        return spread(z, self.loc, self.scale)

    def place(self, x):
        return with_values(self, loc=median_and_mad(x)[0], scale=scale_like(self.scale, x))
