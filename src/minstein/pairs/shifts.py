"""The discrete Stein kernel as a symmetric bilinear form in per-point features φ = (s, 1).

With Δ* the difference from the state in which coordinate r is shifted back, x^r−, and a_ij = Δ*_y
k(xᵢ, xⱼ),

    k⁰ = k sᵢ·sⱼ − sᵢ·a_ij − a_ji·sⱼ + c_ij,   c_ij = Σ_r Δ*_{x,r} Δ*_{y,r} k = ⟨φᵢ, G_ij φⱼ⟩.

G does not depend on θ. For the Hamming kernel it is applied by matrix products.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float

from .._types import Array, MatrixKernel, Scalar
from ..data.sample import TILE, Sample
from ..data.spaces import Finite
from ..kernels import Hamming
from .forms import Features
from .operator import AbstractOperator
from .stored import Stored, store_operator

_ROWS = 16
"""Targets whose pairs are in memory at once for a kernel that a user wrote: few, because each pair
takes several vectors of length d.
"""


class Shifts(AbstractOperator):
    """G of the discrete Stein kernel on the states of a sample, for batches in which only the first
    member has m ≠ 0.
    """

    kernel: MatrixKernel
    space: Finite
    x: Float[Array, "N d"]

    def apply(self, phis, *, still=False, once=False):
        if isinstance(self.kernel, Hamming):
            return _by_products(self.kernel, self.space, self.x, phis)
        return _by_pairs(self.kernel, self.space, self.x, phis, alone=False)

    def own(self, phis):
        return _by_pairs(self.kernel, self.space, self.x, phis, alone=True)


def stored_shifts(
    kernel: MatrixKernel, space: Finite, sample: Sample, m: Float[Array, " N"]
) -> Stored:
    """Return the θ-free parts of the pair sum, for repeated evaluation."""
    x, phi = sample.x, Features(jnp.zeros_like(sample.x), m)
    k_on = jnp.asarray(kernel(x[0], x[0]), x.dtype)
    K = _gram(kernel, space, x)
    return store_operator(None, sample, Shifts(kernel, space, x), phi, K, k_on)


def _gram(kernel: MatrixKernel, space: Finite, x: Float[Array, "N d"]) -> Float[Array, "N N"]:
    """The kernel at all pairs."""
    if isinstance(kernel, Hamming):
        hot = _one_hot(space, x, 0)
        return jnp.exp((hot @ hot.T - x.shape[1]) / kernel.scale(x.shape[1]))
    return lax.map(lambda y: jax.vmap(lambda z: kernel(y, z))(x), x, batch_size=_ROWS)


def _one_hot(space: Finite, x: Float[Array, "N d"], shift: int) -> Float[Array, "N da"]:
    """The states, shifted by this number of letters in every coordinate, as indicators."""
    letters = len(space.values)
    hot = jax.nn.one_hot((space.codes(x) + shift) % letters, letters, dtype=x.dtype)
    return hot.reshape(x.shape[0], -1)


def _by_products(
    kernel: Hamming, space: Finite, x: Float[Array, "N d"], phis: Features
) -> Features:
    """G over pairs of different points by matrix products, a tile of targets at a time."""
    (rows, d), letters = x.shape, len(space.values)
    scale = kernel.scale(d)
    u, v = jnp.expm1(-1 / jnp.asarray(scale, x.dtype)), jnp.expm1(1 / jnp.asarray(scale, x.dtype))
    hot, back = _one_hot(space, x, 0), _one_hot(space, x, -1)
    m = phis.m[0]
    widen = lambda t: jnp.repeat(t, letters, axis=-1)
    narrow = lambda wide: jnp.sum(wide.reshape(-1, d, letters), axis=2)
    tile = min(rows, TILE)

    def targets(index: Array) -> Features:
        e, e_back = hot[index], back[index]
        same = e @ hot.T
        k = jnp.where(index[:, None] == jnp.arange(rows), 0, jnp.exp((same - d) / scale))
        a = narrow(e * (k @ (m[:, None] * (u * hot + v * back))))
        c = -k * (2 * u * same + v * (e @ back.T + e_back @ hot.T))

        def source(t: Array) -> Features:
            sums = k @ jnp.concatenate([t, widen(t) * hot], axis=1)
            return Features(sums[:, :d], jnp.sum((u * e + v * e_back) * sums[:, d:], axis=1))

        F, J = lax.map(source, phis.t)
        return Features(F.at[0].add(a), J.at[0].add(c @ m))

    parts = lax.map(targets, jnp.arange(rows).reshape(-1, tile))
    return jax.tree.map(
        lambda part: jnp.moveaxis(part, 0, 1).reshape(part.shape[1], rows, *part.shape[3:]), parts
    )


class _Pair(NamedTuple):
    """The parts of G for one pair."""

    k: Scalar
    a: Float[Array, " d"]
    b: Float[Array, " d"]
    c: Scalar


def _pair(
    kernel: MatrixKernel, space: Finite, x: Float[Array, " d"], y: Float[Array, " d"]
) -> _Pair:
    """k, Δ*_y k, Δ*_x k and tr Δ*_x Δ*_y k, from the definition."""
    shifted = lambda z, r: z.at[r].set(space.shifted(z[r], -1))
    r = jnp.arange(x.shape[0])
    k = jnp.asarray(kernel(x, y), x.dtype)
    of_y = jax.vmap(lambda r: kernel(x, shifted(y, r)))(r)
    of_x = jax.vmap(lambda r: kernel(shifted(x, r), y))(r)
    both = jax.vmap(lambda r: kernel(shifted(x, r), shifted(y, r)))(r)
    return _Pair(k, k - of_y, k - of_x, jnp.sum(k - of_x - of_y + both))


def _by_pairs(
    kernel: MatrixKernel,
    space: Finite,
    x: Float[Array, "N d"],
    phis: Features,
    *,
    alone: bool,
) -> Features:
    """G from its definition, over each point with itself if `alone`, else with all others."""
    rows = jnp.arange(x.shape[0])

    def one(i: Array) -> Features:
        others = i[None] if alone else rows
        pair = jax.vmap(lambda j: _pair(kernel, space, x[i], x[j]))(others)
        w = jnp.where(alone | (others != i), 1.0, 0.0).astype(x.dtype)
        t, m = phis.t[:, others], phis.m[:, others]
        F = jnp.einsum("j,j,qjd->qd", w, pair.k, t) - jnp.einsum("j,jd,qj->qd", w, pair.a, m)
        J = jnp.einsum("j,j,qj->q", w, pair.c, m) - jnp.einsum("j,jd,qjd->q", w, pair.b, t)
        return Features(F, J)

    parts = lax.map(one, rows, batch_size=_ROWS)
    return jax.tree.map(lambda part: jnp.moveaxis(part, 0, 1), parts)


def stein_pairs(
    kernel: MatrixKernel, space: Finite, x: Float[Array, "N d"], phi: Features
) -> Float[Array, "N N"]:
    """k⁰(xᵢ, xⱼ) from the definition, pair by pair."""

    def one(i: Array, j: Array) -> Scalar:
        pair, s, other = _pair(kernel, space, x[i], x[j]), phi.t[i], phi.t[j]
        return pair.k * s @ other - s @ pair.a - pair.b @ other + pair.c

    rows = jnp.arange(x.shape[0])
    return lax.map(lambda i: jax.vmap(lambda j: one(i, j))(rows), rows, batch_size=_ROWS)
