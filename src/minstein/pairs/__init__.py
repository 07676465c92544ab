"""Pair sums Σ_{i≠j} k⁰(xᵢ, xⱼ) as a quadratic form ⟨φ, G φ⟩ in per-point features φ.

G knows nothing of θ and is symmetric, so value and gradient come from one application, and second derivatives from
applications to the tangents of φ. No derivative is ever taken over pairs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float

from .. import errors
from .._types import Array, Scalar, Tree
from ..kernels import AbstractRadial, Span, Term
from ..sample import Sample
from ..sharded import Blocks
from . import fourier, lines, parts, ring, tiles
from .backends import Backend, chosen, formed
from .forms import AbstractFactored, AbstractForm, AbstractOperator, Features, Full, Ones
from .fourier import Box
from .lines import Line
from .parts import Scattered
from .reduce import reduced


def apply(
    form: AbstractFactored | Full | Ones | Line | Box | AbstractOperator,
    kernel: AbstractRadial,
    phi: Features,
    n: Array | Blocks,
    once: bool = False,
) -> Features:
    """G φ, linear in φ for every transformation of JAX: its derivative and its transpose are G again."""
    alone = jax.tree.map(lambda part: part[None], phi)
    if isinstance(form, Line):
        return jax.tree.map(lambda part: part[0], _apply_lines(form, kernel, alone))
    if isinstance(form, Box):
        return jax.tree.map(lambda part: part[0], _apply_waves(form, kernel, alone))
    held, kernel = _held((form, kernel))

    def fields(phi: Features) -> Features:
        if isinstance(held, Ones):
            return held.fields(phi)
        if isinstance(n, Blocks):
            return ring.apply(held, kernel, phi, n, once)
        if isinstance(held, AbstractOperator):
            return held.apply(kernel, phi, n, once)
        return tiles.apply(held, kernel, phi, n, once)

    return _linear_in(fields, phi)


def _linear_in(fields: Callable[[Features], Features], phi: Features) -> Features:
    """fields(φ), for one that is linear and symmetric."""
    r = phi.t.shape[1]
    unpacked = lambda flat: Features(flat[:, :r], flat[:, r:].reshape(phi.m.shape))
    return unpacked(_linear(lambda _, flat: _packed(fields(unpacked(flat))), _packed(phi)))


def _apply_lines(form: Line, kernel: AbstractRadial, phis: Features) -> Features:
    """G φ for a batch of features on the line, leading axis a; linear likewise."""
    form, kernel = _held((form, kernel))
    rows = jnp.concatenate([phis.t[..., 0], phis.m])
    t, m = jnp.split(_linear(lambda _, rows: lines.apply(form, kernel, rows), rows), 2)
    return Features(t[..., None], m)


def _apply_waves(form: Box, kernel: AbstractRadial, phis: Features) -> Features:
    """G φ for a batch of features in a box; linear likewise."""
    form, kernel = _held((form, kernel))
    rows = jnp.concatenate([phis.t, phis.m.reshape(*phis.t.shape[:2], -1)], 2)
    fields = _linear(lambda _, rows: fourier.apply(form, kernel, rows), rows)
    r = phis.t.shape[2]
    return Features(fields[..., :r], fields[..., r:].reshape(phis.m.shape))


def _linear(solve: Callable, flat: Array) -> Array:
    """The value of a linear and symmetric operator, so that JAX knows it to be one.

    `custom_linear_solve` is the transformation that says so and can be batched; nothing is solved here. It wants its
    argument as one array.
    """
    return lax.custom_linear_solve(lambda psi: psi, flat, solve, symmetric=True)


@jax.custom_jvp
def _held(tree: Tree) -> Tree:
    """The tree itself, refusing to be differentiated: `custom_linear_solve` would drop such derivatives silently."""
    return tree


@partial(_held.defjvp, symbolic_zeros=True)
def _held_jvp(primals, tangents):
    if not all(map(_is_zero, jax.tree.leaves(tangents, is_leaf=_is_zero))):
        raise errors.no_gradient_in_data()
    return primals[0], tangents[0]


def _packed(phi: Features) -> Array:
    return jnp.concatenate([phi.t, phi.m.reshape(phi.t.shape[0], -1)], axis=1)


def inner(phi: Features, psi: Features) -> Scalar:
    return jnp.vdot(phi.t, psi.t) + jnp.vdot(phi.m, psi.m)


@jax.custom_jvp
def quadratic_form(held: Tree, phi: Features) -> Scalar:
    """⟨φ, G φ⟩, with G given by held = (form, kernel, n)."""
    form, kernel, n = held
    return inner(phi, apply(form, kernel, phi, n))


@partial(quadratic_form.defjvp, symbolic_zeros=True)
def _quadratic_form_jvp(primals, tangents):
    (form, kernel, n), phi = primals
    dheld, dphi = tangents
    if not all(map(_is_zero, jax.tree.leaves(dheld, is_leaf=_is_zero))):
        raise errors.no_gradient_in_data()
    psi = apply(form, kernel, phi, n)
    moving = [(a, b) for a, b in zip(psi, dphi, strict=True) if not _is_zero(b)]
    return inner(phi, psi), 2 * sum((jnp.vdot(a, b) for a, b in moving), jnp.zeros((), phi.t.dtype))


def _is_zero(leaf: object) -> bool:
    return isinstance(leaf, SymbolicZero)


def pair_sum(
    terms: tuple[Term | Span, ...], sample: Sample, phi: Features, *, diagonal: Any, backend: Backend | None = None
) -> Scalar:
    """Σ_{i≠j} k⁰(xᵢ, xⱼ), with `diagonal` (False, True or a number) times Σᵢ k⁰(xᵢ, xᵢ), for a kernel's terms."""
    total = jnp.zeros((), sample.x.dtype)
    way = chosen(terms, sample.x, backend) if sample.blocks is None else "tiles"
    for term in terms:
        form, features = formed(term, sample, phi, way)
        total += quadratic_form((form, term.profile, sample.extent), features)
        if diagonal is not False:
            total += diagonal * inner(features, on_diagonal(form, term.profile, features))
    return total


class Fields(NamedTuple):
    """G φ_a for a batch of features: from other points, and from each point itself."""

    off: Features
    on: Features


def pair_fields(
    terms: tuple[Term | Span, ...],
    sample: Sample,
    phis: Features,
    *,
    still: bool = False,
    once: bool = False,
    backend: Backend | None = None,
) -> Fields:
    """G applied to a batch of features, leading axis a, in one pass over the pairs.

    Args:
        terms: those of the kernel.
        sample: the points.
        phis: the batch.
        still: whether all but the first have m = 0, which saves work; the result cannot be differentiated then.
        once: whether the computation will not be repeated, so that compiling it fast matters more than running it fast.
        backend: the one to use; None to choose.
    """
    way = chosen(terms, sample.x, backend) if sample.blocks is None else "tiles"
    first = jax.tree.map(lambda part: part[0], phis)
    total = jax.tree.map(jnp.zeros_like, Fields(phis, phis))
    for term in terms:
        form = formed(term, sample, first, way)[0]
        change = lambda phi, term=term: reduced(term, sample, phi)[1]
        features = jax.vmap(change)(phis)
        if still and isinstance(form, AbstractFactored):
            product = tiles.products if sample.blocks is None else ring.products
            off = tiles.apply_still(form, term.profile, features, sample.extent, once, product)
        elif still and isinstance(form, Scattered) and isinstance(form.form, AbstractFactored):
            off = tiles.apply_still(form.form, term.profile, features, sample.n, once, parts.products(form))
        elif isinstance(form, Line):
            off = _apply_lines(form, term.profile, features)
        elif isinstance(form, Box):
            off = _apply_waves(form, term.profile, features)
        else:
            off = jax.vmap(lambda phi, form=form, term=term: apply(form, term.profile, phi, sample.extent, once))(
                features
            )
        back = jax.vmap(lambda psi, change=change: jax.vjp(change, first)[1](psi)[0])
        total = jax.tree.map(jnp.add, total, Fields(back(off), back(on_diagonal(form, term.profile, features))))
    return total


class Products(NamedTuple):
    """⟨φ_a, G φ_b⟩ for a batch of features: summed over pairs of different points, and over each point with itself."""

    off: Float[Array, "q q"]
    on: Float[Array, "q q"]


def pair_products(
    terms: tuple[Term | Span, ...],
    sample: Sample,
    phis: Features,
    *,
    still: bool = False,
    backend: Backend | None = None,
) -> Products:
    """The matrix ⟨φ_a, G φ_b⟩ for a batch of features, leading axis a; one pass over the pairs."""
    return products(phis, pair_fields(terms, sample, phis, still=still, backend=backend))


def products(phis: Features, fields: Fields) -> Products:
    return Products(_gram(phis, fields.off), _gram(phis, fields.on))


def _gram(a: Features, b: Features) -> Float[Array, "q q"]:
    q = a.t.shape[0]
    return a.t.reshape(q, -1) @ b.t.reshape(q, -1).T + a.m.reshape(q, -1) @ b.m.reshape(q, -1).T


def on_diagonal(form: AbstractForm | AbstractOperator, kernel: AbstractRadial, phi: Features) -> Features:
    """G_ii φᵢ at every point."""
    if isinstance(form, AbstractOperator):
        return _own(form, kernel, phi) if phi.t.ndim == 2 else jax.vmap(lambda phi: _own(form, kernel, phi))(phi)
    k, k1, _ = kernel.profile(jnp.zeros((), phi.t.dtype))
    return form.diagonal(k, 2 * k1, phi)


def _own(operator: AbstractOperator, kernel: AbstractRadial, phi: Features) -> Features:
    operator, kernel = _held((operator, kernel))
    return _linear_in(lambda phi: operator.own(kernel, phi), phi)
