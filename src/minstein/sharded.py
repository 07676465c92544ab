"""Observations spread over devices and hosts, and what can be known of them while no device holds them all."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxtyping import Bool, Float, Int

from . import errors
from ._types import Array, Tree, is_traced
from .disk import OnDisk
from .padding import bucket

AXIS = "rows"
"""The axis of the mesh, along which the rows are spread."""


class Blocks(eqx.Module):
    """How many rows of each device's block are observations; the rest of a block is padding."""

    counts: Int[Array, " P"]
    mesh: Mesh = eqx.field(static=True)

    def real(self, rows: int) -> Bool[Array, " N"]:
        """True for observations, False for padding."""
        inside = jnp.arange(rows // self.mesh.size) < self.counts[:, None]
        return self.spread(inside.reshape(-1))

    def numbers(self, rows: int) -> Int[Array, " N"]:
        """The number of the observation in each row."""
        before = jnp.cumsum(self.counts) - self.counts
        return self.spread((before[:, None] + jnp.arange(rows // self.mesh.size)).reshape(-1))

    def beside(self, rows: Array, more: Array) -> Array:
        """Rows with the same further rows at the end of each block."""
        append = lambda rows, more: jnp.concatenate([rows, more])
        return jax.shard_map(append, mesh=self.mesh, in_specs=(Spec(AXIS), Spec()), out_specs=Spec(AXIS))(rows, more)

    def spread(self, rows: Array) -> Array:
        """Rows, kept apart on the devices."""
        return lax.with_sharding_constraint(rows, NamedSharding(self.mesh, Spec(AXIS)))


class Sharded(eqx.Module):
    """n observations as rows, spread over devices in blocks of equal length; the end of each block is padding.

    `ms.shard` makes it from rows in memory, `ms.fit` from a `jax.Array` that is sharded along its first axis.

    >>> x = ms.shard(np.arange(10.0).reshape(5, 2))
    >>> x.shape, x.on_host().sum(0).tolist()
    ((5, 2), [20.0, 25.0])
    """

    array: Any
    counts: tuple[int, ...] = eqx.field(static=True)
    mesh: Mesh = eqx.field(static=True)

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<{n} rows of {d} columns on {self.mesh.size} devices>"

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.array.shape[1:])

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def local(self) -> np.ndarray:
        """The rows that this process has."""
        parts = _in_order(self.mesh, self.array)
        counts = dict(zip(self.mesh.devices.flat, self.counts, strict=True))
        return np.concatenate([np.asarray(part.data)[: counts[part.device]] for part in parts])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self.array.is_fully_addressable:
            raise errors.not_here(self.shape)
        return self.local.astype(self.dtype if dtype is None else dtype)

    def __getitem__(self, numbers: Any) -> np.ndarray:
        """A few rows, by their numbers, in the memory of every host."""
        return self.look(_taken, self.positions(np.asarray(numbers)))

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Where observations stand among the rows of the array."""
        ends = np.cumsum(self.counts)
        block = np.searchsorted(ends, numbers, side="right")
        return block * (self.array.shape[0] // self.mesh.size) + numbers - (ends - self.counts)[block]

    def on_host(self) -> np.ndarray:
        """Every row in the memory of every host, a portion at a time, so that no device ever holds them all."""
        portions = [np.arange(len(self))[i : i + _PORTION] for i in range(0, len(self), _PORTION)]
        return np.concatenate([self[np.resize(rows, min(_PORTION, len(self)))][: len(rows)] for rows in portions])

    def mean(self, axis: int = 0) -> np.ndarray:
        return self.look(_mean)

    def var(self, axis: int = 0) -> np.ndarray:
        return self.look(_variance)

    def std(self, axis: int = 0) -> np.ndarray:
        return np.sqrt(self.var())

    def min(self, axis: int = 0) -> np.ndarray:
        return self.look(_minimum)

    def max(self, axis: int = 0) -> np.ndarray:
        return self.look(_maximum)

    def median(self, about: Any = None) -> np.ndarray:
        """The median of each column, or of the distances of its entries from `about`: exact, by bisection."""
        return self.look(_median, np.zeros(self.shape[1]) if about is None else about, np.asarray(about is not None))

    def look(self, reduce: Callable, *arguments: Any) -> Any:
        """reduce(rows, observations, …), which must be small, as NumPy arrays on every host."""
        with jax.enable_x64(True), together(self):
            blocks = Blocks(np.asarray(self.counts), self.mesh)
            return self.known(_looked(reduce, self.array, blocks, arguments))

    def known(self, tree: Tree) -> Tree:
        """Arrays on these devices as NumPy arrays on every host."""
        whole = jax.jit(lambda part: part, out_shardings=NamedSharding(self.mesh, Spec()))
        alike = lambda part: part.is_fully_replicated or part.is_fully_addressable
        return jax.tree.map(lambda part: np.asarray(part if alike(part) else whole(part)), tree)

    def map(self, change: Callable) -> "Sharded":
        """Rows changed one by one, where they are."""
        with jax.enable_x64(self.dtype == np.float64):
            return Sharded(change(self.array), self.counts, self.mesh)

    def flags(self, rows: Any) -> np.ndarray:
        """A flag for each row of the array, as one for each observation on every host."""
        kept = np.concatenate([np.arange(count) + i * (rows.shape[0] // self.mesh.size) for i, count in self._each()])
        with together(self):
            return self.known(rows)[kept]

    def _each(self) -> Any:
        return enumerate(self.counts)


Data = Float[Array | Sharded, "n d"]
"""Observations as rows, on one device or spread over several."""

AnyData = Float[Array | Sharded | OnDisk, "n d"]
"""Those, or observations that stay on disk."""

_PORTION = 1 << 16
"""Rows that are brought to the hosts at once."""


def shard(x: Any, devices: Sequence[Any] | None = None) -> Sharded:
    """Spread rows over devices; with several processes, each gives its own rows, in the order of the processes.

    Any number of rows will do: blocks are filled up with padding, which counts nothing.

    Args:
        x: the rows of this process, of shape (n, d) or (n,).
        devices: those to spread them over, in order; all of JAX's if not given. A process gives rows to its own.

    >>> x = ms.shard(np.array([1.2, -0.3, 0.4, 2.2, 0.9, 1.7, -5.0, 0.6]))
    >>> x.shape, float(np.asarray(x).sum().round(6))
    ((8, 1), 1.7)
    """
    rows = np.asarray(x)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise errors.wrong_shape(rows.shape)
    mesh = Mesh(np.asarray(jax.devices() if devices is None else list(devices)), (AXIS,))
    own = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    parts = np.array_split(rows, len(own))
    told = _told(mesh, [(len(part), rows.shape[1], rows.dtype.num) for part in parts])
    if len({(d, kind) for _, d, kind in told}) > 1:
        raise errors.blocks_differ(sorted({int(d) for _, d, _ in told}))
    counts = [int(count) for count, _, _ in told]
    if sum(counts) == 0:
        raise errors.empty_sample((0, rows.shape[1]))
    first = _told(mesh, [part[0] if len(part) else np.zeros_like(rows, shape=rows.shape[1]) for part in parts])
    filler = first[int(np.flatnonzero(counts)[0])]
    size = bucket(max(counts))
    with jax.enable_x64(True):
        blocks = [np.concatenate([part, np.broadcast_to(filler, (size - len(part), len(filler)))]) for part in parts]
        return Sharded(_global(mesh, [block.astype(rows.dtype) for block in blocks]), tuple(counts), mesh)


@contextlib.contextmanager
def together(x: Any) -> Iterator[None]:
    """What is said when a process that has some of the rows has gone."""
    try:
        yield
    except Exception as reason:
        gone = isinstance(x, Sharded) and not x.array.is_fully_addressable
        if gone and any(word in str(reason) for word in _GONE):
            raise errors.process_lost(str(reason)) from reason
        raise


_GONE = ("Gloo", "gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Connection closed", "Connection reset")
"""What the messages have in common of collective operations in which a process does not take part."""


def _global(mesh: Mesh, blocks: list[np.ndarray]) -> Any:
    """One array of the blocks that each process has for its devices."""
    own = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    there = [jax.device_put(block, device) for block, device in zip(blocks, own, strict=True)]
    shape = (blocks[0].shape[0] * mesh.size, *blocks[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, Spec(AXIS)), there)


def _told(mesh: Mesh, facts: list) -> np.ndarray:
    """A row of numbers from each device, known to every process."""
    with jax.enable_x64(True):
        rows = _global(mesh, [np.asarray(fact)[None] for fact in facts])
        return np.asarray(jax.jit(lambda rows: rows, out_shardings=NamedSharding(mesh, Spec()))(rows))


def is_spread(x: Any) -> bool:
    """Whether x is an array whose parts are on different devices."""
    return (
        isinstance(x, jax.Array) and not is_traced(x) and len(x.sharding.device_set) > 1 and not x.is_fully_replicated
    )


def as_sharded(x: jax.Array) -> Sharded:
    """A sharded array as it lies, each block padded where it is."""
    where = x.sharding.devices_indices_map(x.shape)
    begin = {device: index[0].start or 0 for device, index in where.items()}
    whole = all(part in (slice(None), slice(0, size)) for index in where.values() for part, size in _columns(index, x))
    if not whole or len(set(begin.values())) < len(begin) or x.ndim not in (1, 2):
        raise errors.not_by_rows(x.shape, len(begin))
    mesh = Mesh(np.asarray(sorted(begin, key=lambda device: begin[device])), (AXIS,))
    length = x.shape[0] // mesh.size
    with jax.enable_x64(x.dtype.itemsize == 8):
        parts = [part.data.reshape(length, -1) for part in _in_order(mesh, x)]
        rows = (x.shape[0], parts[0].shape[1])
        array = jax.make_array_from_single_device_arrays(rows, NamedSharding(mesh, Spec(AXIS)), parts)
        return Sharded(_padded(array, mesh), (length,) * mesh.size, mesh)


def _columns(index: tuple, x: jax.Array) -> Any:
    return zip(index[1:], x.shape[1:], strict=True)


def _in_order(mesh: Mesh, array: jax.Array) -> list:
    """The parts of an array that this process has, as the mesh orders their devices."""
    parts = {part.device: part for part in array.addressable_shards}
    return [parts[device] for device in mesh.devices.flat if device in parts]


@partial(jax.jit, static_argnums=1)
def _padded(array: Array, mesh: Mesh) -> Array:
    def pad(block: Array) -> Array:
        return jnp.concatenate([block, jnp.broadcast_to(block[:1], (bucket(len(block)) - len(block), block.shape[1]))])

    return jax.shard_map(pad, mesh=mesh, in_specs=Spec(AXIS), out_specs=Spec(AXIS))(array)


# Reductions


@eqx.filter_jit
def _looked(reduce: Callable, array: Array, blocks: Blocks, arguments: tuple) -> Tree:
    found = reduce(array, blocks.real(array.shape[0]), *arguments)
    return jax.tree.map(lambda part: lax.with_sharding_constraint(part, NamedSharding(blocks.mesh, Spec())), found)


def _taken(rows: Array, real: Array, positions: Array) -> Array:
    return rows[positions]


def _mean(rows: Array, real: Array) -> Array:
    return jnp.mean(rows.astype(jnp.float64), axis=0, where=real[:, None])


def _variance(rows: Array, real: Array) -> Array:
    return jnp.var(rows.astype(jnp.float64), axis=0, where=real[:, None])


def _minimum(rows: Array, real: Array) -> Array:
    return jnp.min(rows, axis=0, where=real[:, None], initial=jnp.inf)


def _maximum(rows: Array, real: Array) -> Array:
    return jnp.max(rows, axis=0, where=real[:, None], initial=-jnp.inf)


def nearest(rows: Array, real: Array, centre: Array) -> Array:
    """The smallest distance from the centre that is not zero, of each column."""
    gaps = jnp.abs(rows - centre)
    return jnp.min(gaps, axis=0, where=real[:, None] & (gaps > 0), initial=jnp.inf)


def _median(rows: Array, real: Array, about: Array, absolute: Array) -> Array:
    values = rows.astype(jnp.float64)
    keys = _ordered(jnp.where(absolute, jnp.abs(values - about), values))
    n = jnp.sum(real)
    middle = [_value(_order_statistic(keys, real, rank)) for rank in ((n + 1) // 2, n // 2 + 1)]
    return (middle[0] + middle[1]) / 2


_SIGN = np.uint64(1 << 63)


def _ordered(values: Array) -> Array:
    """Whole numbers in the same order as the values."""
    bits = lax.bitcast_convert_type(values + 0.0, jnp.uint64)
    return jnp.where(bits & _SIGN != 0, ~bits, bits | _SIGN)


def _value(key: Array) -> Array:
    return lax.bitcast_convert_type(jnp.where(key & _SIGN != 0, key ^ _SIGN, ~key), jnp.float64)


def _order_statistic(keys: Array, real: Array, rank: Array) -> Array:
    """The rank-th smallest of each column, the first being 1: its bits one by one, from the highest."""

    def bit(i: Array, prefix: Array) -> Array:
        trial = prefix | (_SIGN >> i.astype(jnp.uint64))
        below = jnp.sum((keys < trial) & real[:, None], axis=0)
        return jnp.where(below < rank, trial, prefix)

    return lax.fori_loop(0, 64, bit, jnp.zeros(keys.shape[1], jnp.uint64))
