"""Objectives on rows on disk: a loss that can be differentiated although it is read block by block."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array, Scalar, Theta, is_symbolic_zero
from ...data.disk import disk_is_traced


@jax.custom_jvp
def loss_on_disk(objective: Any, vector: Theta) -> Scalar:
    """The loss, whose derivative is computed in the same pass over the rows."""
    return objective.value(objective.at(vector))


@partial(loss_on_disk.defjvp, symbolic_zeros=True)
def _loss_on_disk_jvp(primals, tangents):
    (objective, vector), (still, along) = primals, tangents
    if not all(map(is_symbolic_zero, jax.tree.leaves(still, is_leaf=is_symbolic_zero))):
        raise disk_is_traced()
    value, gradient = objective.value_and_grad(vector)
    return value, jnp.zeros_like(value) if is_symbolic_zero(along) else gradient @ along


def root(M: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """Return L with LLᵀ = M, for M positive semi-definite."""
    w, Q = jnp.linalg.eigh(M)
    return Q * jnp.sqrt(jnp.maximum(w, 0))
