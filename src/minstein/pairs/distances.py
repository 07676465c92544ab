"""Squared distances between the points of a block of pairs."""

from functools import reduce
from typing import Any

import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array

DIFFERENCES = 8
"""Up to this dimension distances are computed from differences, which is accurate for any spread of
the data and costs little; above it from inner products, which are faster.
"""


Rows = Float[Array, "_ _"] | tuple[Float[Array, " _"], ...]
"""Points, or a tuple of their coordinates."""


def by_coordinates(points: dict[str, Float[Array, "_ _"]]) -> dict[str, Rows]:
    """Split points with few coordinates into one vector for each, because differences of contiguous
    vectors are fastest.
    """
    return {
        name: tuple(rows.T) if rows.shape[1] <= DIFFERENCES else rows
        for name, rows in points.items()
    }


def square_differences(a: Rows, b: Rows) -> list[Float[Array, "a b"]]:
    """(aᵢ − bⱼ)² for each coordinate."""
    a, b = (rows if isinstance(rows, tuple) else tuple(rows.T) for rows in (a, b))
    return [(p[:, None] - q[None, :]) ** 2 for p, q in zip(a, b, strict=True)]


def square_distances(a: Any, b: Any) -> Float[Array, "a b"]:
    """‖aᵢ − bⱼ‖²."""
    if isinstance(a, tuple) or a.shape[1] <= DIFFERENCES:
        return reduce(jnp.add, square_differences(a, b))
    squares = jnp.sum(a**2, 1)[:, None] + jnp.sum(b**2, 1) - 2 * a @ b.T
    return jnp.maximum(squares, 0)
