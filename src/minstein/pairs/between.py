"""G applied between two samples: the fields at some points that features at others send out.

A sample that is too large for memory is its blocks, and every pair of blocks meets here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float

from .._types import Array, Tree
from ..kernels import AbstractRadial, Span, Term
from ..padding import TILE
from ..sample import Sample
from . import on_diagonal, tiles
from .forms import AbstractFactored, AbstractForm, Features, Full
from .reduce import reduced


def fields(
    terms: tuple[Term, ...], at: Sample, sample: Sample, phis: Features, *, same: Bool[Array, ""], still: bool
) -> Features:
    """Σⱼ G_ij φⱼ over the observations j of a sample, at each row i of another, for a batch of features.

    Args:
        terms: those of the kernel that are radial.
        at: the points at which the fields are wanted.
        sample: the points they come from.
        phis: features there, leading axis a, zero in padding.
        same: whether both are the same sample; i = j is then left out.
        still: whether all but the first have m = 0.
    """
    here = rows_like(phis, at)
    total = here
    for term in terms:
        form, change = _formed(term, sample, phis)
        target, change_here = _formed(term, at, here)
        offset = jnp.where(same, 0, sample.x.shape[0])  # rows of other samples are counted on from the last
        arrived = _arrived(form, target, term.profile, jax.vmap(change)(phis), sample.n, offset, still)
        total = jax.tree.map(jnp.add, total, _back(change_here, here, arrived))
    return total


def sent(spans: tuple[Span, ...], sample: Sample, phis: Features) -> tuple[Float[Array, "q r"], ...]:
    """Σᵢ tᵢ for each term of finite rank: all that others need to know of a sample."""
    return tuple(jnp.sum(jax.vmap(_formed(span, sample, phis)[1])(phis).t, 1) for span in spans)


def received(
    spans: tuple[Span, ...], sums: tuple[Float[Array, "q r"], ...], at: Sample, phis: Features, *, among: bool
) -> Features:
    """The fields at each row of a sample from such sums, with i = j left out where the sample is `among` the senders.

    `phis` are the features there.
    """
    total = jax.tree.map(jnp.zeros_like, phis)
    for span, whole in zip(spans, sums, strict=True):
        change = _formed(span, at, phis)[1]
        own = jax.vmap(change)(phis)
        arrived = Features(jnp.broadcast_to(whole[:, None], own.t.shape) - (own.t if among else 0), own.m)
        total = jax.tree.map(jnp.add, total, _back(change, phis, arrived))
    return total


def own_fields(terms: tuple[Term | Span, ...], sample: Sample, phis: Features) -> Features:
    """G_ii φᵢ at each row, for a batch of features."""
    total = jax.tree.map(jnp.zeros_like, phis)
    for term in terms:
        form, change = _formed(term, sample, phis)
        own = on_diagonal(form, term.profile, jax.vmap(change)(phis))
        total = jax.tree.map(jnp.add, total, _back(change, phis, own))
    return total


def rows_like(phis: Features, at: Sample) -> Features:
    """Zeros of the shape that the batch would have at other points."""
    rows = at.x.shape[0]
    return jax.tree.map(lambda part: jnp.zeros((part.shape[0], rows, *part.shape[2:]), part.dtype), phis)


def _formed(term: Term | Span, sample: Sample, phis: Features) -> tuple[Any, Callable]:
    """The form of a term at a sample, and the change of features that goes with it."""
    first = jax.tree.map(lambda part: part[0], phis)
    return reduced(term, sample, first)[0], lambda phi: reduced(term, sample, phi)[1]


def _back(change: Callable, phis: Features, fields: Features) -> Features:
    """Fields of changed features as those of the features themselves: the change is linear, this is its transpose."""
    first = jax.tree.map(lambda part: part[0], phis)
    return jax.vmap(lambda psi: jax.vjp(change, first)[1](psi)[0])(fields)


def _arrived(
    form: AbstractForm, at: Any, kernel: AbstractRadial, phis: Features, n: Array, offset: Array, still: bool
) -> Features:
    if isinstance(form, Full):
        return jax.vmap(lambda phi: _full(form, at, kernel, phi, n, offset))(phis)
    if not isinstance(form, AbstractFactored):
        raise TypeError(f"There are no fields between samples for {type(form).__name__}.")
    product = lambda form, kernel, sources, n, once: _products(form, at, kernel, sources, n, offset)
    if still:
        return tiles.apply_still(form, kernel, phis, n, True, product, at)
    return jax.vmap(lambda phi: at.gathered(product(form, kernel, form.sources(phi), n, True)))(phis)


def _products(
    form: AbstractFactored, at: AbstractFactored, kernel: AbstractRadial, sources: tuple, n: Array, offset: Array
) -> tuple:
    """W_q S_q at the rows of `at`, for each q."""

    def meet(i: Array, j: Array, at_i: Tree, at_j: tuple) -> tuple:
        points, sources = at_j
        weights = form.weights(tiles.profile_on(kernel, at_i, points, offset + i - j), at_i, points)
        return tuple(w @ source for w, source in zip(weights, sources, strict=True))

    return _met(meet, at.points, (form.points, sources), n)


def _full(form: Full, at: Full, kernel: AbstractRadial, phi: Features, n: Array, offset: Array) -> Features:
    """G φ at the rows of `at`, for a form that wants targets and sources of each tile together."""

    def meet(i: Array, j: Array, at_i: Tree, at_j: tuple) -> Features:
        points, phi = at_j
        return form.fields(tiles.profile_on(kernel, at_i, points, offset + i - j), at_i, points, phi)

    return _met(meet, at.points, (form.points, phi), n)


def _met(meet: Callable, targets: Tree, sources: Tree, n: Array) -> Tree:
    """Σ meet(i, j, rows from i, rows from j) over tiles of the first n sources, for each tile of the targets."""
    a, b = (_tile(jax.tree.leaves(rows)[0].shape[0]) for rows in (targets, sources))

    def rows(i: Array) -> Tree:
        at_i = tiles.rows_of(targets, i, a)
        met = partial(meet, i, at_i=at_i)
        zero = jax.tree.map(
            lambda part: jnp.zeros(part.shape, part.dtype),
            jax.eval_shape(lambda: met(i, at_j=tiles.rows_of(sources, i, b))),
        )

        def add(q: Array, total: Tree) -> Tree:
            return jax.tree.map(jnp.add, total, met(q * b, at_j=tiles.rows_of(sources, q * b, b)))

        return lax.fori_loop(0, (n + b - 1) // b, add, zero)

    count = jax.tree.leaves(targets)[0].shape[0]
    found = lax.map(rows, jnp.arange(count // a) * a)
    return jax.tree.map(lambda part: part.reshape(count, *part.shape[2:]), found)


def _tile(rows: int) -> int:
    return rows if rows <= tiles.ROWS else TILE
