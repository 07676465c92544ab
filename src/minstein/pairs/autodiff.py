"""Pair sums of a kernel that has no reduction, by autodiff over pairs: slow, for kernels a user wrote as a function."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float

from .._fields import as_matrix
from .._types import Array, MatrixKernel, Scalar
from ..sample import Sample

_ROWS = 16
"""Rows of pairs that are in memory at once."""


def _weights(sample: Sample, i: Array, with_diagonal: bool | Bool[Array, ""]) -> Array:
    """One for each real pair (i, j), zero for padding and, unless asked for, for j = i."""
    apart = jnp.arange(sample.x.shape[0]) != i
    return jnp.where(sample.real & sample.real[i] & (apart | with_diagonal), 1.0, 0.0).astype(sample.x.dtype)


def pair_sum(k0: Callable, sample: Sample, *, with_diagonal: bool | Bool[Array, ""]) -> Scalar:
    """Σ_{i≠j} k0(xᵢ, xⱼ)."""
    return jnp.sum(pair_rows(k0, sample, with_diagonal=with_diagonal))


def pair_rows(k0: Callable, sample: Sample, *, with_diagonal: bool | Bool[Array, ""]) -> Float[Array, " N"]:
    """Σ_{j≠i} k0(xᵢ, xⱼ) for each i, remembering no row for the gradient."""

    @jax.checkpoint
    def row(i: Array) -> Scalar:
        weights = _weights(sample, i, with_diagonal)
        apart = jnp.where(weights[:, None] > 0, sample.x, sample.x[i] + 1)  # a kernel may have no derivative at x = y
        values = jax.vmap(lambda y: k0(sample.x[i], y))(apart)
        return jnp.vdot(weights, values)

    return lax.map(row, jnp.arange(sample.x.shape[0]), batch_size=_ROWS)


def pair_products(kernel: MatrixKernel, sample: Sample, t: Array, *, with_diagonal: bool | Bool[Array, ""]) -> Array:
    """The matrix Σ_{i≠j} t_aᵢᵀ K(xᵢ, xⱼ) t_bⱼ for a batch t of shape (p, n, d)."""
    d = sample.x.shape[1]

    def row(i: Array) -> Array:
        K = jax.vmap(lambda y: as_matrix(kernel(sample.x[i], y), d))(sample.x)
        w = _weights(sample, i, with_diagonal)
        return t[:, i] @ jnp.einsum("j,jrs,bjs->rb", w, K, t)

    return jnp.sum(lax.map(row, jnp.arange(sample.x.shape[0]), batch_size=_ROWS), axis=0)
