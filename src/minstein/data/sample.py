"""A sample in the form that computations use: padded rows, all at once or block by block."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxtyping import Bool, Float, Int, Shaped

from .._types import Array, Scalar, Tree
from .padding import TILE as TILE
from .padding import bucket as bucket
from .padding import pad

SORTED = 16384
"""Observations of one variable are sorted if there are at least this many rows, because pair sums can
then use their order.
"""


AXIS = "rows"
"""The name of the mesh axis along which the rows are spread."""


class Blocks(eqx.Module):
    """The number of observations in each device's block; the rest of a block is padding."""

    counts: Int[Array, " P"]
    mesh: Mesh = eqx.field(static=True)

    def real(self, rows: int) -> Bool[Array, " N"]:
        """Return True for observations and False for padding."""
        inside = jnp.arange(rows // self.mesh.size) < self.counts[:, None]
        return self.spread(inside.reshape(-1))

    def numbers(self, rows: int) -> Int[Array, " N"]:
        """Return the number of the observation in each row."""
        before = jnp.cumsum(self.counts) - self.counts
        return self.spread((before[:, None] + jnp.arange(rows // self.mesh.size)).reshape(-1))

    def beside(self, rows: Array, more: Array) -> Array:
        """Return the rows with the same further rows appended to each block."""
        append = lambda rows, more: jnp.concatenate([rows, more])
        return jax.shard_map(
            append, mesh=self.mesh, in_specs=(Spec(AXIS), Spec()), out_specs=Spec(AXIS)
        )(rows, more)

    def spread(self, rows: Array) -> Array:
        """Return the rows, each block on its own device."""
        return lax.with_sharding_constraint(rows, NamedSharding(self.mesh, Spec(AXIS)))


class Sample(eqx.Module):
    """n observations as the rows of x, padded with copies of the first row to a size N ≥ n.

    Attributes:
        x: the padded rows.
        n: the number of observations.
        centre: their median; differences of coordinates keep more digits when it is subtracted first.
        blocks: how rows that are spread over devices are divided; each block has its own padding.
        order: the indices of the rows in ascending order, for large samples of one variable.
        first: index of the first row, for a block read from disk.
    """

    all_at_once: ClassVar[bool] = True
    """Whether every row is in memory while the loss is computed."""

    x: Float[Array, "N d"]
    n: Int[Array, ""]
    centre: Float[Array, " d"]
    blocks: Blocks | None = None
    order: Int[Array, " N"] | None = None
    first: Int[Array, ""] | None = None

    @property
    def real(self) -> Bool[Array, " N"]:
        """True for observations, False for padding."""
        rows = self.x.shape[0]
        return jnp.arange(rows) < self.n if self.blocks is None else self.blocks.real(rows)

    @property
    def numbers(self) -> Int[Array, " N"]:
        """The index of the observation in each row."""
        rows = self.x.shape[0]
        if self.first is not None:
            return self.first + jnp.arange(rows)
        return jnp.arange(rows) if self.blocks is None else self.blocks.numbers(rows)

    @property
    def extent(self) -> "Int[Array, ''] | Blocks":
        """Which rows are observations: n if the first n are, or the blocks and their counts."""
        return self.n if self.blocks is None else self.blocks

    def by_rows(self, fn: Callable, rows: Tree, block: int) -> Array:
        """Return fn of each row, computed for `block` rows at a time on each device to save memory."""
        devices, length = self._division
        if block >= length:
            return jax.vmap(fn)(rows)
        if devices == 1:
            return lax.map(fn, rows, batch_size=block)
        abreast = jax.tree.map(
            lambda part: jnp.moveaxis(part.reshape(devices, length, *part.shape[1:]), 0, 1), rows
        )
        found = jnp.moveaxis(lax.map(jax.vmap(fn), abreast, batch_size=block), 1, 0)
        return found.reshape(self.x.shape[0], *found.shape[2:])

    @property
    def _division(self) -> tuple[int, int]:
        """The number of devices, and of rows on each."""
        devices = 1 if self.blocks is None else self.blocks.mesh.size
        return devices, self.x.shape[0] // devices

    @property
    def size(self) -> Float[Array, ""]:
        """n as a floating-point number of the working precision."""
        return jnp.asarray(self.n, self.x.dtype)

    @property
    def largest(self) -> Scalar:
        """The largest absolute value."""
        return jnp.max(jnp.abs(self.x))

    @property
    def deviation(self) -> Scalar:
        """The root mean square distance from the centre."""
        return jnp.sqrt(jnp.sum(self.zero_padding((self.x - self.centre) ** 2)) / self.size)

    def with_points(self, z: Float[Array, "k d"]) -> "tuple[Sample, Bool[Array, ' M'], slice]":
        """Return a sample with further points, which of its rows are observations of this one, and
        the rows in which the points are.

        If the rows are spread over devices, each device holds all the further points.
        """
        _, length = self._division
        extra, place = pad(z, bucket(length + len(z)) - length), slice(length, length + len(z))
        if self.blocks is None:
            x, blocks = jnp.concatenate([self.x, extra]), None
            real = jnp.arange(len(x)) < self.n
        else:
            x, counts = self.blocks.beside(self.x, extra), self.blocks.counts
            blocks = Blocks(jnp.full_like(counts, length + len(extra)), self.blocks.mesh)
            real = self.blocks.real(len(x))
        return Sample(x, jnp.asarray(len(x)), self.centre, blocks), real, place

    def in_place(self, rows: Shaped[Array, "N *r"]) -> Shaped[Array, "N *r"]:
        """Return rows, each placed on the device of its observation."""
        return rows if self.blocks is None else self.blocks.spread(rows)

    def zero_padding(self, rows: Float[Array, "N *r"]) -> Float[Array, "N *r"]:
        """Return rows with zeros in place of padding."""
        return jnp.where(self.real.reshape((-1,) + (1,) * (rows.ndim - 1)), rows, 0)

    def zero_padding_of_columns(self, columns: Float[Array, "p N"]) -> Float[Array, "p N"]:
        """Return columns with zeros in place of padding."""
        return jnp.where(self.real, columns, 0)

    def sum(self, term: Callable[["Sample"], Tree]) -> Tree:
        """Return Σ term(block) over the blocks; a sample in memory is a single block."""
        return term(self)


class Table(eqx.Module):
    """n observations that stay on disk and are read as samples, a block at a time.

    Attributes:
        disk: the `OnDisk` that reads the blocks.
        centre, largest, deviation: as for a `Sample`, but computed from some of the rows.
    """

    all_at_once: ClassVar[bool] = False
    blocks: ClassVar[None] = None
    """A table is read by one device, not spread over several."""

    disk: Any = eqx.field(static=True)
    centre: Float[Array, " d"]
    largest: Scalar
    deviation: Scalar

    @property
    def rows_on_disk(self) -> int:
        """The number of observations."""
        return len(self.disk)

    @property
    def x(self) -> jax.ShapeDtypeStruct:
        """The shape and the type of the rows, which are not in memory."""
        return jax.ShapeDtypeStruct(self.disk.shape, self.centre.dtype)

    @property
    def size(self) -> Float[Array, ""]:
        """n as a floating-point number of the working precision."""
        return jnp.asarray(len(self.disk), self.centre.dtype)

    def block(self, number: Int[Array, ""]) -> Sample:
        """Return a block of rows, read when the computation needs it.

        The callback returns 32-bit words, because it runs outside 64-bit mode and would round
        doubles.
        """
        disk, last, dtype = self.disk, self.disk.blocks - 1, self.centre.dtype
        words = (dtype.itemsize // 4,) if dtype.itemsize > 4 else ()
        shape = jax.ShapeDtypeStruct((bucket(disk.block), disk.shape[1], *words), jnp.uint32)
        read = lambda number: disk.padded_block(int(number)).view(np.uint32).reshape(shape.shape)
        rows = jax.pure_callback(
            read, shape, jnp.asarray(number, jnp.int32), vmap_method="sequential"
        )
        n = jnp.where(number < last, disk.block, len(disk) - last * disk.block)
        rows = lax.bitcast_convert_type(rows, dtype)
        return Sample(rows, n, self.centre, first=number * disk.block)

    def sum(self, term: Callable[[Sample], Tree], until: Int[Array, ""] | None = None) -> Tree:
        """Return Σ term(block) over all blocks, or over those before the block `until`."""
        zero = jax.tree.map(
            lambda part: jnp.zeros(part.shape, part.dtype),
            jax.eval_shape(lambda: term(self.block(jnp.asarray(0)))),
        )
        add = lambda number, total: jax.tree.map(jnp.add, total, term(self.block(number)))
        return lax.fori_loop(0, self.disk.blocks if until is None else until, add, zero)


AnySample = Sample | Table
