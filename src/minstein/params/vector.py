"""The free parameters of a model as one vector, on their natural or on the unconstrained scale."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Theta, Tree, is_traced
from .marks import HELD, REAL, Marked, is_marked
from .tree import described_leaves, free_leaves, names


def theta(model: Tree) -> Theta:
    """Return the free parameters θ of a model as one vector, on their natural scale.

    >>> ms.params.theta(ms.models.Gaussian(1.0, 2.0)).tolist()
    [1.0, 2.0]
    """
    return _vector(model, lambda constraint, value: constraint.coordinates(value))


def with_theta(model: Tree, vector: Theta) -> Tree:
    """Return the model with its free parameters replaced by θ.

    >>> ms.params.with_theta(ms.models.Gaussian(1.0, 2.0), np.array([3.0, 4.0]))
    Gaussian(loc=3, scale=4)
    """
    return _rebuild(model, vector, lambda constraint, part, shape: constraint.value(part, shape))


def to_real(model: Tree) -> Theta:
    """Return the free parameters on the unconstrained scale, such as the log of a positive one.

    >>> ms.params.to_real(ms.models.Gaussian(1.0, 2.0)).round(4).tolist()      # the logarithm of the scale
    [1.0, 0.6931]
    """
    return _vector(model, lambda constraint, value: constraint.unconstrain(value))


def from_real(model: Tree, eta: Theta) -> Tree:
    """Return the model at an unconstrained vector; all constraints hold, up to floating point.

    >>> ms.params.from_real(ms.models.Gaussian(1.0, 2.0), np.array([3.0, 0.0]))
    Gaussian(loc=3, scale=1)
    """
    return _rebuild(model, eta, lambda constraint, part, shape: constraint.constrain(part, shape))


def reach(model: Tree) -> np.ndarray:
    """Return the size of each coordinate of `to_real` beyond which a fit has run off to a boundary."""
    parts = [leaf.constraint.reach(np.shape(leaf.value)) for leaf in free_leaves(model)]
    return np.concatenate([*parts, np.zeros(0)])


def unconstrained(model: Tree) -> list[np.ndarray]:
    """Return the columns in `to_real` of each free leaf whose entries may be any real numbers."""
    free = free_leaves(model)
    sizes = [len(leaf.labels) for leaf in free]
    columns = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return [part for leaf, part in zip(free, columns, strict=True) if leaf.constraint == REAL]


def links(model: Tree) -> tuple[str, ...]:
    """Return the scale on which each interval is symmetric: 'identity', 'log' or 'logit'."""
    shapes = [(leaf.constraint, np.shape(leaf.value)) for leaf in free_leaves(model)]
    return tuple(link for constraint, shape in shapes for link in constraint.links(shape))


def _vector(model: Tree, part: Callable) -> Theta:
    xp = _namespace(model)
    with np.errstate(all="ignore"):
        parts = [part(leaf.constraint, xp.asarray(leaf.value)) for leaf in free_leaves(model)]
        return xp.concatenate([*parts, np.zeros(0, parts[0].dtype if parts else float)])


def _namespace(tree: Tree) -> Any:
    """Return jax.numpy if JAX is tracing, else NumPy, which compiles nothing and has float64."""
    return jnp if is_traced(tree) else np


def _rebuild(model: Tree, vector: Array, value: Callable) -> Tree:
    if vector.shape != (len(names(model)),):
        raise ValueError(
            f"The vector has shape {vector.shape}, but the model has {len(names(model))} free parameters."
        )
    rebuilt, start, vector = [], 0, _namespace((model, vector)).asarray(vector)
    for leaf in described_leaves(model):
        if leaf.constraint is HELD:
            rebuilt.append(leaf.node)
            continue
        end = start + len(leaf.labels)
        with np.errstate(all="ignore"):
            new = value(leaf.constraint, vector[start:end], np.shape(leaf.value))
        rebuilt.append(Marked(new, leaf.constraint) if is_marked(leaf.node) else new)
        start = end
    return jax.tree.unflatten(jax.tree.structure(model, is_leaf=is_marked), rebuilt)
