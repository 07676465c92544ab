"""Pair sums from a stored Gram matrix, for repeated evaluation if the diffusion m does not depend on
θ.

Then only t of φ = (t, m) varies, ⟨φ, G φ⟩ = tᵀKt + 2⟨t, c⟩ + const with K = κ(‖zᵢ − zⱼ‖²), and K, c
and the constant are computed once. A term of finite rank has nothing to store. A point with itself
does not contribute to c if the kernel is radial, because the gradient of κ vanishes there; the
difference of a discrete kernel does not.
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
from .distances import square_distances
from .forms import Features
from .operator import AbstractOperator, Products, inner
from .reduce import change_features, reduce_term


class Stored(eqx.Module):
    """The θ-free parts of the pair sum of one term; those of each point with itself end in `_on`.

    `term` says how the features are changed, or is None if they are not. K is None if all its
    entries are one, and `c_on` is None if it is zero.
    """

    term: Term | Span | None
    K: Float[Array, "N N"] | None
    c: Float[Array, "N r"]
    constant: Scalar
    k_on: Scalar
    constant_on: Scalar
    c_on: Float[Array, "N r"] | None = None

    def entering(self, sample: Sample, phi: Features) -> Float[Array, "N r"]:
        """Return t of the features after the change that the term needs."""
        return phi.t if self.term is None else change_features(self.term, sample, phi).t


def store(terms: tuple[Any, ...], sample: Sample, m: Array) -> tuple[Stored, ...]:
    """Return what to store for a diffusion with the values m, one row for each point."""
    still = Features(jnp.zeros_like(sample.x), m)
    return tuple(_store_term(term, sample, still) for term in terms)


def _store_term(term: Term | Span, sample: Sample, still: Features) -> Stored:
    match term:
        case Span():
            t = change_features(term, sample, still).t
            zero = jnp.zeros((), t.dtype)
            return Stored(term, None, jnp.zeros_like(t), zero, zero + 1, zero)
    form, phi = reduce_term(term, sample, still)
    phi = Features(jnp.zeros_like(phi.t), phi.m)
    z, kernel = form.points["z"], term.profile
    K = kernel.profile(square_distances(z, z))[0]
    k_on = kernel.profile(jnp.zeros((), z.dtype))[0]
    return store_operator(term, sample, Tiles().operator(term, form, sample), phi, K, k_on)


def store_operator(
    term: Term | None,
    sample: Sample,
    operator: AbstractOperator,
    phi: Features,
    K: Float[Array, "N N"],
    k_on: Scalar,
) -> Stored:
    """Return what to store of an operator, given φ = (0, m), the kernel K at all pairs, and its
    value k_on at a point with itself.
    """
    batch = phi.as_batch()
    off, on = operator.apply(batch, once=True).first(), operator.own(batch).first()
    apart = sample.real[:, None] & sample.real[None, :] & ~jnp.eye(len(K), dtype=bool)
    c_on = on.t if term is None else None
    K = jnp.where(apart, K, 0)
    return Stored(term, K, off.t, inner(phi, off), k_on, inner(phi, on), c_on)


def stored_products(matrices: tuple[Stored, ...], sample: Sample, phis: Features) -> Products:
    """Return ⟨φ_a, G φ_b⟩ for a batch whose first member is (t, m) and whose others are (∂t, 0)."""
    zero = jnp.zeros((phis.t.shape[0],) * 2, sample.x.dtype)
    total = Products(zero, zero)
    for stored in matrices:
        t = jax.vmap(lambda phi, stored=stored: stored.entering(sample, phi))(phis)
        total = jax.tree.map(jnp.add, total, _products(stored, t))
    return total


def stored_sum(
    matrices: tuple[Stored, ...], sample: Sample, phi: Features, *, diagonal: Scalar
) -> Scalar:
    """Return the `pair_sum` of φ = (t, m); value and gradient take one product with each matrix."""
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
    """tᵀKt + 2⟨t, c⟩ for a symmetric constant K, differentiable in t."""
    return jnp.vdot(t, _times(K, t) + 2 * c)


@_quadratic.defjvp
def _quadratic_jvp(primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    K, c, t = primals
    field = _times(K, t) + c
    return jnp.vdot(t, field + c), 2 * jnp.vdot(field, tangents[2])


def _times(K: Float[Array, "N N"] | None, t: Float[Array, "N c"]) -> Float[Array, "N c"]:
    """K t for K with a zero diagonal, whose other entries are one if K is None."""
    return jnp.sum(t, 0) - t if K is None else K @ t


def _products(stored: Stored, t: Float[Array, "q N r"]) -> Products:
    """The products of one term, for a batch of t."""
    q, rows, r = t.shape
    flat = t.reshape(q, -1)
    Kt = jnp.moveaxis(
        _times(stored.K, jnp.moveaxis(t, 0, 1).reshape(rows, q * r)).reshape(rows, q, r), 1, 0
    )
    first = jnp.zeros(q, t.dtype).at[0].set(1)
    still = jnp.outer(first, first)

    def with_first(c: Float[Array, "N r"]) -> Float[Array, "q q"]:
        """⟨t_b, c⟩ in the first row and in the first column."""
        cross = first[:, None] * (flat @ c.reshape(-1))
        return cross + cross.T

    off = flat @ Kt.reshape(q, -1).T + with_first(stored.c) + stored.constant * still
    on = stored.k_on * flat @ flat.T + stored.constant_on * still
    return Products(off, on if stored.c_on is None else on + with_first(stored.c_on))
