"""The free parameters of a model as one vector, on their natural or on the unconstrained scale."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Theta, Tree, is_traced
from .marks import HELD, REAL, Marked, is_marked
from .tree import described_leaves, names


def theta(model: Tree) -> Theta:
    """The free parameters θ of a model as one vector, on their natural scale.

    >>> ms.params.theta(ms.models.Gaussian(1.0, 2.0)).tolist()
    [1.0, 2.0]
    """
    return _vector(model, lambda constraint, value: constraint.coordinates(value))


def with_theta(model: Tree, vector: Theta) -> Tree:
    """The model with its free parameters replaced by θ.

    >>> ms.params.with_theta(ms.models.Gaussian(1.0, 2.0), np.array([3.0, 4.0]))
    Gaussian(loc=3, scale=4)
    """
    return _rebuild(model, vector, lambda constraint, part, shape: constraint.value(part, shape))


def to_real(model: Tree) -> Theta:
    """The free parameters on the unconstrained scale, such as the logarithm of a positive one.

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
    """The size of each coordinate of `to_real` beyond which a fit has run off to a boundary."""
    free = [leaf for leaf in described_leaves(model) if leaf.constraint is not HELD]
    return np.concatenate(
        [leaf.constraint.reach(np.shape(leaf.value)) for leaf in free] or [np.zeros(0)]
    )


def unconstrained(model: Tree) -> list[np.ndarray]:
    """The columns in `to_real` of each free leaf whose entries may be any real numbers."""
    free = [leaf for leaf in described_leaves(model) if leaf.constraint is not HELD]
    sizes = [len(leaf.constraint.labels(np.shape(leaf.value))) for leaf in free]
    columns = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return [part for leaf, part in zip(free, columns, strict=True) if leaf.constraint == REAL]


def links(model: Tree) -> tuple[str, ...]:
    """The scale on which each parameter's interval is symmetric: 'identity', 'log' or 'logit'."""
    free = [leaf for leaf in described_leaves(model) if leaf.constraint is not HELD]
    return tuple(link for leaf in free for link in leaf.constraint.links(np.shape(leaf.value)))


def _vector(model: Tree, part: Callable) -> Theta:
    free = [leaf for leaf in described_leaves(model) if leaf.constraint is not HELD]
    xp = _namespace(model)
    with np.errstate(all="ignore"):
        parts = [part(leaf.constraint, xp.asarray(leaf.value)) for leaf in free]
        return xp.concatenate([*parts, np.zeros(0, parts[0].dtype if parts else float)])


def _namespace(tree: Tree) -> Any:
    """NumPy, in which nothing is compiled and float64 needs no mode, unless JAX is tracing."""
    return jnp if is_traced(tree) else np


def _rebuild(model: Tree, vector: Array, value: Callable) -> Tree:
    if vector.shape != (len(names(model)),):
        raise ValueError(
            f"The vector has shape {vector.shape}, but the model has {len(names(model))} free parameters."
        )
    nodes, treedef = jax.tree.flatten(model, is_leaf=is_marked)
    rebuilt, start, vector = [], 0, _namespace((model, vector)).asarray(vector)
    for leaf, node in zip(described_leaves(model), nodes, strict=True):
        if leaf.constraint is HELD:
            rebuilt.append(node)
            continue
        shape = np.shape(leaf.value)
        size = len(leaf.constraint.labels(shape))
        with np.errstate(all="ignore"):
            new = value(leaf.constraint, vector[start : start + size], shape)
        rebuilt.append(Marked(new, node.constraint) if is_marked(node) else new)
        start += size
    return jax.tree.unflatten(treedef, rebuilt)
