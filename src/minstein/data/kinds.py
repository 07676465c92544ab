"""Kinds of numbers that a sample may hold, and the errors that refuse others."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import Array
from .spaces import AbstractSpace


def wants_cast(dtype: Any, space: AbstractSpace) -> bool:
    """Whether whole numbers or flags are to be read as floating-point ones: in a discrete space."""
    return space.discrete and bool(
        jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_)
    )


def check_kind(dtype: Any) -> None:
    """Raise if the numbers are not floating-point ones."""
    if not jnp.issubdtype(dtype, jnp.floating):
        raise _not_floating(dtype)


def standard_precision(array: Array) -> Array:
    """Return half, extended and byte-swapped precision as the nearest of the two that JAX computes
    in.
    """
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)


@errors.explained("sharp-bits.md")
def _not_floating(dtype: Any) -> TypeError:
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return TypeError(
            f"x must be floating point, got {dtype}. The models here are densities of real numbers: pass x.real, or "
            "real and imaginary parts as two columns."
        )
    return TypeError(
        f"x must be floating point, got {dtype}. The discrepancies here differentiate log p in x, "
        "which needs continuous data. If your measurements merely happen to be whole numbers, "
        "pass x.astype(float)."
    )


@errors.explained("sharp-bits.md")
def not_finite(bad: np.ndarray, ndim: int) -> ValueError:
    keep = "x[np.isfinite(x)]" if ndim == 1 else "x[np.isfinite(x).all(axis=1)]"
    return ValueError(
        f"x has NaN or infinite entries in {errors.rows_text(bad)}. Remove them, for example with {keep}."
    )


@errors.explained("discrete.md")
def not_in_space(bad: np.ndarray, space: Any) -> ValueError:
    return ValueError(
        f"x has values in {errors.rows_text(bad)} that are not in {space!r}, where the model lives."
    )


@errors.explained("sharp-bits.md")
def wrong_shape(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"x must have shape (n, d) or (n,), got {shape}. Each row is one observation."
    )


@errors.explained("sharp-bits.md")
def empty_sample(shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"x has no observations or no coordinates: its shape is {shape}.")
