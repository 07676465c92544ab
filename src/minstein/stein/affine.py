"""Decide whether a loss is quadratic in the parameters, by tracing its features."""

from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, LogDensity, Tree
from ..params import from_real, is_floating, names, unwrap
from .diffusions import AbstractDiffusion
from .operator import features


def is_affine(diffusion: AbstractDiffusion, model: LogDensity, d: int) -> bool:
    """Whether the features (b, m) are affine in η, which makes the loss quadratic.

    Their second derivative is traced, not evaluated. If it does not depend on its second direction,
    it is zero for every direction, because it is linear in it.
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(_shape, (diffusion, model)))
    return _is_affine(structure, tuple(leaves), d)


def _shape(leaf: Any) -> Any:
    """Replace an array by its shape; the answer does not depend on its values."""
    if hasattr(leaf, "dtype") or is_floating(leaf):
        return jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))
    return leaf


@lru_cache(maxsize=64)
def _is_affine(structure: Any, leaves: tuple, d: int) -> bool:
    """As `is_affine`, for the leaves of (diffusion, model)."""
    pair = jax.tree.unflatten(structure, leaves)
    shapes, rest = eqx.partition(pair, lambda leaf: hasattr(leaf, "dtype"))

    def second(arrays: Tree, eta: Array, v: Array, w: Array, x: Array) -> Tree:
        diffusion, model = eqx.combine(arrays, rest)
        of_eta = lambda eta: features(unwrap(from_real(model, eta)), diffusion, x)
        first = lambda eta: jax.jvp(of_eta, (eta,), (v,))[1]
        return jax.jvp(first, (eta,), (w,))[1]

    vector = jax.ShapeDtypeStruct((len(names(pair[1])),), jnp.float32)
    point = jax.ShapeDtypeStruct((d,), jnp.float32)
    jaxpr = jax.make_jaxpr(second)(shapes, vector, vector, vector, point).jaxpr
    reached = {jaxpr.invars[-2]}
    for equation in jaxpr.eqns:
        if any(v in reached for v in equation.invars if not hasattr(v, "val")):
            reached.update(equation.outvars)
    return not any(v in reached for v in jaxpr.outvars if not hasattr(v, "val"))
