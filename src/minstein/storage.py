"""Our objects as JSON files: numbers and the names of our own classes, never code.

A function or a module that a user wrote is not in the file; it is taken from a template that the user gives.
"""

import dataclasses
import importlib
import json
import platform
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import errors
from ._version import __version__
from .files import replacing
from .params import is_floating

FORMAT, VERSION = "minstein fit", 1

_MODULES = (
    "result",
    "params",
    "constraints",
    "spaces",
    "models",
    "kernels",
    "kernels.algebra",
    "kernels.finite_rank",
    "diffusions",
    "divergence",
    "score_regression",
    "discrepancies",
    "discrete",
    "discrete_ksd",
    "markov",
    "contrastive",
)
"""Where the classes live that a file may name."""


class Missing(eqx.Module):
    """In place of something that was written in Python and is therefore not in the file."""

    text: str = eqx.field(static=True)

    def __repr__(self) -> str:
        return self.text

    def __call__(self, *arguments: Any) -> Any:
        raise errors.not_in_file(self.text)


def write(thing: Any, path: str | Path) -> None:
    """Write an object of one of our classes."""
    versions = {"minstein": __version__, "jax": jax.__version__, "numpy": np.__version__}
    about = {"format": FORMAT, "version": VERSION, "python": platform.python_version(), **versions}
    text = json.dumps({**about, "content": _encoded(thing)}, indent=1)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


def read(path: str | Path, template: Any) -> Any:
    """The object in a file. What was written in Python is taken from the template, where that has it."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise errors.not_a_fit(path)
        if data["version"] > VERSION:
            raise errors.newer_file(path, data["version"], data["minstein"])
        return _decoded(data["content"], template)
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as reason:
        raise errors.not_a_fit(path) from reason


def _encoded(node: Any) -> Any:
    match node:
        case None | bool() | int() | float() | str():
            return node
        case tuple():
            return {"tuple": [_encoded(part) for part in node]}
        case list():
            return {"list": [_encoded(part) for part in node]}
        case dict():
            return {"dict": [[key, _encoded(part)] for key, part in node.items()]}
    if isinstance(node, jax.Array) and jnp.issubdtype(node.dtype, jax.dtypes.prng_key):
        return {"key": np.asarray(jax.random.key_data(node)).tolist(), "impl": str(jax.random.key_impl(node))}
    if isinstance(node, jax.Array | np.ndarray | np.generic):
        array = np.asarray(node)
        return {"array": array.tolist(), "dtype": str(array.dtype), "shape": list(array.shape)}
    if _name(type(node)) in _classes():
        fields = dataclasses.fields(node)
        return {"class": _name(type(node)), "fields": {f.name: _encoded(getattr(node, f.name)) for f in fields}}
    arrays = [leaf for leaf in jax.tree.leaves(node) if is_floating(leaf)]
    return {"python": _text(node), "leaves": [_encoded(leaf) for leaf in arrays]}


def _text(node: Any) -> str:
    function = getattr(node, "func", node)
    return getattr(function, "__name__", None) or type(node).__name__


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _classes() -> dict[str, type]:
    """The classes that a file may name."""
    found = {}
    for module in _MODULES:
        for kind in vars(importlib.import_module(f"minstein.{module}")).values():
            if isinstance(kind, type) and issubclass(kind, eqx.Module) and kind.__module__.startswith("minstein."):
                found[_name(kind)] = kind
    return found


def _decoded(data: Any, template: Any) -> Any:
    """The object that was encoded; `template` is what the user gave in its place, or None."""
    if not isinstance(data, dict):
        return data
    match data:
        case {"array": values, "dtype": dtype, "shape": shape}:
            return np.asarray(values, dtype).reshape(shape)
        case {"key": values, "impl": impl}:
            return jax.random.wrap_key_data(jnp.asarray(values, jnp.uint32), impl=impl)
        case {"tuple": parts}:
            return tuple(_decoded(part, _at(template, i)) for i, part in enumerate(parts))
        case {"list": parts}:
            return [_decoded(part, _at(template, i)) for i, part in enumerate(parts)]
        case {"dict": parts}:
            return {key: _decoded(part, _at(template, key)) for key, part in parts}
        case {"class": name, "fields": fields}:
            return _built(name, fields, template)
        case {"python": text, "leaves": leaves}:
            return Missing(text) if template is None else _filled(template, [_decoded(x, None) for x in leaves])
    raise KeyError("unknown entry")


def _built(name: str, fields: dict, template: Any) -> Any:
    """An object of one of our classes, its fields set as they were, without running its constructor."""
    kind = _classes()[name]
    instance = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name not in fields and field.default is not dataclasses.MISSING:
            part = field.default  # a field that is younger than the file
        else:
            part = _decoded(fields[field.name], getattr(template, field.name, None))
        object.__setattr__(instance, field.name, part)
    return instance


def _at(template: Any, key: Any) -> Any:
    try:
        return None if template is None else template[key]
    except (TypeError, KeyError, IndexError):
        return None


def _filled(template: Any, values: list) -> Any:
    """The user's own object, with its numbers replaced by the saved ones."""
    leaves, treedef = jax.tree.flatten(template)
    fresh = iter(values)
    return jax.tree.unflatten(treedef, [next(fresh) if is_floating(leaf) else leaf for leaf in leaves])
