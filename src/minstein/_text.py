"""How models, kernels, diffusions and discrepancies print themselves: as the call that makes them."""

import dataclasses
import re
from collections.abc import Iterable
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
    """A number to six digits, a small array in full, a large one by its shape, a function by its
    name.
    """
    if (
        hasattr(value, "dtype")
        and not is_traced(value)
        and not jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    ):
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


_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Characters that a terminal obeys, XML forbids or no file can hold, and those that turn the
direction of writing.
"""


def clean(text: str) -> str:
    """Text that any document can hold: characters that nobody sees become a replacement sign, line
    breaks a space.
    """
    return _UNSEEN.sub("\ufffd", " ".join(text.splitlines()))


def find_name(what: str, name: str, known: Iterable[str]) -> str:
    """The known name that is this one, apart from capitals, hyphens, underscores and spaces."""
    letters = lambda text: text.lower().replace("-", "").replace("_", "").replace(" ", "")
    found = {letters(other): other for other in known}.get(letters(name))
    if found is None:
        raise ValueError(
            f"{what} {name!r} is not a known name; these are: {', '.join(known)}. Others are given as objects, with "
            "their arguments."
        )
    return found


def wrong_kind(what: str, given: Any, example: str, known: Iterable[str]) -> TypeError:
    kind = (
        "the class"
        if isinstance(given, type)
        else "the function"
        if hasattr(given, "__name__")
        else "the value"
    )
    name = getattr(given, "__name__", repr(given))
    call = f" Call it: {name}(...)." if hasattr(given, "__name__") else ""
    return TypeError(
        f"{what} must be an object such as {example}, or a name ({', '.join(known)}); got {kind} {name}.{call}"
    )
