"""Reading the user's data, and running a computation on it in the data's own precision.

`run` is the one boundary between users and the mathematics: whatever enters the package passes here once.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from . import errors
from ._types import Array, Scalar, Tree, is_traced
from .disk import OnDisk
from .padding import TILE as TILE
from .padding import bucket as bucket
from .params import is_floating
from .sharded import AnyData, Blocks, Sharded, as_sharded, is_spread, together
from .spaces import REALS, AbstractSpace, check_values

SORTED = 16384
"""Rows from which on the order of observations on the line is found out, because pair sums have a use for it."""


class Sample(eqx.Module):
    """n observations as the rows of x, padded with copies of the first row up to a bucket size N ≥ n.

    `centre` is their median: differences of coordinates keep more digits when it is subtracted first. `blocks` is there
    where the rows are spread over devices, each of which then has padding of its own; `order` are the numbers of the
    rows in ascending order, known for large samples of one variable. A block of rows on disk knows the number of its
    first.
    """

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
        """The number of the observation in each row."""
        rows = self.x.shape[0]
        if self.first is not None:
            return self.first + jnp.arange(rows)
        return jnp.arange(rows) if self.blocks is None else self.blocks.numbers(rows)

    @property
    def extent(self) -> "Int[Array, ''] | Blocks":
        """Where the observations are among the rows: the first n, or so many of each block."""
        return self.n if self.blocks is None else self.blocks

    def by_rows(self, fn: Callable, rows: Tree, block: int) -> Array:
        """fn of each row, a block of rows at a time on each device, so that few intermediate results are in memory."""
        devices = 1 if self.blocks is None else self.blocks.mesh.size
        length = self.x.shape[0] // devices
        if block >= length:
            return jax.vmap(fn)(rows)
        if devices == 1:
            return jax.lax.map(fn, rows, batch_size=block)
        abreast = jax.tree.map(lambda part: jnp.moveaxis(part.reshape(devices, length, *part.shape[1:]), 0, 1), rows)
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
        """A sample with further points, which rows are observations of this one, and where the points stand.

        Where the rows are spread over devices, each of them has all the further points.
        """
        rows, k = self.x.shape[0], z.shape[0]
        devices = 1 if self.blocks is None else self.blocks.mesh.size
        length = rows // devices
        extra = jnp.concatenate([z, jnp.broadcast_to(z[:1], (bucket(length + k) - length - k, z.shape[1]))])
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
        """Rows, each where its observation is."""
        return rows if self.blocks is None else self.blocks.spread(rows)

    def zero_padding(self, rows: Float[Array, "N *r"]) -> Float[Array, "N *r"]:
        """Rows with zeros in place of padding."""
        return jnp.where(self.real.reshape((-1,) + (1,) * (rows.ndim - 1)), rows, 0)

    def zero_padding_of_columns(self, columns: Float[Array, "p N"]) -> Float[Array, "p N"]:
        return jnp.where(self.real, columns, 0)


class Table(eqx.Module):
    """n observations that stay on disk and come as samples, a block at a time.

    Centre, largest value and deviation are those of some rows.
    """

    disk: OnDisk = eqx.field(static=True)
    centre: Float[Array, " d"]
    largest: Scalar
    deviation: Scalar

    @property
    def x(self) -> jax.ShapeDtypeStruct:
        """The shape and the type of the rows, which are not here."""
        return jax.ShapeDtypeStruct(self.disk.shape, self.centre.dtype)

    @property
    def size(self) -> Float[Array, ""]:
        """n as a floating-point number of the working precision."""
        return jnp.asarray(len(self.disk), self.centre.dtype)

    def block(self, number: Int[Array, ""]) -> Sample:
        """A block of rows, read when the computation comes to it.

        It comes as words of 32 bits: a callback knows nothing of 64-bit mode, and would round what it returns.
        """
        disk, last, dtype = self.disk, self.disk.blocks - 1, self.centre.dtype
        words = (dtype.itemsize // 4,) if dtype.itemsize > 4 else ()
        shape = jax.ShapeDtypeStruct((bucket(disk.block), disk.shape[1], *words), jnp.uint32)
        read = lambda number: disk.padded(int(number)).view(np.uint32).reshape(shape.shape)
        rows = jax.pure_callback(read, shape, jnp.asarray(number, jnp.int32), vmap_method="sequential")
        n = jnp.where(number < last, disk.block, len(disk) - last * disk.block)
        rows = jax.lax.bitcast_convert_type(rows, dtype)
        return Sample(rows, n, self.centre, first=number * disk.block)

    def sum(self, term: Callable[[Sample], Tree], until: Int[Array, ""] | None = None) -> Tree:
        """Σ term(block) over all blocks, or over those before one of them."""
        zero = jax.tree.map(
            lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(lambda: term(self.block(jnp.asarray(0))))
        )
        add = lambda number, total: jax.tree.map(jnp.add, total, term(self.block(number)))
        return jax.lax.fori_loop(0, self.disk.blocks if until is None else until, add, zero)


AnySample = Sample | Table


def read(x: Any, space: AbstractSpace = REALS) -> Array | Sharded:
    """Check the user's data and return them as an (n, d) floating-point array of values in the space."""
    if isinstance(x, OnDisk):
        raise errors.needs_memory("This")
    if np.ma.is_masked(x):
        raise errors.masked(int(np.ma.count_masked(x)))
    if is_spread(x):
        x = as_sharded(x)
    array = x if isinstance(x, jax.Array | Sharded) else np.asarray(x)
    if space.discrete and (jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool):
        array = array.map(lambda rows: rows.astype(float)) if isinstance(array, Sharded) else array.astype(float)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise errors.not_floating(array.dtype)
    if array.ndim not in (1, 2):
        raise errors.wrong_shape(array.shape)
    if array.ndim == 1:
        array = array[:, None]
    if array.size == 0:
        raise errors.empty_sample(array.shape)
    if isinstance(array, Sharded):
        return _checked(array, space)
    if not is_traced(array):
        bad = np.asarray(~np.isfinite(np.asarray(array)).all(axis=1))
        if bad.any():
            raise errors.not_finite(bad)
    check_values(array, space)
    return array if array.dtype in (np.float32, np.float64) and array.dtype.isnative else _standard(array)


def read_or_leave(x: Any, space: AbstractSpace = REALS) -> Array | Sharded | OnDisk:
    """As `read`, but rows on disk stay there; they are checked in one pass over the blocks."""
    if not isinstance(x, OnDisk):
        return read(x, space)
    found = x.survey(space)
    if found.bad:
        raise errors.unusable_rows(found.bad, found.bad_count, len(x), space)
    return x


def _checked(x: Sharded, space: AbstractSpace) -> Sharded:
    """As for other data, without bringing the rows together."""
    bad = _rows_that(lambda rows: ~jnp.isfinite(rows), x)
    if bad.any():
        raise errors.not_finite(bad)
    bad = _rows_that(space.outside, x)
    if bad.any():
        raise errors.not_in_space(bad, space)
    return x if x.dtype in (np.float32, np.float64) else x.map(_standard)


def _rows_that(test: Callable, x: Sharded) -> np.ndarray:
    """Whether any entry of each observation is one that …"""
    with jax.enable_x64(True):
        return x.flags(jnp.any(test(x.array), axis=1))


def _standard(array: Array) -> Array:
    """Half, extended and byte-swapped precision as the nearest of the two that JAX computes in."""
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)


def pad(x: Array | Sharded | OnDisk) -> AnySample:
    """Pad x to its bucket, so that data of similar size share one compilation."""
    if isinstance(x, OnDisk):
        some = _padded(x.impression)
        return Table(x, some.centre, some.largest, some.deviation)
    return _padded(x)


def _padded(x: Array | Sharded) -> Sample:
    if isinstance(x, Sharded):
        dtype = jax.dtypes.canonicalize_dtype(x.dtype)
        blocks = Blocks(np.asarray(x.counts), x.mesh)
        return Sample(x.array.astype(dtype), np.asarray(len(x)), x.median().astype(dtype), blocks)
    n, d = x.shape
    xp = np if isinstance(x, np.ndarray) else jnp
    filled = xp.concatenate([x, xp.broadcast_to(x[:1], (bucket(n) - n, d))])
    order = jnp.asarray(xp.argsort(filled[:, 0])) if d == 1 and len(filled) >= SORTED else None
    return Sample(jnp.asarray(filled), jnp.asarray(n), jnp.asarray(xp.median(x, axis=0)), None, order)


def in_precision(tree: Tree, dtype: Any) -> Tree:
    """Cast every floating-point leaf (Python floats too) to the working precision."""

    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if is_floating(leaf) else leaf, tree)


def precision(x: Array | Sharded | OnDisk, tree: Tree) -> AbstractContextManager:
    """64-bit mode for float64 data, for the duration of one call and without touching anybody's settings."""
    if x.dtype != np.float64 or jax.config.read("jax_enable_x64"):
        return nullcontext()
    if is_traced((x, tree)):
        warnings.warn(errors.model_is_traced(), errors.PrecisionWarning, stacklevel=5)
        return nullcontext()
    return jax.enable_x64(True)


@eqx.filter_jit
def _compiled(compute: Callable, discrepancy: Tree, model: Tree, sample: AnySample) -> Tree:
    return compute(discrepancy, model, sample)


def run(compute: Callable, discrepancy: Tree, model: Tree, x: AnyData, *, by_rows: bool = False) -> Tree:
    """compute(discrepancy, model, sample), compiled, in the precision of x; NumPy in, NumPy out.

    `x` has been `read` before. With `by_rows` the result has a row for each of the sample, and stays where those are.
    """
    drive = lambda *arguments: _compiled(compute, *arguments)
    return at_boundary(drive, discrepancy, model, x, by_rows=by_rows)


def at_boundary(drive: Callable, discrepancy: Tree, model: Tree, x: AnyData, *, by_rows: bool = False) -> Tree:
    """As `run`, for a computation in several steps that compiles its own parts."""
    traced = is_traced((discrepancy, model))
    if isinstance(x, OnDisk) and traced:
        raise errors.disk_is_traced()
    on_host = isinstance(x, np.ndarray | Sharded | OnDisk) and not traced
    with precision(x, (discrepancy, model)), together(x), x.told() if isinstance(x, OnDisk) else nullcontext():
        sample = pad(x)
        discrepancy, model = in_precision((discrepancy, model), sample.x.dtype)
        result = drive(discrepancy, model, sample)
        if not on_host or is_traced(result) or (by_rows and isinstance(x, Sharded)):
            return result
        return x.known(result) if isinstance(x, Sharded) else jax.tree.map(np.asarray, result)
