"""The second order of a pair sum, with few derivatives of φ in memory at a time.

⟨∂_a φ, G ∂_b φ⟩ for all a is the transposed derivative of φ applied to G ∂_b φ, so the ∂φ
need not be in memory together. The pairs are visited once for φ, and once for each group of
parameters.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..._types import Array, Scalar, Theta
from ...pairs.forms import Features
from ...pairs.operator import Fields, Products, inner


class ByGroups(NamedTuple):
    """⟨φ_a, G φ_b⟩ for φ and its derivatives, G φ, and Σⱼ ∂k⁰(xᵢ, xⱼ) for each parameter and
    observation.
    """

    products: Products
    fields: Fields
    rows: Float[Array, "p N"]


def by_groups(
    features: Callable[[Theta], Features],
    apply: Callable[[Features], Fields],
    vector: Theta,
    diagonal: Scalar,
    size: int,
) -> ByGroups:
    """Compute everything, `size` parameters at a time; `apply` is G on a batch of features."""
    phi, push = jax.linearize(features, vector)
    pull = lambda psi: jax.vjp(features, vector)[1](psi)[0]
    whole = jax.tree.map(lambda part: part[0], apply(jax.tree.map(lambda part: part[None], phi)))
    W = whole.together(diagonal)

    def group(directions: Float[Array, "g p"]) -> tuple[Array, Array, Array]:
        slopes = jax.vmap(push)(directions)
        fields = apply(slopes)
        rows = jax.vmap(lambda slope, G: row_sums(slope, W) + row_sums(phi, G))(
            slopes, fields.together(diagonal)
        )
        return jax.vmap(pull)(fields.off), jax.vmap(pull)(fields.on), rows

    p = vector.size
    count = -(-p // size)
    directions = jnp.eye(count * size, p, dtype=vector.dtype).reshape(count, size, p)
    off, on, rows = (part.reshape(count * size, -1)[:p] for part in jax.lax.map(group, directions))
    matrix = lambda psi, columns: jnp.block(
        [[inner(phi, psi), pull(psi)[None]], [pull(psi)[:, None], columns]]
    )
    return ByGroups(Products(matrix(whole.off, off), matrix(whole.on, on)), whole, rows)


def row_sums(a: Features, b: Features) -> Float[Array, " N"]:
    """⟨aᵢ, bᵢ⟩ at each point."""
    return sum(
        (jnp.sum((s * t).reshape(len(s), -1), axis=1) for s, t in zip(a, b, strict=True)),
        jnp.zeros(len(a.t)),
    )
