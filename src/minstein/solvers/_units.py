"""Natural units for a search: how far each coordinate of η must move to change the loss."""

import jax.numpy as jnp

from .._types import Theta
from ..discrepancies.base import AbstractObjective, Jet
from ..params import reach


def spread(objective: AbstractObjective, eta: Theta, jet: Jet) -> Theta:
    """The displacement over which the loss changes by as much as one observation contributes to it.

    If the metric is zero or not finite, because the score is not smooth, it is the spread of the
    data, or one for a logarithm.
    """
    sample = objective.sample
    D = jnp.diagonal(jet.metric)
    unit = jnp.sqrt(sample.size * jet.noise / jnp.where(D > 0, D, 1))
    plain = jnp.where(jnp.isfinite(jnp.asarray(reach(objective.model))), 1, sample.deviation)
    return jnp.where((D > 0) & jnp.isfinite(unit) & (unit > 0), unit, plain).astype(eta.dtype)
