"""Rows spread over devices and hosts, and their statistics, which never need all rows on one device."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from .. import errors
from .._types import Tree
from . import reductions
from .kinds import as_floating, empty_sample, not_finite, standard_precision
from .rows import AbstractRows
from .sample import AXIS as AXIS
from .sample import Blocks as Blocks
from .sample import Sample
from .spaces import not_in_space


class Sharded(eqx.Module, AbstractRows):
    """n observations as rows, spread over devices in blocks of equal length, each padded at its end.

    `ms.shard` makes it from rows in memory, and `ms.fit` from a `jax.Array` that is sharded along
    its first axis.

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

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self.counts), *self.array.shape[1:])

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def local(self) -> np.ndarray:
        """The rows that this process holds."""
        parts = local_parts(self.mesh, self.array)
        counts = dict(zip(self.mesh.devices.flat, self.counts, strict=True))
        return np.concatenate([np.asarray(part.data)[: counts[part.device]] for part in parts])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self.array.is_fully_addressable:
            raise _not_here(self.shape)
        return self.local.astype(self.dtype if dtype is None else dtype)

    def __getitem__(self, numbers: Any) -> np.ndarray:
        """Return a few rows, by their numbers, in the memory of every host."""
        return self.look(reductions.take, self._positions(np.asarray(numbers)))

    def _positions(self, numbers: np.ndarray) -> np.ndarray:
        """Return the row of the padded array in which each of these observations is."""
        ends, length = np.cumsum(self.counts), self.array.shape[0] // self.mesh.size
        block = np.searchsorted(ends, numbers, side="right")
        return block * length + numbers - (ends - self.counts)[block]

    def on_host(self) -> np.ndarray:
        """Return every row, in the memory of every host.

        The rows are fetched in portions, so that no device ever holds them all.
        """
        portions = [np.arange(len(self))[i : i + _PORTION] for i in range(0, len(self), _PORTION)]
        return np.concatenate(
            [self[np.resize(rows, min(_PORTION, len(self)))][: len(rows)] for rows in portions]
        )

    def mean(self, axis: int = 0) -> np.ndarray:
        return self.look(reductions.mean)

    def var(self, axis: int = 0) -> np.ndarray:
        return self.look(reductions.variance)

    def min(self, axis: int = 0) -> np.ndarray:
        return self.look(reductions.minimum)

    def max(self, axis: int = 0) -> np.ndarray:
        return self.look(reductions.maximum)

    def median(self, about: Any = None) -> np.ndarray:
        """Return the exact median of each column, or of its distances from `about`, by bisection."""
        origin = np.zeros(self.shape[1]) if about is None else about
        return self.look(reductions.median, origin, np.asarray(about is not None))

    def gap(self, centre):
        return self.look(reductions.nearest, centre)

    def look(self, reduce: Callable, *arguments: Any) -> Any:
        """Return reduce(rows, observations, …), which must be small, as NumPy arrays on every host."""
        with jax.enable_x64(True), self.computing():
            return self.to_host(
                reductions.apply_reduction(reduce, self.array, self._blocks, arguments)
            )

    @property
    def _blocks(self) -> Blocks:
        return Blocks(np.asarray(self.counts), self.mesh)

    def to_host(self, tree: Tree) -> Tree:
        """Return arrays on these devices as NumPy arrays on every host."""
        whole = jax.jit(lambda part: part, out_shardings=NamedSharding(self.mesh, Spec()))
        alike = lambda part: part.is_fully_replicated or part.is_fully_addressable
        return jax.tree.map(lambda part: np.asarray(part if alike(part) else whole(part)), tree)

    def map(self, change: Callable) -> "Sharded":
        """Return the rows, each changed on its own device."""
        with jax.enable_x64(self.dtype == np.float64):
            return Sharded(change(self.array), self.counts, self.mesh)

    def flags(self, rows):
        with self.computing():
            return self.to_host(rows)[self._positions(np.arange(len(self)))]

    def check(self, space):
        rows = as_floating(self, space)
        if rows.size == 0:
            raise empty_sample(rows.shape)
        bad = rows._rows_that(lambda rows: ~jnp.isfinite(rows))
        if bad.any():
            raise not_finite(bad, ndim=2)
        bad = rows._rows_that(space.outside)
        if bad.any():
            raise not_in_space(errors.rows_text(bad), space)
        return rows.map(standard_precision)

    def _rows_that(self, test: Callable) -> np.ndarray:
        """Return, for each observation, whether any of its entries passes the test."""
        with jax.enable_x64(True):
            return self.flags(jnp.any(test(self.array), axis=1))

    def require_together(self, name):
        raise _one_device(name)

    def check_backend(self, name):
        if name != "tiles":
            raise _spread_backend(name)

    def sample(self):
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        centre = self.median().astype(dtype)
        return Sample(self.array.astype(dtype), np.asarray(len(self)), centre, self._blocks)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Explain an error that occurred because a process that holds some of the rows has ended."""
        try:
            yield
        except Exception as reason:
            shared = not self.array.is_fully_addressable
            if shared and any(word in str(reason) for word in _GONE):
                raise _process_lost(str(reason)) from reason
            raise

    def bring(self, result, by_rows):
        return result if by_rows else self.to_host(result)

    def rows_like(self, rows):
        return Sharded(rows, self.counts, self.mesh)


_PORTION = 1 << 16
"""Rows that are fetched at once."""


_GONE = (
    "Gloo",
    "gloo",
    "NCCL",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "Connection closed",
    "Connection reset",
)
"""Words in the error messages of collective operations from which a process is missing."""


def local_parts(mesh: Mesh, array: jax.Array) -> list:
    """Return the parts of an array that this process holds, in the order of the mesh."""
    parts = {part.device: part for part in array.addressable_shards}
    return [parts[device] for device in mesh.devices.flat if device in parts]


@errors.explained("many-machines.md")
def _not_here(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"These {shape[0]} rows are spread over several processes, and this one holds only some of them: x.local. "
        "x.on_host(), called by every process, returns all of them."
    )


@errors.explained("many-machines.md")
def _process_lost(reason: str) -> errors.ProcessLost:
    return errors.ProcessLost(
        "A process that holds some of the rows has ended or cannot be reached, so there is no result. Its own messages "
        f"say why; start all processes again. ({reason.splitlines()[0][:200]})"
    )


@errors.explained("many-machines.md")
def _one_device(name: str) -> TypeError:
    return TypeError(
        f"{name} is not computed on rows that are spread over devices. KSD and DKSD with a kernel of ms.kernels, DSM, "
        "SM and the sums over observations of discrete models are. Give x as a NumPy array for one device."
    )


@errors.explained("many-machines.md")
def _spread_backend(backend: str) -> ValueError:
    return ValueError(
        f'backend="{backend}" needs all rows in one place, but they are spread over devices, whose blocks meet in '
        "a ring of tiles. Leave backend out."
    )
