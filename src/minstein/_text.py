"""How models, kernels, diffusions and discrepancies print themselves: as the call that makes them."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._types import is_traced


def as_call(thing: Any) -> str:
    """'IMQ(c=1.3, beta=-0.5)': the class and its fields."""
    fields = (f for f in dataclasses.fields(thing) if f.repr)
    return f"{type(thing).__name__}({', '.join(f'{f.name}={value_text(getattr(thing, f.name))}' for f in fields)})"


def value_text(value: Any) -> str:
    """A number to six digits, a small array in full, a large one by its shape, a function by its name."""
    if hasattr(value, "dtype") and not is_traced(value) and not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        array = np.asarray(value)
        if array.ndim == 0:
            return f"{array.item():.6g}" if array.dtype.kind == "f" else str(array)
        if array.size <= 16:
            return np.array2string(array, precision=6, separator=", ").replace("\n", "")
        return f"<array of shape {array.shape}>"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    function = getattr(value, "func", value)
    return getattr(function, "__name__", repr(value))
