"""Rows in the memory of this process: a NumPy or JAX array, which JAX may be tracing."""

import hashlib
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import is_traced, namespace
from .kinds import check_kind, empty_sample, not_finite, standard_precision, wants_cast, wrong_shape
from .rows import AbstractRows
from .sample import SORTED, Sample, bucket
from .spaces import check_values


class InMemory(eqx.Module, AbstractRows):
    """n observations as an array of shape (n, d); results for a NumPy array are NumPy arrays."""

    array: Any

    is_here: ClassVar[bool] = True

    @property
    def shape(self):
        return self.array.shape

    @property
    def dtype(self):
        return self.array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array, dtype)

    def min(self, axis=0):
        return self.array.min(axis=axis)

    def max(self, axis=0):
        return self.array.max(axis=axis)

    def mean(self, axis=0):
        return self.array.mean(axis=axis)

    def var(self, axis=0):
        return self.array.var(axis=axis)

    def std(self, axis=0):
        return self.array.std(axis=axis)

    def median(self, about=None):
        xp = namespace(self.array)
        return xp.median(self.array if about is None else xp.abs(self.array - about), axis=0)

    def gap(self, centre):
        xp = namespace(self.array)
        gaps = xp.abs(self.array - centre)
        return xp.where(gaps > 0, gaps, xp.inf).min(axis=0)

    def some(self, count):
        return self[np.linspace(0, len(self) - 1, min(len(self), count)).astype(int)]

    def __getitem__(self, numbers):
        return self.array[numbers]

    def in_one_array(self, most):
        return self.array

    def on_host(self):
        return np.asarray(self.array)

    @property
    def plain(self):
        return self.array

    def map(self, change):
        return InMemory(change(self.array))

    def in_double(self):
        return self if is_traced(self.array) else InMemory(np.asarray(self.array, np.float64))

    def with_points(self, points):
        return InMemory(np.concatenate([self.array, points]))

    def check(self, space):
        ndim = self.array.ndim
        if ndim not in (1, 2):
            raise wrong_shape(self.shape)
        array = self.array.astype(float) if wants_cast(self.dtype, space) else self.array
        check_kind(array.dtype)
        array = array[:, None] if ndim == 1 else array
        if array.size == 0:
            raise empty_sample(array.shape)
        if not is_traced(array):
            bad = np.asarray(~np.isfinite(np.asarray(array)).all(axis=1))
            if bad.any():
                raise not_finite(bad, ndim)
        check_values(array, space)
        return InMemory(standard_precision(array))

    def require_together(self, name):
        return None

    def sample(self):
        n, d = self.shape
        xp = namespace(self.array)
        filled = xp.concatenate([self.array, xp.broadcast_to(self.array[:1], (bucket(n) - n, d))])
        is_long = d == 1 and len(filled) >= SORTED
        order = jnp.asarray(xp.argsort(filled[:, 0])) if is_long else None
        centre = jnp.asarray(xp.median(self.array, axis=0))
        return Sample(jnp.asarray(filled), jnp.asarray(n), centre, None, order)

    def bring(self, result, by_rows):
        return jax.tree.map(np.asarray, result) if namespace(self.array) is np else result

    def rows_like(self, rows):
        return rows[: len(self)]

    def flags(self, rows):
        return np.asarray(rows)[: len(self)]

    def digest(self):
        if is_traced(self.array):
            return ""
        values = np.ascontiguousarray(np.asarray(self.array), "<f8") + 0.0  # −0 is 0
        return hashlib.sha256(values.tobytes()).hexdigest()[:32]


def as_rows(x: Any) -> AbstractRows:
    """Return data that have been read as rows: an array is wrapped, rows are themselves."""
    return x if isinstance(x, AbstractRows) else InMemory(x)
