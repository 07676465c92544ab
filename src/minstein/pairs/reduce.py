"""From features (t, m) and one term of a kernel to a form and its features: per-point linear
algebra only.

A weight turns m into w m; a whitening matrix A turns z into Az and m into Am; a factor L turns t
into Lᵀt, m into mL. Fields f_j turn t into S[f_j], after which k⁰ is a product.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array
from ..data.sample import Sample
from ..kernels import Span, Term
from .forms import AbstractFactored, Columns, Features, Full, Multiple


def reduce_term(
    term: Term, sample: Sample, phi: Features
) -> tuple[AbstractFactored | Full, Features]:
    """The form of a term, and φ rewritten for it. Linear in φ, so that it serves tangents of φ as
    well.
    """
    x, z = sample.x, sample.x - sample.centre
    phi = phi if term.weight is None else _weighted(term.weight, x, phi)
    A = jnp.eye(x.shape[1], dtype=x.dtype) if term.whiten is None else term.whiten
    A = (
        jnp.abs(A) if A.shape == (1, 1) else A
    )  # on the line its sign does not matter, and z is in the order of x
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


def reduce_span(span: Span, sample: Sample, phi: Features) -> Features:
    """S[f_j] at every point, for the fields of a kernel of finite rank; linear in φ."""
    t = jnp.einsum("nai,air->nr", stein_features(span.functions, sample.x, phi), span.coefficients)
    return Features(t, jnp.zeros((len(t), 0), t.dtype))


def stein_features(
    functions: Callable, x: Float[Array, "n d"], phi: Features
) -> Float[Array, "n B d"]:
    """S[ψ_a e_i] = ψ_a t_i + (mᵀ∇ψ_a)_i at each point, for scalar functions ψ and features φ = (t,
    m).
    """
    psi, slopes = jax.vmap(functions)(x), jax.vmap(jax.jacfwd(functions))(x)
    along = (
        jnp.einsum("nki,nak->nai", phi.m, slopes)
        if phi.m.ndim == 3
        else phi.m.reshape(len(x), 1, -1) * slopes
    )
    return psi[:, :, None] * phi.t[:, None, :] + along


def _weighted(weight: Callable, x: Array, phi: Features) -> Features:
    """Features for the diffusion w m: t becomes w t + mᵀ∇w."""
    w, dw = jax.vmap(jax.value_and_grad(lambda x: jnp.reshape(weight(x), ())))(x)
    along = (
        jnp.einsum("njr,nj->nr", phi.m, dw) if phi.m.ndim == 3 else phi.m.reshape(len(x), -1) * dw
    )
    return Features(w[:, None] * phi.t + along, w.reshape((-1,) + (1,) * (phi.m.ndim - 1)) * phi.m)


def _multiple(
    term: Term, z: Array, A: Array, phi: Features
) -> tuple[AbstractFactored | Full, Features]:
    """m = h A L, one number a point."""
    if term.is_scalar and term.whiten is None:
        return Multiple(z, None, jnp.asarray(z.shape[1], z.dtype)), phi
    C = _mixed(term, A)
    if C.shape == (1, 1):
        return Multiple(z, None, jnp.ones((), z.dtype)), Features(
            _mixed(term, phi.t), C[0, 0] * phi.m
        )
    return Multiple(z, z @ C, jnp.sum(C**2)), Features(_mixed(term, phi.t), phi.m)


def mixing(term: Term, x: Float[Array, "n d"]) -> Float[Array, "e r"]:
    """C of m = h C."""
    A = jnp.eye(x.shape[1], dtype=x.dtype) if term.whiten is None else term.whiten
    return _mixed(term, A)


def _full(
    term: Term, z: Array, A: Array, phi: Features
) -> tuple[AbstractFactored | Full, Features]:
    m = phi.m if term.whiten is None else jnp.einsum("ea,nar->ner", A, phi.m)
    return Full(z), Features(_mixed(term, phi.t), _mixed(term, m))


def _mixed(term: Term, rows: Array) -> Array:
    """rows @ L."""
    if term.column is not None:
        return term.mix * rows[..., term.column : term.column + 1]
    return rows if term.mix is None else rows @ term.mix
