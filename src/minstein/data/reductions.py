"""Statistics of columns whose rows are spread over devices, computed on those devices."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

from .._types import Array, Tree
from .compiling import compiled
from .sample import Blocks


@compiled
def apply_reduction(reduce: Callable, array: Array, blocks: Blocks, arguments: tuple) -> Tree:
    """Return reduce(rows, observations, …), replicated on every device."""
    found = reduce(array, blocks.real(array.shape[0]), *arguments)
    return jax.tree.map(
        lambda part: lax.with_sharding_constraint(part, NamedSharding(blocks.mesh, Spec())), found
    )


def take(rows: Array, real: Array, positions: Array) -> Array:
    return rows[positions]


def mean(rows: Array, real: Array) -> Array:
    return jnp.mean(rows.astype(jnp.float64), axis=0, where=real[:, None])


def variance(rows: Array, real: Array) -> Array:
    return jnp.var(rows.astype(jnp.float64), axis=0, where=real[:, None])


def minimum(rows: Array, real: Array) -> Array:
    return jnp.min(rows, axis=0, where=real[:, None], initial=jnp.inf)


def maximum(rows: Array, real: Array) -> Array:
    return jnp.max(rows, axis=0, where=real[:, None], initial=-jnp.inf)


def nearest(rows: Array, real: Array, centre: Array) -> Array:
    """Return the smallest non-zero distance from the centre in each column."""
    gaps = jnp.abs(rows - centre)
    return jnp.min(gaps, axis=0, where=real[:, None] & (gaps > 0), initial=jnp.inf)


def median(rows: Array, real: Array, about: Array, absolute: Array) -> Array:
    values = rows.astype(jnp.float64)
    keys = _ordered(jnp.where(absolute, jnp.abs(values - about), values))
    n = jnp.sum(real)
    middle = [_value(_order_statistic(keys, real, rank)) for rank in ((n + 1) // 2, n // 2 + 1)]
    return (middle[0] + middle[1]) / 2


_SIGN = np.uint64(1 << 63)


def _ordered(values: Array) -> Array:
    """Return whole numbers in the same order as the values."""
    bits = lax.bitcast_convert_type(values + 0.0, jnp.uint64)
    return jnp.where(bits & _SIGN != 0, ~bits, bits | _SIGN)


def _value(key: Array) -> Array:
    return lax.bitcast_convert_type(jnp.where(key & _SIGN != 0, key ^ _SIGN, ~key), jnp.float64)


def _order_statistic(keys: Array, real: Array, rank: Array) -> Array:
    """Return the rank-th smallest number of each column, counted from 1.

    Its bits are found one by one, from the highest.
    """

    def bit(i: Array, prefix: Array) -> Array:
        trial = prefix | (_SIGN >> i.astype(jnp.uint64))
        below = jnp.sum((keys < trial) & real[:, None], axis=0)
        return jnp.where(below < rank, trial, prefix)

    return lax.fori_loop(0, 64, bit, jnp.zeros(keys.shape[1], jnp.uint64))
