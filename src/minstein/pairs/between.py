"""G applied between two samples: the fields at the points of one from the features at the other.

Rows on disk are read a block at a time, and the pairs between two blocks are summed here.
"""

from collections.abc import Callable
from functools import partial

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
from .reduce import change_features, reduce_term


def fields(
    terms: tuple[Term, ...],
    at: Sample,
    sample: Sample,
    phis: Features,
    *,
    same: Bool[Array, ""],
    still: bool,
) -> Features:
    """Return Σⱼ G_ij φⱼ over the observations j of a sample, at each row i of another sample.

    Args:
        terms: the terms of the kernel that have a radial profile.
        at: the points at which the fields are wanted.
        sample: the points from which they come.
        phis: a batch of features at `sample`, zero in padding.
        same: whether both are the same sample; i = j is then left out.
        still: whether all members of the batch except the first have m = 0.
    """
    rows = at.x.shape[0]
    here = jax.tree.map(
        lambda part: jnp.zeros((part.shape[0], rows, *part.shape[2:]), part.dtype), phis
    )
    total = here
    # if the samples differ, rows are numbered so that i + offset = j never holds
    offset = jnp.where(same, 0, sample.x.shape[0])
    for term in terms:
        form = reduce_term(term, sample, phis.first())[0]
        target = reduce_term(term, at, here.first())[0]
        way = Between(target, sample.n, offset)
        changed = jax.vmap(partial(change_features, term, sample))(phis)
        arrived = form.sum_pairs(way, term.profile, changed, still=still, once=True, at=target)
        back = change_back(partial(change_features, term, at), here, arrived)
        total = jax.tree.map(jnp.add, total, back)
    return total


def sent(
    spans: tuple[Span, ...], sample: Sample, phis: Features
) -> tuple[Float[Array, "q r"], ...]:
    """Return Σᵢ tᵢ for each term of finite rank: all that other samples need of this one."""
    features = lambda span: jax.vmap(partial(change_features, span, sample))(phis)
    return tuple(jnp.sum(features(span).t, 1) for span in spans)


def received(
    spans: tuple[Span, ...],
    sums: tuple[Float[Array, "q r"], ...],
    at: Sample,
    phis: Features,
    *,
    among: bool,
) -> Features:
    """Return the fields at each row of a sample from the sums of `sent`.

    `phis` are the features at these rows. If the sample is `among` the senders, i = j is left out.
    """
    total = phis.zeros_like()
    for span, whole in zip(spans, sums, strict=True):
        change = partial(change_features, span, at)
        own = jax.vmap(change)(phis)
        others = jnp.broadcast_to(whole[:, None], own.t.shape) - (own.t if among else 0)
        arrived = Features(others, own.m)
        total = jax.tree.map(jnp.add, total, change_back(change, phis, arrived))
    return total


class Between(AbstractWay):
    """Every pair of a point of the form `at` with one of the first n points of another form.

    Row i of the one and row i + `offset` of the other are the same point.
    """

    at: AbstractForm
    n: Array
    offset: Array

    def sums(self, form, kernel, sources, once):
        def meet(i: Array, j: Array, at_i: Tree, at_j: tuple) -> Tree:
            points, sources = at_j
            tile = tiles.profile_on(kernel, at_i, points, self.offset + i - j)
            return form.send(tile, at_i, points, sources)

        return _meet_tiles(meet, self.at.points, (form.points, sources), self.n)


def _meet_tiles(meet: Callable, targets: Tree, sources: Tree, n: Array) -> Tree:
    """Return Σ meet(i, j, targets from i, sources from j) over the tiles of the first n sources, for
    each tile of targets.
    """
    count, of_sources = (jax.tree.leaves(rows)[0].shape[0] for rows in (targets, sources))
    a, b = (rows if rows <= tiles.ROWS else TILE for rows in (count, of_sources))

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

    found = lax.map(rows, jnp.arange(count // a) * a)
    return jax.tree.map(lambda part: part.reshape(count, *part.shape[2:]), found)
