"""Compiling: thoroughly for much data, and quickly for little, for which compiling takes longest."""

import math
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import is_traced

_ENTRIES = 1 << 20
"""A program is compiled quickly if its arguments have at most this many entries in total."""

_ROWS, _ROWS_OFTEN = 4096, 512
"""The most rows for which a program is compiled quickly, if it runs once and if it runs often.
Compiling then takes a third of the time: one to two seconds less. A pass over the pairs of 512 rows
takes twice as long (7 ms more), and over the pairs of 4000 rows four times as long (0.2 s more).
"""

_QUICK = ({"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False})
"""Options of XLA that save most of the time of compiling; not every version knows all of them."""


def compiled(fn: Callable | None = None, *, often: bool = False) -> Callable:
    """Return the function compiled by JAX when it is first called with arguments of these shapes.

    Arrays in its arguments may change without compiling again; everything else is part of the
    program. Keyword arguments must not contain arrays.

    Args:
        fn: the function; if None, a decorator is returned.
        often: whether the program, or a loop in it, runs so often that its speed matters more.
    """
    if fn is None:
        return partial(compiled, often=often)
    thoroughly, rows = eqx.filter_jit(fn), _ROWS_OFTEN if often else _ROWS

    @cache
    def quickly() -> Callable:
        options: dict[str, Any] = {"compiler_options": _options()}  # which Equinox hands on to JAX
        return eqx.filter_jit(fn, **options)

    @wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        quick = _is_small(args, rows) and not _is_under_way(args)
        return (quickly() if quick else thoroughly)(*args, **options)

    return call


def _is_small(args: tuple, rows: int) -> bool:
    """Whether there is little data in the arguments, rows on disk included."""
    on_disk = lambda node: hasattr(node, "rows_on_disk")
    leaves = jax.tree.leaves(args, is_leaf=on_disk)
    shapes = [
        (leaf.rows_on_disk,) if on_disk(leaf) else leaf.shape if hasattr(leaf, "dtype") else ()
        for leaf in leaves
    ]
    most = max((shape[0] for shape in shapes if shape), default=0)
    return most <= rows and sum(map(math.prod, shapes)) <= _ENTRIES


def _is_under_way(args: tuple) -> bool:
    """Whether JAX is transforming the call; a program inside another has no options of its own."""
    return is_traced((args, jnp.zeros(())))


@cache
def _options() -> dict[str, Any]:
    """Return the options that this version of JAX knows, or none if the device is not a CPU."""
    if jax.default_backend() != "cpu":
        return {}
    return {name: value for option in _QUICK if _is_known(option) for name, value in option.items()}


def _is_known(option: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda x: x, compiler_options=option).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
