"""The generalised gamma (exponential power) distribution."""

from typing import Any

import jax
import jax.numpy as jnp

from ..params import HELD, parameter
from ..stein.special import norm_power
from ._family import (
    AbstractFamily,
    centre,
    check_fields,
    dimension,
    median_between_data,
    with_values,
)


class GeneralisedGamma(AbstractFamily):
    """The distribution p ∝ exp(−‖x − θ₁‖^θ₂).

    If θ₂ = 2, it is normal with variance 1/2. If θ₂ < 1, the score is infinite at x = θ₁, and an
    observation exactly there is an error.

    Args:
        loc: θ₁, a number in one dimension, else shape (d,).
        power: θ₂ > 0. Held at its value; mark it with `ms.positive` to make it a parameter.

    >>> float(ms.models.GeneralisedGamma(1.0, 3.0)(jnp.array([3.0])))                    # −|3 − 1|³
    -8.0
    """

    loc: Any = parameter()
    power: Any = parameter(HELD)

    def __check_init__(self):
        check_fields(self, positive=("power",))

    def log_density(self, x):
        z = centre(x, self.loc)
        return -norm_power(z, jnp.asarray(self.power, z.dtype))

    def draw(self, key, n):
        direction_key, radius_key = jax.random.split(key)
        d = dimension(self.loc)
        direction = jax.random.normal(direction_key, (n, d))
        direction = direction / jnp.linalg.norm(direction, axis=1, keepdims=True)
        radius = jax.random.gamma(radius_key, d / self.power, (n, 1)) ** (1 / self.power)
        return jnp.reshape(self.loc, (-1,)) + direction * radius

    def place(self, x):
        return with_values(self, loc=median_between_data(x))
