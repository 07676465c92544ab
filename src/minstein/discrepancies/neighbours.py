"""Log-ratios log p(y) − log p(x) for the neighbours y of each observation x."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity, Point
from ..data.sample import Sample
from ..data.spaces import AbstractDiscrete, Finite
from ..stein.operator import check_density

_ENTRIES = 1 << 22
"""The most coordinates of neighbours in memory at once: 32 MB in float64."""


@runtime_checkable
class HasFlips(Protocol):
    """A model on two letters with a formula for the log-ratios of all single flips.

    `flips(x)` is log p(x with coordinate i flipped) − log p(x) for all i of all rows at once.
    """

    def flips(self, x: Any, /) -> Any: ...


def log_ratios(model: LogDensity, space: AbstractDiscrete, sample: Sample) -> Float[Array, "N d a"]:
    """log p(y) − log p(x) for the states y that differ from x in one coordinate.

    That coordinate is shifted by each of `space.shifts`. On two letters the model's own formula is
    used if it has one; otherwise the model is evaluated at every such state.
    """
    if isinstance(model, HasFlips) and len(space.shifts) == 1:
        return jnp.asarray(model.flips(sample.x))[..., None]

    def at(x: Point) -> Float[Array, "d a"]:
        check_density(model, x)
        here = model(x)

        def site(i: Array) -> Float[Array, " a"]:
            return jnp.stack([_log_ratio(model, space, x, here, i, k) for k in space.shifts])

        return jax.vmap(site)(jnp.arange(x.shape[0]))

    return _map_rows(at, sample, sample.x.shape[1] ** 2 * len(space.shifts))


def _log_ratio(
    model: LogDensity, space: AbstractDiscrete, x: Point, here: Array, i: Array, k: int
) -> Array:
    """The log-ratio for coordinate i and shift k; −∞ if the shifted state is outside the space."""
    there = space.shifted(x[i], k)
    inside = space.inside(there)
    y = jnp.asarray(x).at[i].set(jnp.where(inside, there, x[i]))
    return jnp.where(inside, model(y) - here, -jnp.inf)


def log_ratios_of(model: LogDensity, neighbours: Callable, sample: Sample) -> Float[Array, "N k"]:
    """log p(y) − log p(x) for the neighbours y of each row x, given by a function."""
    check_density(model, sample.x[0])
    at = lambda x: jax.vmap(model)(neighbours(x)) - model(x)
    return _map_rows(at, sample, jax.eval_shape(neighbours, sample.x[0]).size)


def _map_rows(fn: Callable, sample: Sample, entries: int) -> Array:
    """fn of each row, in blocks that fit into memory; a gradient recomputes each block."""
    block = max(1, _ENTRIES // entries)
    return sample.by_rows(fn if block >= sample.x.shape[0] else jax.checkpoint(fn), sample.x, block)


def count_observed(
    space: AbstractDiscrete, neighbours: Callable | None, x: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n k"]]:
    """Count how often each row of x and each of its neighbours occurs in x.

    States are identified by a random linear hash modulo 2⁶⁴, of which one term changes from a state
    to its neighbour.
    """
    codes = _codes(space, x)
    w = np.random.default_rng(0).integers(0, 1 << 63, x.shape[1], dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    keys = codes @ w
    found, counts = np.unique(keys, return_counts=True)

    def count(queries: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(found, queries), len(found) - 1)
        return np.where(found[place] == queries, counts[place], 0).astype(x.dtype)

    if neighbours is not None:
        blocks = np.array_split(np.arange(len(x)), -(-len(x) * x.shape[1] ** 2 // _ENTRIES))
        states = jax.jit(jax.vmap(neighbours))
        return count(keys), np.concatenate(
            [count(_codes(space, np.asarray(states(x[rows]))) @ w) for rows in blocks]
        )
    shifted = (_codes(space, np.asarray(space.shifted(jnp.asarray(x), k))) for k in space.shifts)
    columns = [count(keys[:, None] + (there - codes) * w) for there in shifted]
    return count(keys), np.stack(columns, axis=2).reshape(len(x), -1)


def _codes(space: AbstractDiscrete, x: np.ndarray) -> np.ndarray:
    whole = np.asarray(space.codes(jnp.asarray(x))) if isinstance(space, Finite) else x
    return whole.astype(np.int64).astype(np.uint64)


def check_neighbours(neighbours: Callable, x: np.ndarray) -> None:
    """Raise unless the neighbourhood is symmetric and no state is its own neighbour.

    Only some of the distinct states are checked. A neighbour listed twice has twice the rate, and
    must then be listed twice in the other direction too.
    """
    shape = jax.eval_shape(neighbours, x[0]).shape
    if len(shape) != 2 or shape[1] != x.shape[1]:
        raise _bad_neighbours(shape, x.shape[1])
    rows = np.unique(x, axis=0)
    rows = rows[
        np.linspace(
            0, len(rows) - 1, min(len(rows), max(1, _ENTRIES_CHECKED // shape[0] ** 2))
        ).astype(int)
    ]
    around = np.asarray(jax.vmap(neighbours)(jnp.asarray(rows)))
    back = np.asarray(jax.vmap(jax.vmap(neighbours))(jnp.asarray(around)))
    if (around == rows[:, None]).all(axis=2).any():
        raise _asymmetric_neighbours("a state is its own neighbour")
    there = (around[:, :, None] == around[:, None, :]).all(axis=3).sum(axis=2)
    returns = (back == rows[:, None, None]).all(axis=3).sum(axis=2)
    if (returns == 0).any():
        raise _asymmetric_neighbours("y is a neighbour of x, but x is not a neighbour of y")
    if (there != returns).any():
        raise _asymmetric_neighbours(
            "y is listed more often among the neighbours of x than x among those of y"
        )


_ENTRIES_CHECKED = 1 << 12
"""The most neighbours of neighbours to check over all states, except that at least one state is
always checked. It keeps the check cheap; a rule that is not symmetric shows in almost any state.
"""


@errors.explained("discrete.md")
def _bad_neighbours(shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"neighbours(x) must return states of shape (k, {d}) for one x of shape ({d},), got {shape}."
    )


@errors.explained("discrete.md")
def _asymmetric_neighbours(what: str) -> ValueError:
    return ValueError(
        f"The neighbourhood is not symmetric: {what}. Probability must be able to flow both ways between neighbours, "
        "because otherwise the flow does not vanish at the truth."
    )
