"""From features (t, m) and one term of a kernel to a form and its features, by linear algebra at
each point.

A weight turns m into w m; a whitening matrix A turns z into Az and m into Am; a factor L turns t
into Lᵀt and m into mL. Fields f_j turn t into S[f_j], after which k⁰ is a product.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array
from ..data.sample import Sample
from ..kernels import Span, Term
from .forms import AbstractForm, Columns, Features, Full, Multiple


def change_features(term: Term | Span, sample: Sample, phi: Features) -> Features:
    """Return φ as a term of the kernel needs it; linear in φ, so it also serves tangents of φ."""
    match term:
        case Span():
            S = stein_features(term.functions, sample.x, phi)
            t = jnp.einsum("nai,air->nr", S, term.coefficients)
            return Features(t, jnp.zeros((len(t), 0), t.dtype))
        case _:
            return reduce_term(term, sample, phi)[1]


def reduce_term(term: Term, sample: Sample, phi: Features) -> tuple[AbstractForm, Features]:
    """Return the form of a term, and φ rewritten for it, which is linear in φ."""
    x, z = sample.x, sample.x - sample.centre
    phi = phi if term.weight is None else _apply_weight(term.weight, x, phi)
    A = _whitening(term, x)
    # in one dimension the sign of A does not matter; with A > 0 the order of z is that of x
    A = jnp.abs(A) if A.shape == (1, 1) else A
    z = z if term.whiten is None else z @ A.T
    match phi.m.ndim:
        case 1:
            return _multiple(term, z, A, phi)
        case 2 if term.column is not None:
            return _multiple(term, z, A, Features(phi.t, phi.m[:, term.column]))
        case 2 if term.mix is None:
            return Columns(z, z @ A, jnp.sum(A**2, 0)), phi
        case 2:
            return _full(term, z, A, Features(phi.t, jax.vmap(jnp.diag)(phi.m)))
        case _:
            return _full(term, z, A, phi)


def stein_features(
    functions: Callable, x: Float[Array, "n d"], phi: Features
) -> Float[Array, "n B d"]:
    """S[ψ_a e_i] = ψ_a t_i + (mᵀ∇ψ_a)_i at each point, for scalar functions ψ and φ = (t, m)."""
    psi, slopes = jax.vmap(functions)(x), jax.vmap(jax.jacfwd(functions))(x)
    return psi[:, :, None] * phi.t[:, None, :] + _along(phi.m, slopes)


def _along(m: Array, slopes: Float[Array, "n B d"]) -> Float[Array, "n B d"]:
    """mᵀ∇ψ_a at each point, for m a number, a diagonal or a matrix at each point."""
    if m.ndim == 3:
        return jnp.einsum("nki,nak->nai", m, slopes)
    return m.reshape(len(m), 1, -1) * slopes


def _apply_weight(weight: Callable, x: Array, phi: Features) -> Features:
    """Features for the diffusion w m: t becomes w t + mᵀ∇w."""
    w, dw = jax.vmap(jax.value_and_grad(lambda x: jnp.reshape(weight(x), ())))(x)
    t = w[:, None] * phi.t + _along(phi.m, dw[:, None])[:, 0]
    return Features(t, w.reshape((-1,) + (1,) * (phi.m.ndim - 1)) * phi.m)


def _multiple(term: Term, z: Array, A: Array, phi: Features) -> tuple[AbstractForm, Features]:
    """The form for m = h A L with a number h at each point."""
    if term.is_scalar and term.whiten is None:
        return Multiple(z, None, jnp.asarray(z.shape[1], z.dtype)), phi
    C, t = _mix(term, A), _mix(term, phi.t)
    if C.shape == (1, 1):
        return Multiple(z, None, jnp.ones((), z.dtype)), Features(t, C[0, 0] * phi.m)
    return Multiple(z, z @ C, jnp.sum(C**2)), Features(t, phi.m)


def mixing(term: Term, x: Float[Array, "n d"]) -> Float[Array, "e r"]:
    """C = A L of the forms with m = h C."""
    return _mix(term, _whitening(term, x))


def _whitening(term: Term, x: Float[Array, "n d"]) -> Float[Array, "e d"]:
    """A, the identity if the term has none."""
    return jnp.eye(x.shape[1], dtype=x.dtype) if term.whiten is None else term.whiten


def _full(term: Term, z: Array, A: Array, phi: Features) -> tuple[AbstractForm, Features]:
    """The form for a matrix m at each point."""
    m = phi.m if term.whiten is None else jnp.einsum("ea,nar->ner", A, phi.m)
    return Full(z), Features(_mix(term, phi.t), _mix(term, m))


def _mix(term: Term, rows: Array) -> Array:
    """rows @ L."""
    if term.column is not None:
        return term.mix * rows[..., term.column : term.column + 1]
    return rows if term.mix is None else rows @ term.mix
