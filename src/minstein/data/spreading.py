"""Spreading rows over the devices of one or several processes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from .. import errors
from .._types import Array, is_traced
from .kinds import empty_sample, wrong_shape
from .padding import bucket, pad
from .sample import AXIS
from .sharded import Sharded, local_parts


def shard(x: Any, devices: Sequence[Any] | None = None) -> Sharded:
    """Spread rows over devices. If there are several processes, each passes its own rows.

    Any number of rows is allowed: blocks are padded, and padding does not contribute to results.
    The rows of all processes follow one another in the order of the processes.

    Args:
        x: the rows of this process, of shape (n, d) or (n,).
        devices: the devices to use, in order; all of JAX's by default. A process puts its rows on
            its own devices.

    >>> x = ms.shard(np.array([1.2, -0.3, 0.4, 2.2, 0.9, 1.7, -5.0, 0.6]))
    >>> x.shape, float(np.asarray(x).sum().round(6))
    ((8, 1), 1.7)
    """
    rows = np.asarray(x)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise wrong_shape(rows.shape)
    mesh = Mesh(np.asarray(jax.devices() if devices is None else list(devices)), (AXIS,))
    parts = np.array_split(rows, len(_own_devices(mesh)))
    counts = _count_rows(mesh, parts)
    filler = _first_row(mesh, parts, counts)
    size = bucket(max(counts))
    fill = lambda part: np.concatenate(
        [part, np.broadcast_to(filler, (size - len(part), len(filler)))]
    )
    with jax.enable_x64(True):
        blocks = [fill(part).astype(rows.dtype) for part in parts]
        return Sharded(_global(mesh, blocks), tuple(counts), mesh)


def _own_devices(mesh: Mesh) -> list:
    """Return the devices of the mesh that belong to this process."""
    return [device for device in mesh.devices.flat if device.process_index == jax.process_index()]


def _count_rows(mesh: Mesh, parts: list[np.ndarray]) -> list[int]:
    """Return the number of rows on each device; raise if their kinds differ or there are none."""
    d, kind = parts[0].shape[1], parts[0].dtype.num
    shared = _share(mesh, [(len(part), d, kind) for part in parts])
    if len({(d, kind) for _, d, kind in shared}) > 1:
        raise _blocks_differ(sorted({int(d) for _, d, _ in shared}))
    counts = [int(count) for count, _, _ in shared]
    if sum(counts) == 0:
        raise empty_sample((0, d))
    return counts


def _first_row(mesh: Mesh, parts: list[np.ndarray], counts: list[int]) -> np.ndarray:
    """Return the first row of all, copies of which pad the blocks."""
    none = np.zeros_like(parts[0], shape=parts[0].shape[1])
    first = _share(mesh, [part[0] if len(part) else none for part in parts])
    return first[int(np.flatnonzero(counts)[0])]


def _global(mesh: Mesh, blocks: list[np.ndarray]) -> Any:
    """Return the blocks that the processes hold as one array, spread over their devices."""
    places = zip(blocks, _own_devices(mesh), strict=True)
    there = [jax.device_put(block, device) for block, device in places]
    shape = (blocks[0].shape[0] * mesh.size, *blocks[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, Spec(AXIS)), there)


def _share(mesh: Mesh, facts: list) -> np.ndarray:
    """Return the rows of numbers of all devices, given those of this process's devices."""
    with jax.enable_x64(True):
        rows = _global(mesh, [np.asarray(fact)[None] for fact in facts])
        return np.asarray(
            jax.jit(lambda rows: rows, out_shardings=NamedSharding(mesh, Spec()))(rows)
        )


def is_spread(x: Any) -> bool:
    """Whether x is an array with different parts on different devices."""
    return (
        isinstance(x, jax.Array)
        and not is_traced(x)
        and len(x.sharding.device_set) > 1
        and not x.is_fully_replicated
    )


def as_sharded(x: jax.Array) -> Sharded:
    """Return a sharded array as rows, each block padded on its own device."""
    where = x.sharding.devices_indices_map(x.shape)
    begin = {device: index[0].start or 0 for device, index in where.items()}
    whole = all(
        part in (slice(None), slice(0, size))
        for index in where.values()
        for part, size in zip(index[1:], x.shape[1:], strict=True)
    )
    if not whole or len(set(begin.values())) < len(begin) or x.ndim not in (1, 2):
        raise _not_by_rows(x.shape, len(begin))
    mesh = Mesh(np.asarray(sorted(begin, key=lambda device: begin[device])), (AXIS,))
    length = x.shape[0] // mesh.size
    with jax.enable_x64(x.dtype.itemsize == 8):
        parts = [part.data.reshape(length, -1) for part in local_parts(mesh, x)]
        rows = (x.shape[0], parts[0].shape[1])
        array = jax.make_array_from_single_device_arrays(
            rows, NamedSharding(mesh, Spec(AXIS)), parts
        )
        return Sharded(_pad_blocks(array, mesh), (length,) * mesh.size, mesh)


@partial(jax.jit, static_argnums=1)
def _pad_blocks(array: Array, mesh: Mesh) -> Array:
    pad_block = lambda block: pad(block, bucket(len(block)))
    return jax.shard_map(pad_block, mesh=mesh, in_specs=Spec(AXIS), out_specs=Spec(AXIS))(array)


@errors.explained("many-machines.md")
def _not_by_rows(shape: tuple[int, ...], devices: int) -> ValueError:
    return ValueError(
        f"x has shape {shape} and is spread over {devices} devices, but not by rows with each row on one device. "
        "Spread it again: ms.shard(rows), or jax.device_put(x, NamedSharding(mesh, PartitionSpec('rows'))) with a mesh "
        "of one axis."
    )


@errors.explained("many-machines.md")
def _blocks_differ(columns: list[int]) -> ValueError:
    return ValueError(
        f"The processes passed rows of different kinds: with {', '.join(map(str, columns))} columns, and perhaps of "
        "different types. Each process must pass ms.shard the same columns, with the same type."
    )
