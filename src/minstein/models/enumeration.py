"""Models on few coordinates of a finite alphabet, by going through every state."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity
from ..params import unwrap
from ..spaces import Finite, space_of


def log_normaliser(model: LogDensity, d: int) -> float:
    """log Σ_x exp(model(x)) over all states of d coordinates; for a few coordinates only.

    >>> round(ms.models.log_normaliser(ms.models.Ising(ms.fixed([0.0, 0.0]), 0.5), 2), 6)    # log(4 cosh J)
    1.506409
    """
    with jax.enable_x64(True):
        return float(jax.nn.logsumexp(_log_weights(unwrap(model), alphabet(model).states(d))))


def probabilities(model: LogDensity, d: int) -> Float[np.ndarray, " s"]:
    """p(x) of each state, in the order of `space.states(d)`; for a few coordinates only.

    >>> ms.models.probabilities(ms.models.BoltzmannMachine([0.0, 0.0], 0.0), 2).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    with jax.enable_x64(True):
        return np.asarray(jax.nn.softmax(_log_weights(unwrap(model), alphabet(model).states(d))))


def alphabet(model: LogDensity) -> Finite:
    """The finite alphabet that a model lives on."""
    space = space_of(model)
    if not isinstance(space, Finite):
        raise errors.needs_discrete("Enumeration", "a finite alphabet", space)
    return space


def exact_draws(model: LogDensity, d: int, key: Any, n: int) -> Float[Array, "n d"]:
    """n independent draws by enumeration; the model has no marks."""
    states = alphabet(model).states(d)
    return jnp.asarray(states)[jax.random.categorical(key, _log_weights(model, states), shape=(n,))]


def _log_weights(model: LogDensity, states: np.ndarray) -> Float[Array, " s"]:
    return jax.vmap(model)(jnp.asarray(states))
