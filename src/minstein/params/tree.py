"""The leaves of a model, with their names and constraints."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from .._types import Tree
from .constraints import AbstractConstraint
from .marks import HELD, REAL, as_float, is_floating, is_marked, plain


class Leaf(NamedTuple):
    """One leaf of a model: its name, the node with its mark, and its constraint or HELD."""

    name: str
    node: Any
    constraint: Any

    @property
    def value(self) -> Any:
        return plain(self.node)

    @property
    def labels(self) -> list[str]:
        """The suffix to the name of each of its free parameters."""
        return [] if self.constraint is HELD else self.constraint.labels(np.shape(self.value))


def described_leaves(model: Tree) -> list[Leaf]:
    """Return every leaf of a model, in order."""
    found = jax.tree_util.tree_flatten_with_path(model, is_leaf=is_marked)[0]
    return [_leaf(model, path, node) for path, node in found]


def free_leaves(model: Tree) -> list[Leaf]:
    """Return the leaves that are parameters, in order."""
    return [leaf for leaf in described_leaves(model) if leaf.constraint is not HELD]


def _leaf(model: Tree, path: tuple, node: Any) -> Leaf:
    name, constraint = _describe(model, path)
    name = f"theta{name}" if name[:1] in ("", "[") else name
    if is_marked(node):
        return Leaf(name, node, node.constraint)
    return Leaf(name, node, constraint if is_floating(node) else HELD)


def _describe(model: Tree, path: tuple) -> tuple[str, AbstractConstraint | None]:
    """Return the name of the leaf at a tree path, and the constraint that its family declares."""
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
    """Return the names of the free parameters in the order of θ, such as 'loc' or 'weight[3,2]'.

    >>> ms.params.names(ms.models.StudentT([0.0, 0.0], 1.0, 5.0))
    ('loc[0]', 'loc[1]', 'scale')
    """
    return tuple(leaf.name + label for leaf in free_leaves(model) for label in leaf.labels)


def leaves(model: Tree) -> dict[str, Any]:
    """Return all floating-point leaves of a model by name, free or held, with their marks.

    >>> sorted(ms.params.leaves(ms.models.StudentT(0.0, 1.0, 5.0)))
    ['df', 'loc', 'scale']
    """
    return {leaf.name: leaf.node for leaf in described_leaves(model) if is_floating(leaf.value)}


def held(model: Tree) -> dict[str, Tree]:
    """Return the leaves that are not parameters, by name."""
    return {leaf.name: leaf.value for leaf in described_leaves(model) if leaf.constraint is HELD}


def with_leaf(model: Tree, name: str, value: Any) -> Tree:
    """Return the model with the leaf of this name replaced; `value` may be marked.

    >>> model = ms.params.with_leaf(ms.models.Gaussian(0.0, 1.0), "scale", ms.fixed(2.0))
    >>> ms.params.names(model)
    ('loc',)
    """
    if name not in leaves(model):
        raise ValueError(f"The model has no leaf {name!r}; it has {', '.join(leaves(model))}.")
    nodes = [
        as_float(value) if leaf.name == name else leaf.node for leaf in described_leaves(model)
    ]
    return jax.tree.unflatten(jax.tree.structure(model, is_leaf=is_marked), nodes)
