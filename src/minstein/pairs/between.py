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
from ..data.padding import TILE
from ..data.sample import Sample
from ..kernels import Span, Term
from . import tiles
from .forms import AbstractForm, AbstractWay, Features
from .of_kernel import change_back
from .reduce import reduce_span, reduce_term


def fields(
    terms: tuple[Term, ...],
    at: Sample,
    sample: Sample,
    phis: Features,
    *,
    same: Bool[Array, ""],
    still: bool,
) -> Features:
    """Σⱼ G_ij φⱼ over the observations j of a sample, at each row i of another, for a batch of
    features.

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
    offset = jnp.where(same, 0, sample.x.shape[0])  # rows of other samples count on from the last
    for term in terms:
        form, change = _reduce(term, sample, phis)
        target, change_here = _reduce(term, at, here)
        way = Between(target, sample.n, offset)
        changed = jax.vmap(change)(phis)
        arrived = form.sum_pairs(way, term.profile, changed, still=still, once=True, at=target)
        total = jax.tree.map(jnp.add, total, change_back(change_here, here, arrived))
    return total


def sent(
    spans: tuple[Span, ...], sample: Sample, phis: Features
) -> tuple[Float[Array, "q r"], ...]:
    """Σᵢ tᵢ for each term of finite rank: all that others need to know of a sample."""
    features = lambda span: jax.vmap(lambda phi: reduce_span(span, sample, phi))(phis)
    return tuple(jnp.sum(features(span).t, 1) for span in spans)


def received(
    spans: tuple[Span, ...],
    sums: tuple[Float[Array, "q r"], ...],
    at: Sample,
    phis: Features,
    *,
    among: bool,
) -> Features:
    """The fields at each row of a sample from such sums, with i = j left out where the sample is
    `among` the senders.

    `phis` are the features there.
    """
    total = jax.tree.map(jnp.zeros_like, phis)
    for span, whole in zip(spans, sums, strict=True):
        change = partial(reduce_span, span, at)
        own = jax.vmap(change)(phis)
        arrived = Features(
            jnp.broadcast_to(whole[:, None], own.t.shape) - (own.t if among else 0), own.m
        )
        total = jax.tree.map(jnp.add, total, change_back(change, phis, arrived))
    return total


def rows_like(phis: Features, at: Sample) -> Features:
    """Zeros of the shape that the batch would have at other points."""
    rows = at.x.shape[0]
    return jax.tree.map(
        lambda part: jnp.zeros((part.shape[0], rows, *part.shape[2:]), part.dtype), phis
    )


def _reduce(term: Term, sample: Sample, phis: Features) -> tuple[Any, Callable]:
    """The form of a term at a sample, and the change of features that goes with it."""
    first = jax.tree.map(lambda part: part[0], phis)
    return reduce_term(term, sample, first)[0], lambda phi: reduce_term(term, sample, phi)[1]


class Between(AbstractWay):
    """Every pair of a point of one form with one of the first n of another."""

    at: AbstractForm
    n: Array
    offset: Array

    def products(self, form, kernel, sources, once):
        def meet(i: Array, j: Array, at_i: Tree, at_j: tuple) -> tuple:
            points, sources = at_j
            tile = tiles.profile_on(kernel, at_i, points, self.offset + i - j)
            weights = form.weights(tile, at_i, points)
            return tuple(w @ source for w, source in zip(weights, sources, strict=True))

        return _meet_tiles(meet, self.at.points, (form.points, sources), self.n)

    def fields(self, form, kernel, phi, once):
        def meet(i: Array, j: Array, at_i: Tree, at_j: tuple) -> Features:
            points, phi = at_j
            tile = tiles.profile_on(kernel, at_i, points, self.offset + i - j)
            return form.fields(tile, at_i, points, phi)

        return _meet_tiles(meet, self.at.points, (form.points, phi), self.n)


def _meet_tiles(meet: Callable, targets: Tree, sources: Tree, n: Array) -> Tree:
    """Σ meet(i, j, rows from i, rows from j) over tiles of the first n sources, for each tile of
    the targets.
    """
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
