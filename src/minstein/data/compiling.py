"""Compiling: thoroughly for much data, quickly for little, where it takes longer than the computation."""

import math
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import is_traced

_ENTRIES = 1 << 20
"""Entries of all arguments up to which a program is compiled quickly."""

_ROWS, _ROWS_OFTEN = 4096, 512
"""Rows up to which a program is compiled quickly, if it runs once or often. Compiling then takes a
third of the time. A pass over the pairs of 512 rows takes twice as long, over those of 4000 four
times: 7 ms and 0.2 s more, where compiling takes one to two seconds less.
"""

_QUICK = ({"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False})
"""Options of XLA that save most of compiling; versions differ in which of them they know."""


def compiled(fn: Callable | None = None, *, often: bool = False) -> Callable:
    """Return the function compiled by JAX when it is first called with arguments of these shapes.

    Arrays in its arguments may change without compiling again, all else is part of the program.
    Options by name hold no arrays.

    Args:
        fn: the function; a decorator is returned if None.
        often: whether the program, or a loop in it, runs so often that its speed counts for more.
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
    """Whether there is little data in the arguments; rows on disk count although they are not here."""
    on_disk = lambda node: hasattr(node, "rows_on_disk")
    leaves = jax.tree.leaves(args, is_leaf=on_disk)
    shapes = [
        (leaf.rows_on_disk,) if on_disk(leaf) else leaf.shape if hasattr(leaf, "dtype") else ()
        for leaf in leaves
    ]
    most = max((shape[0] for shape in shapes if shape), default=0)
    return most <= rows and sum(map(math.prod, shapes)) <= _ENTRIES


def _is_under_way(args: tuple) -> bool:
    """Whether JAX is transforming the call; a program within another has no options of its own."""
    return is_traced((args, jnp.zeros(())))


@cache
def _options() -> dict[str, Any]:
    """The options that this version of JAX knows; none on other devices than a CPU."""
    if jax.default_backend() != "cpu":
        return {}
    return {name: value for option in _QUICK if _is_known(option) for name, value in option.items()}


def _is_known(option: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda x: x, compiler_options=option).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
