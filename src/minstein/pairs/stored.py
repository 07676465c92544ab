"""Pair sums from a stored Gram matrix, for repeated evaluation where the diffusion m does not
depend on θ.

Then φ = (t, m) moves in t only, ⟨φ, G φ⟩ = tᵀKt + 2⟨t, c⟩ + const with K = κ(‖zᵢ − zⱼ‖²), and K, c
and the constant are computed once. Of a term of finite rank there is nothing to store. A point with
itself has no part in c if the kernel is radial, because its gradient vanishes there; that of a
discrete kernel does not.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Scalar
from ..data.sample import Sample
from ..kernels import Span, Term
from .backends import Tiles
from .forms import Features, square_distances
from .operator import Products, inner
from .reduce import reduce_span, reduce_term


class Stored(eqx.Module):
    """What is θ-free in the pair sum of one term; `*_on` is the part of each point with itself.

    `term` says how features enter, or is None where they enter as they are. K is None where all its entries are one,
    and `c_on` where it is zero.
    """

    term: Term | Span | None
    K: Float[Array, "N N"] | None
    c: Float[Array, "N r"]
    constant: Scalar
    k_on: Scalar
    constant_on: Scalar
    c_on: Float[Array, "N r"] | None = None

    def entering(self, sample: Sample, phi: Features) -> Float[Array, "N r"]:
        """t of the features, changed as the term has it."""
        if self.term is None:
            return phi.t
        if isinstance(self.term, Span):
            return reduce_span(self.term, sample, phi).t
        return reduce_term(self.term, sample, phi)[1].t


def store(terms: tuple[Any, ...], sample: Sample, m: Array) -> tuple[Stored, ...]:
    """The matrices for a diffusion with values m, a row for each point."""
    still = Features(jnp.zeros_like(sample.x), m)
    return tuple(_store_term(term, sample, still) for term in terms)


def _store_term(term: Term | Span, sample: Sample, still: Features) -> Stored:
    if isinstance(term, Span):
        t = reduce_span(term, sample, still).t
        zero = jnp.zeros((), t.dtype)
        return Stored(term, None, jnp.zeros_like(t), zero, zero + 1, zero)
    form, phi = reduce_term(term, sample, still)
    phi = Features(jnp.zeros_like(phi.t), phi.m)
    alone = jax.tree.map(lambda part: part[None], phi)
    tiled = Tiles().operator(term, form, sample)
    field, on = (
        jax.tree.map(lambda part: part[0], fields)
        for fields in (tiled.apply(alone, once=True), tiled.own(alone))
    )
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


def stored_sum(
    matrices: tuple[Stored, ...], sample: Sample, phi: Features, *, diagonal: Scalar
) -> Scalar:
    """`pair_sum` of φ = (t, m); value and gradient take one product with each matrix."""
    total = jnp.zeros((), sample.x.dtype)
    for stored in matrices:
        t = stored.entering(sample, phi)
        total += _quadratic(stored.K, stored.c, t) + stored.constant
        total += diagonal * (stored.k_on * jnp.vdot(t, t) + stored.constant_on)
        total += 0 if stored.c_on is None else diagonal * 2 * jnp.vdot(t, stored.c_on)
    return total


@jax.custom_jvp
def _quadratic(
    K: Float[Array, "N N"] | None, c: Float[Array, "N r"], t: Float[Array, "N r"]
) -> Scalar:
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
    Kt = jnp.moveaxis(
        _times(stored.K, jnp.moveaxis(t, 0, 1).reshape(rows, q * r)).reshape(rows, q, r), 1, 0
    )
    first = jnp.zeros(q, t.dtype).at[0].set(1)
    still = jnp.outer(first, first)

    def crossed(c: Float[Array, "N r"]) -> Float[Array, "q q"]:
        cross = first[:, None] * (flat @ c.reshape(-1))
        return cross + cross.T

    off = flat @ Kt.reshape(q, -1).T + crossed(stored.c) + stored.constant * still
    on = stored.k_on * flat @ flat.T + stored.constant_on * still
    return Products(off, on if stored.c_on is None else on + crossed(stored.c_on))
