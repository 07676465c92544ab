"""The Conway–Maxwell–Poisson distribution for counts."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from .._types import is_traced, namespace
from ..data.spaces import COUNTS, Counts
from ..params import HELD, POSITIVE, is_marked, parameter
from ._family import AbstractFamily, check_fields, dimension, plain, with_values

_LARGEST = 4096
"""Draws are made from the probabilities of the counts below this."""

_NEGLIGIBLE = -40.0
"""The log-probability of the largest count, relative to the mode, above which draws are refused:
e^(−40) = 4e-18 is below the rounding error of float64.
"""

_LEAST_MOMENT, _DISPERSIONS = 0.1, (0.1, 10.0)
"""Bounds of the starting point, which keep λ and ν positive and finite for any data, such as counts
that are all equal: the least mean and variance, and the range of ν.
"""


class ConwayMaxwellPoisson(AbstractFamily):
    """log p = Σ_i x_i log λ_i − ν_i log x_i!, for under- (ν > 1) or overdispersed (ν < 1) counts.

    Args:
        rate: λ > 0, a number or shape (d,); the mean is about λ^(1/ν).
        dispersion: ν > 0, a number or shape (d,); ν = 1 is the Poisson distribution.

    >>> ms.params.names(ms.models.ConwayMaxwellPoisson(4.0, 1.5))
    ('rate', 'dispersion')
    """

    rate: Any = parameter(POSITIVE)
    dispersion: Any = parameter(POSITIVE)
    space: Counts = eqx.field(default=COUNTS, repr=False)

    def __check_init__(self):
        check_fields(self)

    def log_density(self, x):
        return jnp.sum(x * jnp.log(self.rate) - self.dispersion * gammaln(x + 1))

    def draw(self, key, n):
        """Return independent draws from the probabilities of the counts below 4096."""
        d = max(dimension(self.rate), dimension(self.dispersion))
        counts = jnp.arange(_LARGEST, dtype=float)
        rate, dispersion = (
            jnp.broadcast_to(part, (d,))[:, None] for part in (self.rate, self.dispersion)
        )
        logits = counts * jnp.log(rate) - dispersion * gammaln(counts + 1)
        tail = jnp.max(logits[:, -1] - logits.max(axis=1))
        if not is_traced(tail) and float(tail) > _NEGLIGIBLE:
            raise ValueError(
                f"ConwayMaxwellPoisson: cannot draw, because counts of {_LARGEST} or more are likely."
            )
        return jax.random.categorical(key, logits, shape=(n, d)).astype(float)

    def place(self, x):
        """Match the mean, about λ^(1/ν) − (ν − 1)/2ν, and the variance, about λ^(1/ν)/ν."""
        xp = namespace(x.mean(axis=0))
        mean, variance = (xp.maximum(m, _LEAST_MOMENT) for m in (x.mean(axis=0), x.var(axis=0)))
        nu = xp.clip(_match_form(self.dispersion, mean / variance), *_DISPERSIONS)
        if is_marked(self.dispersion) and self.dispersion.constraint is HELD:
            nu = xp.asarray(self.dispersion.value)
        power = nu if np.ndim(plain(self.rate)) else xp.mean(nu)
        base = xp.maximum(_match_form(self.rate, mean) + (power - 1) / (2 * power), _LEAST_MOMENT)
        return with_values(self, rate=xp.asarray(base**power), dispersion=xp.asarray(nu))


def _match_form(template: Any, values: Any) -> Any:
    """Return the values of the coordinates, or their mean if the template is a single number."""
    xp = namespace(values)
    return values if np.ndim(plain(template)) else xp.asarray(xp.mean(values))
