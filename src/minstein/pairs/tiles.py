"""G applied to features by symmetric tiles: every pair once, no n×n array, any number of right-hand sides by vmap."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._types import Array, Tree
from ..kernels import AbstractRadial
from ..sample import TILE
from .forms import AbstractForm, Features, Tile, square_distances


def apply(form: AbstractForm, kernel: AbstractRadial, phi: Features, n: Array) -> Features:
    """(G φ)ᵢ = Σ_{j≠i} G_ij φⱼ over the first n points; the features of the others must be zero."""
    rows = jax.tree.leaves(form.points)[0].shape[0]
    b = min(TILE, rows)
    first, second = (jnp.asarray(index) * b for index in np.tril_indices(rows // b))
    blocks = (n + b - 1) // b

    def body(q: Array, psi: Features) -> Features:
        i, j = first[q], second[q]
        return _add_tile(form, kernel, phi, psi, i, j, b)

    return lax.fori_loop(0, blocks * (blocks + 1) // 2, body, jax.tree.map(jnp.zeros_like, phi))


def _add_tile(
    form: AbstractForm, kernel: AbstractRadial, phi: Features, psi: Features, i: Array, j: Array, b: int
) -> Features:
    """Add the contributions of the tile (i, j) to both of its sides; a diagonal tile has only one."""
    at_i, at_j = _rows(form.points, i, b), _rows(form.points, j, b)
    tile = _tile(kernel, at_i, at_j, i - j)
    to_i = form.fields(tile, at_i, at_j, _rows(phi, j, b))
    to_j = form.fields(tile.T, at_j, at_i, _rows(phi, i, b))
    psi = _add_rows(psi, i, to_i)
    return _add_rows(psi, j, jax.tree.map(lambda part: jnp.where(i == j, 0, part), to_j))


def _tile(kernel: AbstractRadial, at_i: Tree, at_j: Tree, offset: Array) -> Tile:
    """The kernel's profile on a block of pairs, with zeros for a point and itself."""
    u = square_distances(at_i["z"], at_j["z"])
    index = jnp.arange(u.shape[0])
    apart = index[:, None] + offset != index[None, :]
    k, k1, k2 = (jnp.where(apart, part, 0) for part in kernel.profile(u))
    return Tile(k, 2 * k1, 4 * k2, u)


def _rows(tree: Tree, start: Array, b: int) -> Tree:
    return jax.tree.map(lambda part: lax.dynamic_slice_in_dim(part, start, b), tree)


def _add_rows(tree: Tree, start: Array, rows: Tree) -> Tree:
    def add(part: Array, row: Array) -> Array:
        b = row.shape[0]
        return lax.dynamic_update_slice_in_dim(part, lax.dynamic_slice_in_dim(part, start, b) + row, start, 0)

    return jax.tree.map(add, tree, rows)
