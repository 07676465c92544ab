"""Student's t-distribution in any dimension."""

from typing import Any

import jax
import jax.numpy as jnp
from scipy.special import stdtrit

from ..params import HELD, SCALE, parameter
from ._family import (
    AbstractFamily,
    check_fields,
    dimension,
    median_and_mad,
    plain,
    scale_like,
    spread,
    standardise,
    with_values,
)

_NORMAL_QUARTILE = 0.6744897501960817
"""Φ⁻¹(3/4), by which a scaled median absolute deviation is scaled."""


class StudentT(AbstractFamily):
    """The t-distribution with ν degrees of freedom: log p = −(ν + d)/2 · log(1 + ‖L⁻¹(x − μ)‖²/ν).

    Args:
        loc: μ, a number in one dimension, else shape (d,).
        scale: L: a number σ, a vector, or a lower-triangular matrix with positive diagonal.
        df: ν > 0. Held at its value; mark it with `ms.positive` to make it a parameter.

    >>> ms.params.names(ms.models.StudentT(25.0, 10.0, 5.0))
    ('loc', 'scale')
    """

    loc: Any = parameter()
    scale: Any = parameter(SCALE)
    df: Any = parameter(HELD)

    def __check_init__(self):
        check_fields(self, positive=("df",))

    def log_density(self, x):
        z = standardise(x, self.loc, self.scale)
        return -0.5 * (self.df + x.shape[0]) * jnp.log1p(jnp.vdot(z, z) / self.df)

    def draw(self, key, n):
        normal_key, gamma_key = jax.random.split(key)
        z = jax.random.normal(normal_key, (n, dimension(self.loc, self.scale)))
        chi_square = 2 * jax.random.gamma(gamma_key, self.df / 2, (n, 1))
        return spread(z / jnp.sqrt(chi_square / self.df), self.loc, self.scale)

    def place(self, x):
        quartile_ratio = _NORMAL_QUARTILE / stdtrit(plain(self.df), 0.75)
        return with_values(
            self, loc=median_and_mad(x)[0], scale=scale_like(self.scale, x, quartile_ratio)
        )
