"""Our objects as JSON files: numbers and the names of our own classes, never code.

A function or a module that a user wrote is not in the file; it is taken from a template that the
user gives.
"""

import dataclasses
import functools
import hashlib
import importlib
import json
import platform
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._files import replacing
from .._version import __version__
from ..params import is_floating

FORMAT, VERSION = "minstein fit", 2

ROOMS = {
    "result": ("result.fitted",),
    "params": ("params", "params.constraints"),
    "constraints": ("params.constraints",),
    "spaces": ("data.spaces",),
    "models": ("models",),
    "kernels": ("kernels", "kernels.algebra", "kernels.finite_rank"),
    "diffusions": ("stein.diffusions", "stein.fields"),
    "divergence": ("stein.divergence",),
    "score_regression": ("discrepancies.score_regression",),
    "discrepancies": (
        "discrepancies.ksd",
        "discrepancies.score_matching",
        "discrepancies.efficient",
    ),
    "discrete": ("discrepancies.discrete",),
    "discrete_ksd": ("discrepancies.discrete_ksd",),
    "markov": ("discrepancies.markov",),
    "contrastive": ("discrepancies.contrastive",),
    "backends": ("pairs.backends",),
}
"""The names of rooms in files, and the modules that define the classes of each. Modules may move;
names stay.
"""


class Missing(eqx.Module):
    """A placeholder for something that was written in Python and is therefore not in the file."""

    text: str = eqx.field(static=True)

    kind = property(lambda self: self.text)
    irregular = None
    errors_by = "sandwich"

    def __repr__(self) -> str:
        return self.text

    def facts(self) -> tuple[tuple[str, str], ...]:
        return ()

    def __call__(self, *arguments: Any) -> Any:
        raise _not_in_file(self.text)


def write(thing: Any, path: str | Path) -> None:
    """Write an object of one of our classes to a JSON file."""
    versions = {"minstein": __version__, "jax": jax.__version__, "numpy": np.__version__}
    about = {"format": FORMAT, "version": VERSION, "python": platform.python_version(), **versions}
    content = _encode(thing)
    text = json.dumps({**about, "sha256": _digest(content), "content": content}, indent=1)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def read(path: str | Path, template: Any) -> Any:
    """Return the object in a file. What was written in Python is taken from the template, if it has
    it.
    """
    text = Path(path).read_bytes()
    try:
        data = json.loads(text)
        _check_head(data)
        if data["version"] <= VERSION:
            _check_digest(data)
            return _decode(data["content"], template)
    except KeyError as reason:
        raise not_a_fit(path, f"{reason.args[0]} is missing or unknown") from reason
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as reason:
        line = (str(reason).splitlines() or ["it cannot be read"])[0]
        raise not_a_fit(path, line[:200].rstrip(".")) from reason
    raise _newer_file(path, data["version"], data.get("minstein", "of unknown version"))


def _check_head(data: dict[str, Any]) -> None:
    """Refuse a file of another format."""
    if data["format"] != FORMAT:
        raise ValueError("it has another format")
    if type(data["version"]) is not int:
        raise TypeError("the version of its format is not a number")


def _check_digest(data: dict[str, Any]) -> None:
    """Refuse content that was changed. Files of 0.1 have no digest."""
    digest = _digest(data["content"])
    if data.get("sha256", digest) != digest:
        raise ValueError("its content has been changed")


def _digest(content: Any) -> str:
    """The digest of the encoded object, which does not depend on the layout of the file."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def _encode(node: Any) -> Any:
    """An object as JSON values: numbers, texts, lists, and dictionaries that name their kind."""
    match node:
        case None | bool() | int() | float() | str():
            return node
        case tuple():
            return {"tuple": list(map(_encode, node))}
        case list():
            return {"list": list(map(_encode, node))}
        case dict():
            return {"dict": [[key, _encode(part)] for key, part in node.items()]}
        case jax.Array() | np.ndarray() | np.generic():
            return _encode_array(node)
        case Missing(text=text):
            return {"python": text, "leaves": []}
    if type(node) in _names():
        fields = {f.name: _encode(getattr(node, f.name)) for f in dataclasses.fields(node)}
        return {"class": _names()[type(node)], "fields": fields}
    leaves = [_encode(leaf) for leaf in jax.tree.leaves(node) if is_floating(leaf)]
    return {"python": _text(node), "leaves": leaves}


def _encode_array(array: Any) -> dict[str, Any]:
    """An array as its values, type and shape; a JAX key as its data and its generator."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        values = np.asarray(jax.random.key_data(array)).tolist()
        return {"key": values, "impl": str(jax.random.key_impl(array))}
    array = np.asarray(array)
    return {"array": array.tolist(), "dtype": str(array.dtype), "shape": list(array.shape)}


def _text(node: Any) -> str:
    """The name of a function, or of the class of an object."""
    function = getattr(node, "func", node)
    return getattr(function, "__name__", None) or type(node).__name__


@functools.cache
def kinds() -> dict[str, type]:
    """Return the classes that a file may contain, by their names in files, such as "kernels.IMQ"."""
    found = {}
    for room, modules in ROOMS.items():
        for module in modules:
            home = f"minstein.{module}"
            for kind in vars(importlib.import_module(home)).values():
                ours = isinstance(kind, type) and issubclass(kind, eqx.Module)
                if ours and f"{kind.__module__}.".startswith(f"{home}."):
                    found[f"{room}.{kind.__qualname__}"] = kind
    return found


@functools.cache
def _names() -> dict[type, str]:
    """Return the name in files of each class."""
    return {kind: name for name, kind in kinds().items()}


def _kind(name: str) -> type:
    """Return the class of this name. Files of version 1 have module paths, such as
    minstein.kernels.radial.IMQ.
    """
    rooms = name.split(".")
    return kinds()[f"{rooms[1]}.{rooms[-1]}" if rooms[0] == "minstein" and len(rooms) > 2 else name]


def _decode(data: Any, template: Any) -> Any:
    """Return the object that was encoded; `template` is the user's object in its place, or None."""
    match data:
        case None | bool() | int() | float() | str():
            return data
        case {"array": values, "dtype": str(dtype), "shape": shape}:
            return _array(values, dtype, shape)
        case {"key": values, "impl": impl}:
            return jax.random.wrap_key_data(jnp.asarray(values, jnp.uint32), impl=impl)
        case {"tuple": parts}:
            return tuple(_decode(part, _at(template, i)) for i, part in enumerate(parts))
        case {"list": parts}:
            return [_decode(part, _at(template, i)) for i, part in enumerate(parts)]
        case {"dict": parts}:
            return {key: _decode(part, _at(template, key)) for key, part in parts}
        case {"class": str(name), "fields": dict(fields)}:
            return _build(_kind(name), fields, template)
        case {"python": text, "leaves": _} if template is None:
            return Missing(text)
        case {"python": _, "leaves": leaves}:
            return _fill(template, [_decode(leaf, None) for leaf in leaves])
    raise ValueError("an entry is unknown")


_DTYPES = {
    "bool": "b",
    **{f"{sign}int{bits}": "iu" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": "fiu" for bits in (16, 32, 64)},
}
"""The types of arrays, and the kinds of numbers as which the values of each may be written."""


def _array(values: Any, dtype: str, shape: Any) -> np.ndarray:
    """Return an array of numbers. Text that NumPy would read as numbers is refused, and so are
    whole numbers beyond the range of the type.
    """
    if dtype not in _DTYPES:
        raise ValueError("an array is of an unknown type")
    plain = np.asarray(values)
    if plain.size and plain.dtype.kind not in _DTYPES[dtype]:
        raise ValueError("an array holds something other than its numbers")
    with np.errstate(over="raise", invalid="raise"):
        array = np.asarray(values, dtype)
    if array.shape != tuple(shape) and array.size:
        raise ValueError(f"an array has shape {array.shape}")
    return array.reshape(shape)


def _build(kind: type, fields: dict, template: Any) -> Any:
    """Return an object of one of our classes, its fields set as they were, without running its
    constructor.
    """
    instance = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name not in fields and field.default is not dataclasses.MISSING:
            part = field.default  # the field is newer than the file
        else:
            part = _decode(fields[field.name], getattr(template, field.name, None))
        object.__setattr__(instance, field.name, part)
    return instance


def _at(template: Any, key: Any) -> Any:
    """The part of the user's object in the place of a part of the saved one, or None."""
    try:
        return template[key]
    except (TypeError, KeyError, IndexError):
        return None


def _fill(template: Any, values: list) -> Any:
    """Return the user's own object, with its numbers replaced by the saved ones."""
    leaves, treedef = jax.tree.flatten(template)
    numbers = [i for i, leaf in enumerate(leaves) if is_floating(leaf)]
    if [np.shape(leaves[i]) for i in numbers] != [np.shape(value) for value in values]:
        raise ValueError(
            "the object given for what was written in Python has arrays of other shapes"
        )
    for i, value in zip(numbers, values, strict=True):
        leaves[i] = value
    return jax.tree.unflatten(treedef, leaves)


@errors.explained("fitting.md")
def _not_in_file(text: str) -> TypeError:
    return TypeError(
        f"{text} was written in Python and is not in the file, which holds no code. "
        "Give it back: ms.load(path, model=...) with the model that was fitted, or discrepancy=..."
    )


@errors.explained("fitting.md")
def _newer_file(path: Any, version: int, by: Any) -> ValueError:
    return ValueError(
        f"{path} was written by a newer minstein ({by}, file version {version}). Update minstein."
    )


@errors.explained("fitting.md")
def not_a_fit(path: Any, reason: str) -> ValueError:
    return ValueError(f"{path} is not a fit that minstein saved, or it is damaged: {reason}.")
