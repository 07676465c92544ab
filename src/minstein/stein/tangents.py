"""Derivatives of vector-valued functions in every parameter, within bounded memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array

WORK = 1 << 29
"""A search computes derivatives in every parameter only if the number of parameters times the
entries of the data is at most this: 5e8 multiplications take about a second, and a search needs
many such passes.
"""

MANY = 100
"""With more parameters than this, a p×p matrix is made only if a covariance is asked for."""

_TANGENTS = 1 << 24
"""The largest number of entries of tangents in memory at once: 128 MB in float64."""


def tangents(fn: Callable[[Array], Array], vector: Float[Array, " p"]) -> Float[Array, "p *r"]:
    """Return the derivative of fn in each parameter, computed in batches of parameters."""
    size = jax.eval_shape(fn, vector).size
    push = jax.linearize(fn, vector)[1]
    return by_batches(push, jnp.eye(vector.size, dtype=vector.dtype), size)


def by_batches(fn: Callable[[Array], Any], rows: Array, entries: int) -> Any:
    """Return fn of each row, in batches that fit into memory if each row takes `entries` numbers."""
    batch = max(1, _TANGENTS // max(1, entries))
    return jax.vmap(fn)(rows) if batch >= rows.shape[0] else jax.lax.map(fn, rows, batch_size=batch)


def gram_of_tangents(
    fn: Callable[[Array], Array], vector: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return the inner products of the derivatives of fn, without all derivatives in memory at once."""
    if vector.size * jax.eval_shape(fn, vector).size <= _TANGENTS:
        t = tangents(fn, vector).reshape(vector.size, -1)
        return t @ t.T
    push = jax.linearize(fn, vector)[1]
    pull = jax.vjp(fn, vector)[1]
    return jax.lax.map(lambda e: pull(push(e))[0], jnp.eye(vector.size, dtype=vector.dtype))
