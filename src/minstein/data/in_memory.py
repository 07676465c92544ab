"""Rows in the memory of this process: a NumPy or JAX array, which JAX may be tracing."""

import hashlib
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import is_traced, namespace
from .kinds import as_floating, empty_sample, not_finite, standard_precision, wrong_shape
from .padding import bucket, pad
from .rows import AbstractRows
from .sample import SORTED, Sample


class InMemory(eqx.Module, AbstractRows):
    """n observations in an array of shape (n, d). Results for a NumPy array are NumPy arrays."""

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

    def median(self, about=None):
        xp = namespace(self.array)
        return xp.median(self.array if about is None else xp.abs(self.array - about), axis=0)

    def gap(self, centre):
        xp = namespace(self.array)
        gaps = xp.abs(self.array - centre)
        return xp.where(gaps > 0, gaps, xp.inf).min(axis=0)

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
        rows = as_floating(InMemory(self.array[:, None]) if ndim == 1 else self, space)
        if rows.size == 0:
            raise empty_sample(rows.shape)
        if not is_traced(rows):
            values = np.asarray(rows)
            bad = np.asarray(~np.isfinite(values).all(axis=1))
            if bad.any():
                raise not_finite(bad, ndim)
            space.check(values)
        return rows.map(standard_precision)

    def sample(self):
        n, d = self.shape
        filled = pad(self.array, bucket(n))
        is_long = d == 1 and len(filled) >= SORTED
        order = jnp.asarray(filled[:, 0].argsort()) if is_long else None
        return Sample(jnp.asarray(filled), jnp.asarray(n), jnp.asarray(self.median()), order=order)

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
    """Return data that have already been read as rows: wrap an array, return rows unchanged."""
    return x if isinstance(x, AbstractRows) else InMemory(x)
