"""The parameters of a model: θ as a flat vector, its names, and the constraints on it.

A model is a pytree; its free floating-point leaves are θ. A leaf is marked with `positive`, `fixed`, `simplex` or
`positive_definite`; the shipped families declare the constraint of each field instead, with `parameter`.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from ._text import value_text
from ._types import Array, Theta, Tree, is_traced
from .constraints import AbstractConstraint, Entrywise, PositiveDefinite, Scale, Simplex

REAL, POSITIVE, SCALE = Entrywise(positive=False), Entrywise(positive=True), Scale()
__all__ = ["from_real", "leaves", "names", "theta", "to_real", "unwrap", "with_leaf", "with_theta"]


HELD = None
"""In place of a constraint: not a parameter at all."""


class Marked(eqx.Module):
    """A leaf of a model together with the constraint its user put on it."""

    value: Tree
    constraint: AbstractConstraint | None = eqx.field(static=True)

    def __repr__(self) -> str:
        return f"{_MARKS[type(self.constraint)]}({value_text(self.value)})"


_MARKS = {
    type(None): "fixed",
    Entrywise: "positive",
    PositiveDefinite: "positive_definite",
    Scale: "scale",
    Simplex: "simplex",
}


def as_float(value: Any) -> Any:
    """Python and NumPy numbers as float64 arrays; marked leaves and JAX arrays as they are, if not of integers."""
    if is_marked(value) or (isinstance(value, jax.Array) and is_floating(value)):
        return value
    if is_traced(value) or isinstance(value, jax.Array):
        return jnp.asarray(value, float)
    array = np.asarray(value)
    return array if array.dtype == np.float32 else array.astype(np.float64)


def as_function(fn: Any) -> Any:
    """A callable as a pytree: a plain function becomes structure, a callable pytree keeps its arrays as leaves."""
    leaves = jax.tree.leaves(fn)
    return jax.tree_util.Partial(fn) if len(leaves) == 1 and leaves[0] is fn else fn


def _mark(name: str, value: Any, constraint: AbstractConstraint) -> Marked:
    if is_marked(value):
        raise TypeError(f"{name} is marked already: {value}.")
    value = as_float(value)
    check_value(name, value, constraint)
    return Marked(value, constraint)


def check_value(name: str, value: Any, constraint: AbstractConstraint) -> None:
    """Raise a ValueError when a concrete value violates its constraint."""
    if is_marked(value) or is_traced(value):
        return
    reason = constraint.check(value)
    if reason is not None:
        raise ValueError(f"{name} {reason}, got {_brief(value)}.")


def _brief(value: Array) -> str:
    return f"{float(value):g}" if np.ndim(value) == 0 else f"an array of shape {np.shape(value)}: {np.asarray(value)}"


def positive(value: Any) -> Marked:
    """Mark a parameter as positive, entry by entry.

    It stays positive during a fit because the optimiser moves its logarithm. On a shape parameter of a shipped family
    (`df`, `smoothness`, `power`), which is held at its value by default, the mark also makes it a free parameter.

    >>> ms.params.names(ms.models.StudentT(0.0, 1.0, ms.positive(5.0)))
    ('loc', 'scale', 'df')
    """
    return _mark("positive(value): value", value, POSITIVE)


def fixed(value: Tree) -> Marked:
    """Mark a leaf (or a whole subtree) as known: it is not a parameter and gets no gradient.

    >>> ms.params.names(ms.models.Gaussian(0.0, ms.fixed(2.0)))
    ('loc',)
    """
    return Marked(jax.tree.map(lambda leaf: as_float(leaf) if is_floating(leaf) else leaf, value), HELD)


def simplex(value: Any) -> Marked:
    """Mark a vector as positive weights that sum to one; all but the last are parameters.

    >>> log_p = lambda w, x: jnp.log(w @ jnp.exp(-((x[0] - jnp.arange(2)) ** 2)))
    >>> ms.params.names(ms.models.from_log_density(log_p, ms.simplex([0.5, 0.5])))       # the last weight follows
    ('theta[0]',)
    """
    return _mark("simplex(value): value", value, Simplex())


def positive_definite(value: Any) -> Marked:
    """Mark a matrix as symmetric positive definite; its lower triangle holds the parameters.

    >>> model = ms.models.from_log_density(lambda P, x: -x @ P @ x / 2, ms.positive_definite(np.eye(2)))
    >>> ms.params.names(model)
    ('theta[0,0]', 'theta[1,0]', 'theta[1,1]')
    """
    return _mark("positive_definite(value): value", value, PositiveDefinite())


def parameter(constraint: AbstractConstraint | None = REAL) -> Any:
    """Declare a field of a family as a parameter under a constraint; HELD fields are free only when marked."""
    return eqx.field(converter=as_float, metadata={"constraint": constraint})


def is_marked(node: Any) -> bool:
    return isinstance(node, Marked)


def unwrap(model: Tree) -> Tree:
    """The model with every mark replaced by its value; the only place where marks are taken off.

    >>> float(ms.params.unwrap({"rate": ms.positive(2.0)})["rate"])
    2.0
    """

    def take_off(node: Any) -> Any:
        if not is_marked(node):
            return node
        return constant(unwrap(node.value)) if node.constraint is HELD else node.value

    return jax.tree.map(take_off, model, is_leaf=is_marked)


def constant(tree: Tree) -> Tree:
    """The tree as a constant of differentiation."""
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if is_floating(leaf) else leaf, tree)


class _Leaf(NamedTuple):
    """One leaf of a model: its name, its value, its constraint or HELD."""

    name: str
    value: Any
    constraint: Any


def _leaves(model: Tree) -> list[_Leaf]:
    found = jax.tree_util.tree_flatten_with_path(model, is_leaf=is_marked)[0]
    return [_leaf(model, path, node) for path, node in found]


def _leaf(model: Tree, path: tuple, node: Any) -> _Leaf:
    name, constraint = _describe(model, path)
    if is_marked(node):
        return _Leaf(name, node.value, node.constraint)
    return _Leaf(name, node, constraint if is_floating(node) else HELD)


def is_floating(leaf: Any) -> bool:
    """Whether a leaf is a real floating-point number or array, of Python, NumPy or JAX."""
    dtype = getattr(leaf, "dtype", None)
    return isinstance(leaf, float) or (dtype is not None and jnp.issubdtype(dtype, jnp.floating))


def _describe(model: Tree, path: tuple) -> tuple[str, AbstractConstraint | None]:
    """The name of the leaf at a tree path, and the constraint its family declares for it."""
    node, name, constraint = model, "", REAL
    for key in path:
        match key:
            case GetAttrKey(name=field):
                fields = getattr(type(node), "__dataclass_fields__", {})
                metadata = fields[field].metadata if field in fields else {}
                constraint = metadata.get("constraint", constraint)
                name = name if metadata.get("nameless") else f"{name}.{field}" if name else field
                node = getattr(node, field)
            case DictKey(key=entry):
                node, name = node[entry], f"{name}.{entry}" if name else str(entry)
            case SequenceKey(idx=index):
                node, name = node[index], f"{name}[{index}]"
            case _:
                return name + str(key), constraint
    return name, constraint


def names(model: Tree) -> tuple[str, ...]:
    """The names of the free parameters, in the order of θ: 'loc', 'scale', 'loc[1]', 'layers[0].weight[3,2]'.

    >>> ms.params.names(ms.models.StudentT([0.0, 0.0], 1.0, 5.0))
    ('loc[0]', 'loc[1]', 'scale')
    """
    return tuple(
        ("theta" if leaf.name[:1] in ("", "[") else "") + leaf.name + label
        for leaf in _leaves(model)
        if leaf.constraint is not HELD
        for label in leaf.constraint.labels(np.shape(leaf.value))
    )


def leaves(model: Tree) -> dict[str, Any]:
    """Every floating-point leaf of a model by name, free or held, with its mark.

    >>> sorted(ms.params.leaves(ms.models.StudentT(0.0, 1.0, 5.0)))
    ['df', 'loc', 'scale']
    """
    return {name: node for name, node in zip(_leaf_names(model), _nodes(model), strict=True) if _is_number(node)}


def with_leaf(model: Tree, name: str, value: Any) -> Tree:
    """The model with the leaf of this name replaced; `value` may be marked.

    >>> model = ms.params.with_leaf(ms.models.Gaussian(0.0, 1.0), "scale", ms.fixed(2.0))
    >>> ms.params.names(model)
    ('loc',)
    """
    nodes = [as_float(value) if n == name else node for n, node in zip(_leaf_names(model), _nodes(model), strict=True)]
    if name not in leaves(model):
        raise ValueError(f"The model has no leaf {name!r}; it has {', '.join(leaves(model))}.")
    return jax.tree.unflatten(jax.tree.structure(model, is_leaf=is_marked), nodes)


def _nodes(model: Tree) -> list[Any]:
    return jax.tree.leaves(model, is_leaf=is_marked)


def _leaf_names(model: Tree) -> list[str]:
    return [("theta" if leaf.name[:1] in ("", "[") else "") + leaf.name for leaf in _leaves(model)]


def _is_number(node: Any) -> bool:
    return is_floating(node.value if is_marked(node) else node)


def theta(model: Tree) -> Theta:
    """θ: the free parameters of a model as one vector, on their natural scale.

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
    """The free parameters on the unconstrained scale: logarithms of positive ones, and so on.

    >>> ms.params.to_real(ms.models.Gaussian(1.0, 2.0)).round(4).tolist()      # the logarithm of the scale
    [1.0, 0.6931]
    """
    return _vector(model, lambda constraint, value: constraint.unconstrain(value))


def from_real(model: Tree, eta: Theta) -> Tree:
    """The model at an unconstrained vector: every constraint holds, as far as floating-point numbers reach.

    >>> ms.params.from_real(ms.models.Gaussian(1.0, 2.0), np.array([3.0, 0.0]))
    Gaussian(loc=3, scale=1)
    """
    return _rebuild(model, eta, lambda constraint, part, shape: constraint.constrain(part, shape))


def reach(model: Tree) -> np.ndarray:
    """How far each coordinate of `to_real` may go before a fit has run to the edge of what is allowed."""
    free = [leaf for leaf in _leaves(model) if leaf.constraint is not HELD]
    return np.concatenate([leaf.constraint.reach(np.shape(leaf.value)) for leaf in free] or [np.zeros(0)])


def links(model: Tree) -> tuple[str, ...]:
    """For each parameter the scale on which its interval is symmetric: 'identity', 'log' or 'logit'."""
    free = [leaf for leaf in _leaves(model) if leaf.constraint is not HELD]
    return tuple(link for leaf in free for link in leaf.constraint.links(np.shape(leaf.value)))


def _vector(model: Tree, part: Callable) -> Theta:
    free = [leaf for leaf in _leaves(model) if leaf.constraint is not HELD]
    with _precision(model):
        parts = [part(leaf.constraint, jnp.asarray(leaf.value)) for leaf in free]
        return _plain(jnp.concatenate(parts) if parts else jnp.zeros(0))


def _precision(tree: Tree) -> contextlib.AbstractContextManager:
    """64-bit mode, unless JAX is tracing and the precision is settled."""
    return contextlib.nullcontext() if is_traced(tree) else jax.enable_x64(True)


def _plain(array: Array) -> Array:
    """A NumPy array, which keeps its digits outside 64-bit mode, unless JAX is tracing."""
    return array if is_traced(array) else np.asarray(array)


def _rebuild(model: Tree, vector: Array, value: Callable) -> Tree:
    if vector.shape != (len(names(model)),):
        raise ValueError(f"The vector has shape {vector.shape}, but the model has {len(names(model))} free parameters.")
    nodes, treedef = jax.tree.flatten(model, is_leaf=is_marked)
    rebuilt, start = [], 0
    for leaf, node in zip(_leaves(model), nodes, strict=True):
        if leaf.constraint is HELD:
            rebuilt.append(node)
            continue
        shape = np.shape(leaf.value)
        size = len(leaf.constraint.labels(shape))
        with _precision((model, vector)):
            new = _plain(value(leaf.constraint, jnp.asarray(vector[start : start + size]), shape))
        rebuilt.append(Marked(new, node.constraint) if is_marked(node) else new)
        start += size
    return jax.tree.unflatten(treedef, rebuilt)
