"""Exact computations by enumerating all states of a finite alphabet in few dimensions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, LogDensity
from ..data.spaces import AbstractSpace, Finite, needs_discrete, space_of
from ..params import unwrap


def log_normaliser(model: LogDensity, d: int) -> float:
    """Return log Σ_x exp(model(x)) over all states of d coordinates, feasible only for small d.

    >>> round(ms.models.log_normaliser(ms.models.Ising(ms.fixed([0.0, 0.0]), 0.5), 2), 6)    # log(4 cosh J)
    1.506409
    """
    with jax.enable_x64(True):
        return float(jax.nn.logsumexp(_log_weights(unwrap(model), alphabet(model).states(d))))


def probabilities(model: LogDensity, d: int) -> Float[np.ndarray, " s"]:
    """Return p(x) for each state, in the order of `space.states(d)`, feasible only for small d.

    >>> ms.models.probabilities(ms.models.BoltzmannMachine([0.0, 0.0], 0.0), 2).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    with jax.enable_x64(True):
        return np.asarray(jax.nn.softmax(_log_weights(unwrap(model), alphabet(model).states(d))))


def alphabet(model: LogDensity) -> Finite:
    """Return the finite alphabet on which a model is defined, or raise if there is none."""
    return as_alphabet(space_of(model), "Enumeration")


def as_alphabet(space: AbstractSpace, name: str) -> Finite:
    """Return the space if it is a finite alphabet, or raise; `name` is what needs one."""
    if not isinstance(space, Finite):
        raise needs_discrete(name, "a finite alphabet", space)
    return space


def exact_draws(model: LogDensity, d: int, key: Any, n: int) -> Float[Array, "n d"]:
    """Return n independent draws by enumeration, from a model without marks."""
    states = alphabet(model).states(d)
    return jnp.asarray(states)[jax.random.categorical(key, _log_weights(model, states), shape=(n,))]


def _log_weights(model: LogDensity, states: np.ndarray) -> Float[Array, " s"]:
    return jax.vmap(model)(jnp.asarray(states))
