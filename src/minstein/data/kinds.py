"""The kinds of numbers that a sample may hold, and the errors for all others."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import Array
from .spaces import AbstractSpace


def as_floating(rows: Any, space: AbstractSpace) -> Any:
    """Return the rows as floating-point numbers, or raise if they are of another kind.

    Whole numbers and flags are converted only in a discrete space.
    """
    is_a = lambda kind: jnp.issubdtype(rows.dtype, kind)
    if space.discrete and (is_a(jnp.integer) or is_a(jnp.bool_)):
        return rows.map(lambda array: array.astype(float))
    if not is_a(jnp.floating):
        raise _not_floating(rows.dtype)
    return rows


def standard_precision(array: Array) -> Array:
    """Return the array in native float32 or float64, whichever is nearer to its own precision."""
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)


@errors.explained("sharp-bits.md")
def _not_floating(dtype: Any) -> TypeError:
    advice = (
        "The discrepancies here differentiate log p in x, which needs continuous data. If your measurements merely "
        "happen to be whole numbers, pass x.astype(float)."
    )
    if jnp.issubdtype(dtype, jnp.complexfloating):
        advice = (
            "The models here are densities of real numbers: pass x.real, or the real and imaginary parts as two "
            "columns."
        )
    return TypeError(f"x must be floating point, got {dtype}. {advice}")


@errors.explained("sharp-bits.md")
def not_finite(bad: np.ndarray, ndim: int) -> ValueError:
    keep = "x[np.isfinite(x)]" if ndim == 1 else "x[np.isfinite(x).all(axis=1)]"
    return ValueError(
        f"x has NaN or infinite entries in {errors.rows_text(bad)}. Remove them, for example with {keep}."
    )


@errors.explained("sharp-bits.md")
def wrong_shape(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"x must have shape (n, d) or (n,), got {shape}. Each row is one observation."
    )


@errors.explained("sharp-bits.md")
def empty_sample(shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"x has no observations or no coordinates: its shape is {shape}.")
