"""A sample as computations see it: rows padded to a bucket size, all at once or block by block."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from .._types import Array, Scalar, Tree
from .blocks import Blocks
from .padding import TILE as TILE
from .padding import bucket as bucket

SORTED = 16384
"""Sort the observations of one variable from this many rows on, because pair sums can then use
their order.
"""


class Sample(eqx.Module):
    """n observations as the rows of x, padded with copies of the first row up to a bucket size N ≥
    n.

    Attributes:
        x: the padded rows.
        n: the number of observations.
        centre: their median; differences of coordinates keep more digits when it is subtracted first.
        blocks: the division of rows that are spread over devices, each with padding of its own.
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
        """Where the observations are among the rows: the first n, or the first few of each block."""
        return self.n if self.blocks is None else self.blocks

    def by_rows(self, fn: Callable, rows: Tree, block: int) -> Array:
        """Return fn of each row, computed a block of rows at a time on each device to save
        memory.
        """
        devices = 1 if self.blocks is None else self.blocks.mesh.size
        length = self.x.shape[0] // devices
        if block >= length:
            return jax.vmap(fn)(rows)
        if devices == 1:
            return jax.lax.map(fn, rows, batch_size=block)
        abreast = jax.tree.map(
            lambda part: jnp.moveaxis(part.reshape(devices, length, *part.shape[1:]), 0, 1), rows
        )
        found = jnp.moveaxis(jax.lax.map(jax.vmap(fn), abreast, batch_size=block), 1, 0)
        return found.reshape(self.x.shape[0], *found.shape[2:])

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
        the place of the points.

        If the rows are spread over devices, each device holds all the further points.
        """
        rows, k = self.x.shape[0], z.shape[0]
        devices = 1 if self.blocks is None else self.blocks.mesh.size
        length = rows // devices
        extra = jnp.concatenate(
            [z, jnp.broadcast_to(z[:1], (bucket(length + k) - length - k, z.shape[1]))]
        )
        if self.blocks is None:
            x = jnp.concatenate([self.x, extra])
            return (
                Sample(x, jnp.asarray(x.shape[0]), self.centre),
                jnp.arange(x.shape[0]) < self.n,
                slice(rows, rows + k),
            )
        x = self.blocks.beside(self.x, extra)
        blocks = Blocks(jnp.full_like(self.blocks.counts, length + len(extra)), self.blocks.mesh)
        sample = Sample(x, jnp.asarray(x.shape[0]), self.centre, blocks)
        return sample, self.blocks.real(x.shape[0]), slice(length, length + k)

    def in_place(self, rows: Shaped[Array, "N *r"]) -> Shaped[Array, "N *r"]:
        """Return rows, each placed on the device of its observation."""
        return rows if self.blocks is None else self.blocks.spread(rows)

    def zero_padding(self, rows: Float[Array, "N *r"]) -> Float[Array, "N *r"]:
        """Return rows with zeros in place of padding."""
        return jnp.where(self.real.reshape((-1,) + (1,) * (rows.ndim - 1)), rows, 0)

    def zero_padding_of_columns(self, columns: Float[Array, "p N"]) -> Float[Array, "p N"]:
        return jnp.where(self.real, columns, 0)

    def sum(self, term: Callable[["Sample"], Tree]) -> Tree:
        """Return Σ term(block) over the blocks, of which a sample in memory is the only one."""
        return term(self)


class Table(eqx.Module):
    """n observations that stay on disk and are read as samples, a block at a time.

    Attributes:
        disk: the `OnDisk` that reads the blocks.
        centre, largest, deviation: as of a `Sample`, taken from some of the rows.
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
        """How many observations there are."""
        return len(self.disk)

    @property
    def x(self) -> jax.ShapeDtypeStruct:
        """The shape and the type of the rows, which are not here."""
        return jax.ShapeDtypeStruct(self.disk.shape, self.centre.dtype)

    @property
    def size(self) -> Float[Array, ""]:
        """n as a floating-point number of the working precision."""
        return jnp.asarray(len(self.disk), self.centre.dtype)

    def block(self, number: Int[Array, ""]) -> Sample:
        """Return a block of rows, read when the computation needs it.

        The callback returns words of 32 bits: it does not know of 64-bit mode, and would round
        doubles.
        """
        disk, last, dtype = self.disk, self.disk.blocks - 1, self.centre.dtype
        words = (dtype.itemsize // 4,) if dtype.itemsize > 4 else ()
        shape = jax.ShapeDtypeStruct((bucket(disk.block), disk.shape[1], *words), jnp.uint32)
        read = lambda number: disk.padded(int(number)).view(np.uint32).reshape(shape.shape)
        rows = jax.pure_callback(
            read, shape, jnp.asarray(number, jnp.int32), vmap_method="sequential"
        )
        n = jnp.where(number < last, disk.block, len(disk) - last * disk.block)
        rows = jax.lax.bitcast_convert_type(rows, dtype)
        return Sample(rows, n, self.centre, first=number * disk.block)

    def sum(self, term: Callable[[Sample], Tree], until: Int[Array, ""] | None = None) -> Tree:
        """Return Σ term(block) over all blocks, or over those before the block `until`."""
        zero = jax.tree.map(
            lambda part: jnp.zeros(part.shape, part.dtype),
            jax.eval_shape(lambda: term(self.block(jnp.asarray(0)))),
        )
        add = lambda number, total: jax.tree.map(jnp.add, total, term(self.block(number)))
        return jax.lax.fori_loop(0, self.disk.blocks if until is None else until, add, zero)


AnySample = Sample | Table
