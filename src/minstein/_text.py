"""How models, kernels, diffusions and discrepancies are printed: as the calls that make them."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._types import is_traced


def as_call(thing: Any) -> str:
    """Return the class and its fields, such as 'IMQ(c=1.3, beta=-0.5)'."""
    fields = (f for f in dataclasses.fields(thing) if f.repr)
    return f"{type(thing).__name__}({', '.join(f'{f.name}={value_text(getattr(thing, f.name))}' for f in fields)})"


def value_text(value: Any) -> str:
    """Return a number to six digits, a small array in full, the shape of a large one, or the name
    of a function.
    """
    is_key = lambda dtype: jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if hasattr(value, "dtype") and not is_traced(value) and not is_key(value.dtype):
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
"""Control characters, characters that XML forbids or UTF-8 cannot encode, and those that change the
direction of writing.
"""


def clean(text: str) -> str:
    """Return text that any document can hold: invisible characters are replaced by a sign, and line
    breaks by a space.
    """
    return _UNSEEN.sub("\ufffd", " ".join(text.splitlines()))


def find_name(what: str, name: str, known: Iterable[str]) -> str:
    """Return the known name that matches, ignoring capitals, hyphens, underscores and spaces."""
    letters = lambda text: text.lower().replace("-", "").replace("_", "").replace(" ", "")
    found = {letters(other): other for other in known}.get(letters(name))
    if found is None:
        raise ValueError(
            f"{what} {name!r} is not a known name. The known names are: {', '.join(known)}. Pass anything else as an "
            "object, with its arguments."
        )
    return found


def wrong_kind(what: str, given: Any, example: str, known: Iterable[str]) -> TypeError:
    got = f"the value {given!r}."
    if hasattr(given, "__name__"):
        kind, name = "class" if isinstance(given, type) else "function", given.__name__
        got = f"the {kind} {name}. Call it: {name}(...)."
    return TypeError(
        f"{what} must be an object such as {example}, or a name ({', '.join(known)}); got {got}"
    )
