"""G applied to features that are spread over devices: the blocks of rows travel round a ring, and
no device ever holds all rows.

Each device keeps its own rows and visits the blocks of the others one after another. Every W is
symmetric, so a meeting serves both sides: what is due to the visitors travels on with them, and
after half a round it is sent home. With P devices each computes its own block and (P − 1)/2 others,
which makes half of all pairs.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as Spec

from .._types import Array, Tree
from ..data.padding import TILE
from ..data.sharded import AXIS, Blocks
from ..kernels import AbstractRadial
from . import tiles
from .forms import AbstractFactored, AbstractForm, AbstractWay, Features, Full


class Ring(AbstractWay):
    """Every pair of the observations of all blocks."""

    blocks: Blocks

    def sums(self, form, kernel, sources, once):
        compute = _products if form.is_factored else _fields
        return _on_devices(compute, form, kernel, sources, self.blocks, once)


def _on_devices(
    compute: Callable,
    form: AbstractForm,
    kernel: AbstractRadial,
    rows: Tree,
    blocks: Blocks,
    once: bool,
) -> Tree:
    """Run compute(form, kernel, rows, counts, once) on each device with its own rows."""
    arrays, rest = eqx.partition((form, kernel), eqx.is_array)
    spread = lambda leaf: Spec(AXIS) if leaf.ndim == 2 else Spec()
    specs = jax.tree.map(spread, arrays[0]), jax.tree.map(lambda _: Spec(), arrays[1])

    def local(arrays: Tree, rows: Tree, counts: Array) -> Tree:
        form, kernel = eqx.combine(arrays, rest)
        return compute(form, kernel, rows, counts, once)

    # nothing is differentiated inside, so there is nothing for check_vma to check
    each = jax.shard_map(
        local,
        mesh=blocks.mesh,
        in_specs=(specs, Spec(AXIS), Spec()),
        out_specs=Spec(AXIS),
        check_vma=False,
    )
    return each(arrays, rows, jnp.asarray(blocks.counts))


def _products(
    form: AbstractFactored, kernel: AbstractRadial, sources: tuple, counts: Array, once: bool
) -> tuple:
    """W_q S_q at the rows of this device."""

    def meet(at_i: tuple, at_j: tuple) -> tuple:
        (points_i, sources_i), (points_j, sources_j) = at_i, at_j
        weights = form.weights(tiles.profile_on(kernel, points_i, points_j), points_i, points_j)
        to_i = tuple(w @ source for w, source in zip(weights, sources_j, strict=True))
        return to_i, tuple(source.T @ w for w, source in zip(weights, sources_i, strict=True))

    own = tiles.Tiles(counts[lax.axis_index(AXIS)]).sums(form, kernel, sources, once)
    due = tuple(jnp.zeros((source.shape[1], source.shape[0]), source.dtype) for source in sources)
    own, due = _round(meet, (form.points, sources), own, due, counts, axis=1)
    return jax.tree.map(lambda a, b: a + b.T, own, due)


def _fields(
    form: Full, kernel: AbstractRadial, phi: Features, counts: Array, once: bool
) -> Features:
    """G φ at the rows of this device, for a form without factors."""

    def meet(at_i: tuple, at_j: tuple) -> tuple:
        (points_i, phi_i), (points_j, phi_j) = at_i, at_j
        tile = tiles.profile_on(kernel, points_i, points_j)
        to_i = form.send(tile, points_i, points_j, phi_j)
        return to_i, form.send(tile.T, points_j, points_i, phi_i)

    own = tiles.Tiles(counts[lax.axis_index(AXIS)]).sums(form, kernel, phi, once)
    own, due = _round(meet, (form.points, phi), own, phi.zeros_like(), counts, axis=0)
    return jax.tree.map(jnp.add, own, due)


def _round(
    meet: Callable, mine: Tree, own: Tree, due: Tree, counts: Array, *, axis: int
) -> tuple[Tree, Tree]:
    """Sums over the rows of all other devices: those computed here, and those that other devices
    computed for this one.
    """
    P, me = counts.shape[0], lax.axis_index(AXIS)
    half = (P - 1) // 2

    def step(s: Array, state: tuple) -> tuple:
        visitors, own, due = state
        visitors, due = _pass_on((visitors, due), 1, P)
        own, due = _meet_visitors(
            meet, mine, visitors, own, due, counts[me], counts[(me - s) % P], axis
        )
        return visitors, own, due

    visitors, own, due = lax.fori_loop(1, half + 1, step, (mine, own, due))
    due = _pass_on(due, -half, P)
    if P % 2 == 0:  # opposite devices both compute their meeting, and each keeps its own side
        visitors, there = _pass_on(visitors, 1, P), counts[(me - P // 2) % P]
        own, _ = _meet_visitors(meet, mine, visitors, own, None, counts[me], there, axis)
    return own, due


def _pass_on(tree: Tree, steps: int, P: int) -> Tree:
    """Send arrays to the device this number of steps ahead, and receive those from behind."""
    if steps % P == 0:
        return tree
    return jax.tree.map(
        lambda part: lax.ppermute(part, AXIS, [(i, (i + steps) % P) for i in range(P)]), tree
    )


def _meet_visitors(
    meet: Callable, mine: Tree, visitors: Tree, own: Tree, due: Tree, n: Array, m: Array, axis: int
) -> tuple[Tree, Tree]:
    """Visit the tiles of own rows and visitors; add to `own`, and to `due` unless it is None."""
    rows = jax.tree.leaves(mine)[0].shape[0]
    b = rows if rows <= tiles.ROWS else TILE
    across = jnp.maximum((m + b - 1) // b, 1)

    def body(q: Array, sums: tuple) -> tuple:
        i, j = q // across * b, q % across * b
        to_i, to_j = meet(tiles.rows_of(mine, i, b), tiles.rows_of(visitors, j, b))
        own = tiles.add_rows(sums[0], i, to_i)
        return own, None if due is None else tiles.add_rows(sums[1], j, to_j, axis=axis)

    return lax.fori_loop(0, (n + b - 1) // b * ((m + b - 1) // b), body, (own, due))
