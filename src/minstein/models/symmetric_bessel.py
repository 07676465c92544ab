"""The symmetric Bessel distribution in any dimension."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import is_traced
from ..params import HELD, SCALE, parameter
from ..stein.special import log_bessel_profile
from ._family import (
    AbstractFamily,
    check_fields,
    dimension,
    median_between_data,
    plain,
    scale_like,
    spread,
    standardise,
    with_values,
)


class SymmetricBessel(AbstractFamily):
    """The symmetric Bessel distribution: p ∝ r^(s−d/2) K_(s−d/2)(r), r = ‖L⁻¹(x − μ)‖.

    If s = (d+1)/2, it is p ∝ e^(−r), the Laplace distribution in one dimension; a larger s makes it
    smoother at its centre. If s is smaller, the score is infinite at x = μ, and an observation
    exactly there is an error.

    Args:
        loc: μ, a number in one dimension, else shape (d,).
        scale: L: a number σ, a vector, or a lower-triangular matrix with positive diagonal. The
            covariance is 2s·LLᵀ.
        smoothness: s ≥ d/2. Held at its value; mark it with `ms.positive` to make it a parameter.

    >>> ms.params.names(ms.models.SymmetricBessel(0.0, 1.0, 2.0))                        # the smoothness is held
    ('loc', 'scale')
    """

    loc: Any = parameter()
    scale: Any = parameter(SCALE)
    smoothness: Any = parameter(HELD)

    def __check_init__(self):
        check_fields(self, positive=("smoothness",))
        s, d = plain(self.smoothness), dimension(self.loc, self.scale)
        if not is_traced(s) and float(s) < d / 2:
            raise ValueError(
                f"SymmetricBessel: smoothness must be at least d/2 = {d / 2:g}, got {float(s):g}, "
                "because r^(s−d/2) K_(s−d/2)(r) does not define a density with a score below that."
            )

    def log_density(self, x):
        z = standardise(x, self.loc, self.scale)
        return log_bessel_profile(z, jnp.asarray(self.smoothness - x.shape[0] / 2, z.dtype))

    def draw(self, key, n):
        normal_key, gamma_key = jax.random.split(key)
        z = jax.random.normal(normal_key, (n, dimension(self.loc, self.scale)))
        return spread(
            z * jnp.sqrt(2 * jax.random.gamma(gamma_key, self.smoothness, (n, 1))),
            self.loc,
            self.scale,
        )

    def place(self, x):
        scale = scale_like(self.scale, x, 1 / np.sqrt(2 * plain(self.smoothness)))
        return with_values(self, loc=median_between_data(x), scale=scale)
