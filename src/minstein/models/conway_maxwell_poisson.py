"""The Conway–Maxwell–Poisson distribution for counts."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from .._types import is_traced, namespace
from ..params import HELD, POSITIVE, is_marked, parameter
from ..spaces import COUNTS, Counts
from ._family import AbstractFamily, check_fields, dimension, moved, plain

_LARGEST = 4096
"""Counts from which draws are made."""


class ConwayMaxwellPoisson(AbstractFamily):
    """log p = Σ_i x_i log λ_i − ν_i log x_i!: counts less (ν > 1) or more (ν < 1) dispersed than Poisson's.

    Args:
        rate: λ > 0, a number or shape (d,); λ^(1/ν) is about the mean.
        dispersion: ν > 0, a number or shape (d,); 1 is Poisson's distribution.

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
        """Independent draws from the probabilities of the counts below 4096."""
        d = max(dimension(self.rate), dimension(self.dispersion))
        counts = jnp.arange(_LARGEST, dtype=float)
        rate, dispersion = (jnp.broadcast_to(part, (d,))[:, None] for part in (self.rate, self.dispersion))
        logits = counts * jnp.log(rate) - dispersion * gammaln(counts + 1)
        if not is_traced(logits) and float(jnp.max(logits[:, -1] - logits.max(axis=1))) > -40:
            raise ValueError(f"ConwayMaxwellPoisson: counts beyond {_LARGEST} are likely, too large to draw.")
        return jax.random.categorical(key, logits, shape=(n, d)).astype(float)

    def place(self, x):
        """From the mean, about λ^(1/ν) − (ν − 1)/2ν, and the variance, about λ^(1/ν)/ν."""
        xp = namespace(x)
        mean, variance = xp.maximum(x.mean(axis=0), 0.1), xp.maximum(x.var(axis=0), 0.1)
        nu = xp.clip(_like(self.dispersion, mean / variance), 0.1, 10.0)
        if is_marked(self.dispersion) and self.dispersion.constraint is HELD:
            nu = xp.asarray(self.dispersion.value)
        power = nu if np.ndim(plain(self.rate)) else xp.mean(nu)
        base = xp.maximum(_like(self.rate, mean) + (power - 1) / (2 * power), 0.1)
        return moved(self, rate=xp.asarray(base**power), dispersion=xp.asarray(nu))


def _like(template: Any, values: Any) -> Any:
    """Values for each coordinate, or their mean where the template is one number for all."""
    xp = namespace(values)
    return values if np.ndim(plain(template)) else xp.asarray(xp.mean(values))
