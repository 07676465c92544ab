"""Derivatives of functions with many values in every parameter, within bounded memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array

WORK = 1 << 29
"""Parameters times entries of the data beyond which a search does not compute derivatives in every
parameter: 5e8 multiplications take about a second, and a search needs many of them.
"""

MANY = 100
"""Parameters above which no p×p matrix is made unless a covariance is asked for."""

_TANGENTS = 1 << 24
"""The most entries of tangents in memory at once: 128 MB in float64."""


def tangents(fn: Callable[[Array], Array], vector: Float[Array, " p"]) -> Float[Array, "p *r"]:
    """The derivative of fn in each parameter, in batches of parameters."""
    size = jax.eval_shape(fn, vector).size
    push = jax.linearize(fn, vector)[1]
    return by_batches(push, jnp.eye(vector.size, dtype=vector.dtype), size)


def by_batches(fn: Callable[[Array], Any], rows: Array, entries: int) -> Any:
    """fn of each row, in batches that fit into memory if each row takes `entries` numbers."""
    batch = max(1, _TANGENTS // max(1, entries))
    return jax.vmap(fn)(rows) if batch >= rows.shape[0] else jax.lax.map(fn, rows, batch_size=batch)


def gram_of_tangents(
    fn: Callable[[Array], Array], vector: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """The inner products of the derivatives of fn, which need not be in memory all at once."""
    if vector.size * jax.eval_shape(fn, vector).size <= _TANGENTS:
        t = tangents(fn, vector).reshape(vector.size, -1)
        return t @ t.T
    push = jax.linearize(fn, vector)[1]
    pull = jax.vjp(fn, vector)[1]
    return jax.lax.map(lambda e: pull(push(e))[0], jnp.eye(vector.size, dtype=vector.dtype))
