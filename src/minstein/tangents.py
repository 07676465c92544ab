"""Derivatives in every parameter of functions with many values, within a bounded amount of memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ._types import Array

WORK = 1 << 29
"""Parameters times entries of the data, beyond which derivatives in every parameter are too much work for a search."""

_TANGENTS = 1 << 24
"""Entries of tangents that are in memory at once."""


def tangents(fn: Callable[[Array], Array], vector: Float[Array, " p"]) -> Float[Array, "p *r"]:
    """The derivative of fn in each parameter, several parameters at a time."""
    size = jax.eval_shape(fn, vector).size
    push = jax.linearize(fn, vector)[1]
    return by_batches(push, jnp.eye(vector.size, dtype=vector.dtype), size)


def by_batches(fn: Callable[[Array], Any], rows: Array, entries: int) -> Any:
    """fn of each row, as many rows at a time as fit into memory when each takes so many entries."""
    batch = max(1, _TANGENTS // max(1, entries))
    return jax.vmap(fn)(rows) if batch >= rows.shape[0] else jax.lax.map(fn, rows, batch_size=batch)


def gram_of_tangents(fn: Callable[[Array], Array], vector: Float[Array, " p"]) -> Float[Array, "p p"]:
    """The inner products of the derivatives of fn, which are never in memory all at once where they are many."""
    if vector.size * jax.eval_shape(fn, vector).size <= _TANGENTS:
        t = tangents(fn, vector).reshape(vector.size, -1)
        return t @ t.T
    push = jax.linearize(fn, vector)[1]
    pull = jax.vjp(fn, vector)[1]
    return jax.lax.map(lambda e: pull(push(e))[0], jnp.eye(vector.size, dtype=vector.dtype))
