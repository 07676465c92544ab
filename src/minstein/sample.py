"""Reading the user's data, and running a computation on it in the data's own precision.

`run` is the one boundary between users and the mathematics: whatever enters the package passes here once.
"""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from . import errors
from ._types import Array, Tree, is_traced
from .params import is_floating
from .spaces import REALS, AbstractSpace, check_values

TILE = 256
"""Rows of a tile of the pair sum; samples are padded to multiples of it."""

SORTED = 16384
"""Rows from which on the order of observations on the line is found out, because pair sums have a use for it."""


class Sample(eqx.Module):
    """n observations as the rows of x, padded with copies of the first row up to a bucket size N ≥ n.

    `centre` is their median: differences of coordinates keep more digits when it is subtracted first. `order` are the
    numbers of the rows in ascending order, known for large samples of one variable.
    """

    x: Float[Array, "N d"]
    n: Int[Array, ""]
    centre: Float[Array, " d"]
    order: Int[Array, " N"] | None = None

    @property
    def real(self) -> Bool[Array, " N"]:
        """True for observations, False for padding."""
        return jnp.arange(self.x.shape[0]) < self.n

    @property
    def size(self) -> Float[Array, ""]:
        """n as a floating-point number of the working precision."""
        return jnp.asarray(self.n, self.x.dtype)

    def zero_padding(self, rows: Float[Array, "N *r"]) -> Float[Array, "N *r"]:
        """Rows with zeros in place of padding."""
        return jnp.where(self.real.reshape((-1,) + (1,) * (rows.ndim - 1)), rows, 0)

    def zero_padding_of_columns(self, columns: Float[Array, "p N"]) -> Float[Array, "p N"]:
        return jnp.where(self.real, columns, 0)


def read(x: Any, space: AbstractSpace = REALS) -> Array:
    """Check the user's data and return them as an (n, d) floating-point array of values in the space."""
    if np.ma.is_masked(x):
        raise errors.masked(int(np.ma.count_masked(x)))
    array = x if isinstance(x, jax.Array) else np.asarray(x)
    if space.discrete and (jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool):
        array = array.astype(float)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise errors.not_floating(array.dtype)
    if array.ndim not in (1, 2):
        raise errors.wrong_shape(array.shape)
    if array.ndim == 1:
        array = array[:, None]
    if array.size == 0:
        raise errors.empty_sample(array.shape)
    if not is_traced(array):
        bad = np.asarray(~np.isfinite(np.asarray(array)).all(axis=1))
        if bad.any():
            raise errors.not_finite(bad)
    check_values(array, space)
    return array if array.dtype in (np.float32, np.float64) and array.dtype.isnative else _standard(array)


def _standard(array: Array) -> Array:
    """Half, extended and byte-swapped precision as the nearest of the two that JAX computes in."""
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)


def bucket(n: int) -> int:
    """The padded size for n rows: few distinct sizes, each at most a quarter above n (or a whole tile)."""
    if n <= TILE:
        return max(16, 1 << (n - 1).bit_length())
    step = max(TILE, 1 << ((n - 1).bit_length() - 3))
    return -(-n // step) * step


def pad(x: Array) -> Sample:
    """Pad x to its bucket, so that data of similar size share one compilation."""
    n, d = x.shape
    xp = np if isinstance(x, np.ndarray) else jnp
    filled = xp.concatenate([x, xp.broadcast_to(x[:1], (bucket(n) - n, d))])
    order = jnp.asarray(xp.argsort(filled[:, 0])) if d == 1 and len(filled) >= SORTED else None
    return Sample(jnp.asarray(filled), jnp.asarray(n), jnp.asarray(xp.median(x, axis=0)), order)


def in_precision(tree: Tree, dtype: Any) -> Tree:
    """Cast every floating-point leaf (Python floats too) to the working precision."""

    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if is_floating(leaf) else leaf, tree)


def precision(x: Array, tree: Tree) -> contextlib.AbstractContextManager:
    """64-bit mode for float64 data, for the duration of one call and without touching anybody's settings."""
    if x.dtype != np.float64 or jax.config.read("jax_enable_x64"):
        return contextlib.nullcontext()
    if is_traced((x, tree)):
        warnings.warn(errors.model_is_traced(), errors.PrecisionWarning, stacklevel=5)
        return contextlib.nullcontext()
    return jax.enable_x64(True)


@eqx.filter_jit
def _compiled(compute: Callable, discrepancy: Tree, model: Tree, sample: Sample) -> Tree:
    return compute(discrepancy, model, sample)


def run(compute: Callable, discrepancy: Tree, model: Tree, x: Array) -> Tree:
    """compute(discrepancy, model, sample), compiled, in the precision of x; NumPy in, NumPy out.

    `x` has been `read` before.
    """
    return at_boundary(lambda *arguments: _compiled(compute, *arguments), discrepancy, model, x)


def at_boundary(drive: Callable, discrepancy: Tree, model: Tree, x: Array) -> Tree:
    """As `run`, for a computation in several steps that compiles its own parts."""
    on_host = isinstance(x, np.ndarray) and not is_traced((discrepancy, model))
    with precision(x, (discrepancy, model)):
        sample = pad(x)
        discrepancy, model = in_precision((discrepancy, model), sample.x.dtype)
        result = drive(discrepancy, model, sample)
        return jax.tree.map(np.asarray, result) if on_host and not is_traced(result) else result
