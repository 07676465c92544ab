"""Neighbouring states: log p(y) − log p(x) for every neighbour y of every observation x, and which y were observed."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from . import errors
from ._types import Array, LogDensity, Point
from .sample import Sample
from .spaces import AbstractDiscrete, Finite

_ENTRIES = 1 << 22
"""Coordinates of neighbours that are in memory at once."""


@runtime_checkable
class HasFlips(Protocol):
    """A model on two letters that knows log p(x with site i flipped) − log p(x) for all i of all rows at once."""

    def flips(self, x: Any, /) -> Any: ...


def log_ratios(model: LogDensity, space: AbstractDiscrete, sample: Sample) -> Float[Array, "N d a"]:
    """log p(y) − log p(x) for the states y that differ from x in one coordinate, shifted by each of `space.shifts`.

    By the model's own formula where it has one for two letters, else by evaluating it at every such state.
    """
    if isinstance(model, HasFlips) and isinstance(space, Finite) and len(space.values) == 2:
        return jnp.asarray(model.flips(sample.x))[..., None]

    def at(x: Point) -> Float[Array, "d a"]:
        here = model(x)

        def site(i: Array) -> Float[Array, " a"]:
            return jnp.stack([_log_ratio(model, space, x, here, i, k) for k in space.shifts])

        return jax.vmap(site)(jnp.arange(x.shape[0]))

    return _by_rows(at, sample, sample.x.shape[1] ** 2 * len(space.shifts))


def _log_ratio(model: LogDensity, space: AbstractDiscrete, x: Point, here: Array, i: Array, k: int) -> Array:
    """The ratio for coordinate i and shift k; −∞ for a state that is none."""
    there = space.shifted(x[i], k)
    inside = space.inside(there)
    y = jnp.asarray(x).at[i].set(jnp.where(inside, there, x[i]))
    return jnp.where(inside, model(y) - here, -jnp.inf)


def log_ratios_of(model: LogDensity, neighbours: Callable, sample: Sample) -> Float[Array, "N k"]:
    """log p(y) − log p(x) for the neighbours y of each row that a function gives."""
    at = lambda x: jax.vmap(model)(neighbours(x)) - model(x)
    return _by_rows(at, sample, jax.eval_shape(neighbours, sample.x[0]).size)


def _by_rows(fn: Callable, sample: Sample, entries: int) -> Array:
    """fn of each row, as many rows at a time as fit into memory; nothing is remembered for the gradient beyond it."""
    block = max(1, _ENTRIES // entries)
    return sample.by_rows(fn if block >= sample.x.shape[0] else jax.checkpoint(fn), sample.x, block)


def observed(
    space: AbstractDiscrete, neighbours: Callable | None, x: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n k"]]:
    """How often each row of x is observed, and how often each of its neighbours.

    States are told apart by a random linear hash modulo 2⁶⁴, which for a neighbour changes by one term.
    """
    codes = _codes(space, x)
    w = np.random.default_rng(0).integers(0, 1 << 63, x.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = codes @ w
    found, counts = np.unique(keys, return_counts=True)

    def count(queries: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(found, queries), len(found) - 1)
        return np.where(found[place] == queries, counts[place], 0).astype(x.dtype)

    if neighbours is not None:
        blocks = np.array_split(np.arange(len(x)), -(-len(x) * x.shape[1] ** 2 // _ENTRIES))
        states = jax.jit(jax.vmap(neighbours))
        return count(keys), np.concatenate([count(_codes(space, np.asarray(states(x[rows]))) @ w) for rows in blocks])
    shifted = (_codes(space, np.asarray(space.shifted(jnp.asarray(x), k))) for k in space.shifts)
    columns = [count(keys[:, None] + (there - codes) * w) for there in shifted]
    return count(keys), np.stack(columns, axis=2).reshape(len(x), -1)


def _codes(space: AbstractDiscrete, x: np.ndarray) -> np.ndarray:
    whole = np.asarray(space.codes(jnp.asarray(x))) if isinstance(space, Finite) else x
    return whole.astype(np.int64).astype(np.uint64)


def check_neighbours(neighbours: Callable, x: np.ndarray) -> None:
    """Raise where x is not a neighbour of one of its neighbours, or is one of itself; looks at a few rows."""
    shape = jax.eval_shape(neighbours, x[0]).shape
    if len(shape) != 2 or shape[1] != x.shape[1]:
        raise errors.bad_neighbours(shape, x.shape[1])
    for row in x[:4]:
        around = np.asarray(neighbours(jnp.asarray(row)))
        if (around == row).all(axis=1).any():
            raise errors.asymmetric_neighbours("a state is its own neighbour")
        for y in around:
            back = np.asarray(neighbours(jnp.asarray(y)))
            if not (back == row).all(axis=1).any():
                raise errors.asymmetric_neighbours("y is a neighbour of x, but x is none of y")
