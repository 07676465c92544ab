"""Pair sums from a stored Gram matrix, for repeated evaluation where the diffusion m does not depend on θ.

Then φ = (t, m) moves in t only, ⟨φ, G φ⟩ = tᵀKt + 2⟨t, c⟩ + const with K = κ(‖zᵢ − zⱼ‖²), and K, c and the constant are
computed once. Of a term of finite rank there is nothing to store.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Scalar
from ..kernels import Span, Term
from ..memory import available
from ..sample import Sample
from . import Products, apply, inner, on_diagonal
from .forms import Features, Ones, square_distances
from .reduce import reduced

BYTES = 1 << 29
"""Memory that stored matrices may take; beyond it the pair sums are computed anew each time."""


class Stored(eqx.Module):
    """What is θ-free in the pair sum of one term; `*_on` is the part of each point with itself.

    `term` says how features enter, or is None where they enter as they are. K is None where all its entries are one.
    """

    term: Term | Span | None
    K: Float[Array, "N N"] | None
    c: Float[Array, "N r"]
    constant: Scalar
    k_on: Scalar
    constant_on: Scalar

    def entering(self, sample: Sample, phi: Features) -> Float[Array, "N r"]:
        """t of the features, changed as the term has it."""
        return phi.t if self.term is None else reduced(self.term, sample, phi)[1].t


def fits(matrices: int, sample: Sample) -> bool:
    """Whether so many matrices fit into memory; of rows that are spread over devices there are none."""
    rows = sample.x.shape[0]
    return sample.blocks is None and matrices * rows**2 * sample.x.dtype.itemsize <= min(BYTES, available() // 4)


def store(terms: tuple[Term | Span, ...], sample: Sample, m: Array) -> tuple[Stored, ...]:
    """The matrices for a diffusion with values m, a row for each point."""
    still = Features(jnp.zeros_like(sample.x), m)
    return tuple(_stored(term, sample, still) for term in terms)


def _stored(term: Term | Span, sample: Sample, still: Features) -> Stored:
    form, phi = reduced(term, sample, still)
    if isinstance(form, Ones):
        zero = jnp.zeros((), phi.t.dtype)
        return Stored(term, None, jnp.zeros_like(phi.t), zero, zero + 1, zero)
    phi = Features(jnp.zeros_like(phi.t), phi.m)
    field, on = apply(form, term.profile, phi, sample.extent, once=True), on_diagonal(form, term.profile, phi)
    z = form.points["z"]
    apart = sample.real[:, None] & sample.real[None, :] & ~jnp.eye(z.shape[0], dtype=bool)
    K = jnp.where(apart, term.profile.profile(square_distances(z, z))[0], 0)
    k_on = term.profile.profile(jnp.zeros((), z.dtype))[0]
    return Stored(term, K, field.t, inner(phi, field), k_on, inner(phi, on))


def stored_products(matrices: tuple[Stored, ...], sample: Sample, phis: Features) -> Products:
    """`pair_products` of a batch whose first member is φ = (t, m) and whose others are (∂t, 0)."""
    zero = jnp.zeros((phis.t.shape[0],) * 2, sample.x.dtype)
    total = Products(zero, zero)
    for stored in matrices:
        t = jax.vmap(lambda phi, stored=stored: stored.entering(sample, phi))(phis)
        total = jax.tree.map(jnp.add, total, _products(stored, t))
    return total


def stored_sum(matrices: tuple[Stored, ...], sample: Sample, phi: Features, *, diagonal: Scalar) -> Scalar:
    """`pair_sum` of φ = (t, m); value and gradient take one product with each matrix."""
    total = jnp.zeros((), sample.x.dtype)
    for stored in matrices:
        t = stored.entering(sample, phi)
        total += _quadratic(stored.K, stored.c, t) + stored.constant
        total += diagonal * (stored.k_on * jnp.vdot(t, t) + stored.constant_on)
    return total


@jax.custom_jvp
def _quadratic(K: Float[Array, "N N"] | None, c: Float[Array, "N r"], t: Float[Array, "N r"]) -> Scalar:
    """tᵀKt + 2⟨t, c⟩, differentiable in t, with K symmetric and constant."""
    return jnp.vdot(t, _times(K, t) + 2 * c)


@_quadratic.defjvp
def _quadratic_jvp(primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    K, c, t = primals
    field = _times(K, t) + c
    return jnp.vdot(t, field + c), 2 * jnp.vdot(field, tangents[2])


def _times(K: Float[Array, "N N"] | None, t: Float[Array, "N c"]) -> Float[Array, "N c"]:
    """K t, for K with zeros on its diagonal; ones elsewhere if None."""
    return jnp.sum(t, 0) - t if K is None else K @ t


def _products(stored: Stored, t: Float[Array, "q N r"]) -> Products:
    q, rows, r = t.shape
    flat = t.reshape(q, -1)
    Kt = jnp.moveaxis(_times(stored.K, jnp.moveaxis(t, 0, 1).reshape(rows, q * r)).reshape(rows, q, r), 1, 0)
    first = jnp.zeros(q, t.dtype).at[0].set(1)
    cross = first[:, None] * (flat @ stored.c.reshape(-1))
    off = flat @ Kt.reshape(q, -1).T + cross + cross.T + stored.constant * jnp.outer(first, first)
    return Products(off, stored.k_on * flat @ flat.T + stored.constant_on * jnp.outer(first, first))
