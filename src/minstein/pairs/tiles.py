"""G applied to features by symmetric tiles: every pair is visited once, without an n×n array."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._types import Array, Tree
from ..kernels import AbstractRadial
from .distances import by_coordinates, square_distances
from .forms import (
    AbstractFactored,
    AbstractForm,
    AbstractWay,
    Features,
    Full,
    Tile,
)

SIDE = 128
"""Rows of a tile: few enough that its arrays fit into a core's cache. A divisor of `padding.TILE`,
and so of the padded size of every larger sample.
"""

ROWS, ROWS_ONCE = 512, 2048
"""Up to this number of rows all pairs are one tile without a loop, which compiles in a third of the
time: up to the first it runs as fast as a loop, up to the second it pays if the sum is
computed once.
"""


class Tiles(AbstractWay):
    """Every pair of the first n points, a tile of pairs at a time."""

    n: Array

    def sums(self, form, kernel, sources, once):
        points = form.points
        if not form.is_factored:
            return _fields(form, kernel, sources, self.n)
        if points["z"].shape[0] > (ROWS_ONCE if once else ROWS):
            return _products(form, kernel, sources, self.n)
        return form.send(profile_on(kernel, points, points, 0), points, points, sources)


def _fields(form: Full, kernel: AbstractRadial, phi: Features, n: Array) -> Features:
    """G φ for a form without factors."""

    def within(i: Array, psi: Features, b: int) -> Features:
        at = rows_of(form.points, i, b)
        tile = profile_on(kernel, at, at, 0)
        return add_rows(psi, i, form.send(tile, at, at, rows_of(phi, i, b)))

    def between(i: Array, j: Array, psi: Features, b: int) -> Features:
        at_i, at_j = rows_of(form.points, i, b), rows_of(form.points, j, b)
        tile = profile_on(kernel, at_i, at_j)
        psi = add_rows(psi, i, form.send(tile, at_i, at_j, rows_of(phi, j, b)))
        return add_rows(psi, j, form.send(tile.T, at_j, at_i, rows_of(phi, i, b)))

    return _over_tiles(form, n, within, between, phi.zeros_like())


def _products(form: AbstractFactored, kernel: AbstractRadial, sources: tuple, n: Array) -> tuple:
    """W_q S_q for each q.

    XLA is slow at products with a transposed matrix, so sources and sums are kept both by rows and
    by columns: the tile (i, j) adds W S_j to the rows i of one sum, and S_iᵀ W to the columns j of
    the other.
    """
    points = by_coordinates(form.points)
    columns = tuple(source.T for source in sources)

    def within(i: Array, sums: tuple, b: int) -> tuple:
        at = rows_of(points, i, b)
        to_i = form.send(profile_on(kernel, at, at, 0), at, at, rows_of(sources, i, b))
        return add_rows(sums[0], i, to_i), sums[1]

    def between(i: Array, j: Array, sums: tuple, b: int) -> tuple:
        at_i, at_j = rows_of(points, i, b), rows_of(points, j, b)
        weights = form.weights(profile_on(kernel, at_i, at_j), at_i, at_j)
        to_i = tuple(w @ source for w, source in zip(weights, rows_of(sources, j, b), strict=True))
        to_j = tuple(
            source @ w for w, source in zip(weights, rows_of(columns, i, b, axis=1), strict=True)
        )
        return add_rows(sums[0], i, to_i), add_rows(sums[1], j, to_j, axis=1)

    by_rows, by_columns = _over_tiles(
        form, n, within, between, jax.tree.map(jnp.zeros_like, (sources, columns))
    )
    return tuple(a + b.T for a, b in zip(by_rows, by_columns, strict=True))


def _over_tiles(
    form: AbstractForm, n: Array, within: Callable, between: Callable, start: Tree
) -> Tree:
    """Carry sums through within(i, sums, b) for each block of b rows, then between(i, j, sums, b)
    for each two blocks; i > j are the first rows of the blocks.
    """
    rows = form.points["z"].shape[0]
    b = min(SIDE, rows)
    assert rows % b == 0, (rows, b)
    blocks = (n + b - 1) // b
    sums = lax.fori_loop(0, blocks, lambda q, sums: within(q * b, sums, b), start)
    if rows == b:
        return sums
    first, second = (jnp.asarray(index) * b for index in np.tril_indices(rows // b, -1))
    return lax.fori_loop(
        0, blocks * (blocks - 1) // 2, lambda q, sums: between(first[q], second[q], sums, b), sums
    )


def profile_on(
    kernel: AbstractRadial, at_i: Tree, at_j: Tree, offset: Array | int | None = None
) -> Tile:
    """The kernel's profile on a block of pairs; with an offset, zero for the pairs with i + offset
    = j, which are a point with itself.
    """
    u = square_distances(at_i["z"], at_j["z"])
    k, k1, k2 = kernel.profile(u)
    if offset is not None:
        i, j = (jnp.arange(rows) for rows in u.shape)
        apart = i[:, None] + offset != j[None, :]
        k, k1, k2 = (jnp.where(apart, part, 0) for part in (k, k1, k2))
    return Tile(k, 2 * k1, 4 * k2, u)


def rows_of(tree: Tree, start: Array, b: int, *, axis: int = 0) -> Tree:
    """The b rows of each array from `start` on."""
    return jax.tree.map(lambda part: lax.dynamic_slice_in_dim(part, start, b, axis), tree)


def add_rows(tree: Tree, start: Array, rows: Tree, *, axis: int = 0) -> Tree:
    """Add to the rows of each array from `start` on."""

    def add(part: Array, row: Array) -> Array:
        old = lax.dynamic_slice_in_dim(part, start, row.shape[axis], axis)
        return lax.dynamic_update_slice_in_dim(part, old + row, start, axis)

    return jax.tree.map(add, tree, rows)
