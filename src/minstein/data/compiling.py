"""Compiling: thoroughly for much data, quickly for little, where it takes longer than the computation."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import is_traced

SMALL = 1 << 20
"""Entries of all arguments up to which a program is compiled quickly: a fit of 1000 observations
with its Gram matrix. It compiles in a third of the time; a fit of a Student-t then runs a tenth
longer, one of a Bessel distribution, whose density is costly, four times.
"""

_QUICK = ({"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False})
"""Options of XLA that save most of compiling; versions differ in which of them they know."""


def compiled(fn: Callable) -> Callable:
    """Return the function compiled by JAX when it is first called with arguments of these shapes.

    Arrays in its arguments may change without compiling again, all else is part of the program.
    """
    thoroughly = eqx.filter_jit(fn)

    @cache
    def quickly() -> Callable:
        options: dict[str, Any] = {"compiler_options": _options()}  # which Equinox hands on to JAX
        return eqx.filter_jit(fn, **options)

    @wraps(fn)
    def call(*args: Any) -> Any:
        quick = _is_small(args) and not _is_under_way(args)
        return (quickly() if quick else thoroughly)(*args)

    return call


def _is_small(args: tuple) -> bool:
    return sum(getattr(leaf, "size", 0) for leaf in jax.tree.leaves(args)) <= SMALL


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
