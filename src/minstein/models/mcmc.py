"""Approximate draws from a model by NumPyro's No-U-Turn sampler."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._types import Array, LogDensity
from ..params import unwrap

WARMUP = 1000
"""Steps that adapt the sampler and are discarded, as is usual for NUTS (the default of Stan)."""


def nuts(
    model: LogDensity, key: PRNGKeyArray, n: int, *, init: Any, thin: int = 10
) -> Float[Array, "n d"]:
    """Return n approximate draws: every `thin`-th state of one chain after 1000 warm-up steps.

    Args:
        model: log p up to a constant, smooth on all of ℝᵈ.
        key: the source of randomness.
        n: the number of draws.
        init: the point of shape (d,) at which the chain starts.
        thin: the number of steps per draw; more steps make the draws less dependent.
    """
    try:
        from numpyro.infer import MCMC, NUTS
    except ImportError as error:
        raise ImportError(
            "Sampling by NUTS needs NumPyro: pip install 'minstein[mcmc]'."
        ) from error
    log_density = unwrap(model)
    with jax.enable_x64(True):
        sampler = MCMC(
            NUTS(potential_fn=lambda x: -log_density(x)),
            num_warmup=WARMUP,
            num_samples=n * thin,
            thinning=thin,
            progress_bar=False,
        )
        sampler.run(key, init_params=np.atleast_1d(np.asarray(init, np.float64)))
        return np.asarray(sampler.get_samples())
