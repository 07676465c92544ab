"""How far each coordinate of η moves before the loss notices: natural units for a search."""

import jax.numpy as jnp

from .._types import Theta
from ..params import reach
from .objective import AbstractObjective, Jet


def spread(objective: AbstractObjective, eta: Theta, jet: Jet) -> Theta:
    """The displacement over which the loss changes by as much as one observation contributes to it.

    Where the metric does not tell, because the score does not change smoothly, it is the spread of
    the data, or one for a logarithm.
    """
    sample = objective.sample
    D = jnp.diagonal(jet.metric)
    unit = jnp.sqrt(sample.size * jet.noise / jnp.where(D > 0, D, 1))
    plain = jnp.where(jnp.isfinite(jnp.asarray(reach(objective.model))), 1, sample.deviation)
    return jnp.where((D > 0) & jnp.isfinite(unit) & (unit > 0), unit, plain).astype(eta.dtype)
