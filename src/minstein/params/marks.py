"""Marks: the constraint that a user puts on a leaf, or that a family declares for a field."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._text import value_text
from .._types import Array, Tree, is_traced
from .constraints import AbstractConstraint, Entrywise, PositiveDefinite, Scale, Simplex

REAL, POSITIVE, SCALE = Entrywise(positive=False), Entrywise(positive=True), Scale()
"""The constraints that the families of the package declare."""

HELD = None
"""In place of a constraint: the leaf is held at its value and is not a parameter."""


class Marked(eqx.Module):
    """A leaf of a model together with the constraint that the user has put on it."""

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
"""The name of the function that puts each kind of constraint on a leaf, for the repr."""


def as_float(value: Any) -> Any:
    """Convert a number or an array to floating point: float64, unless it is float32 or from JAX.

    Marked leaves and floating-point JAX arrays are returned unchanged.
    """
    if is_marked(value) or (isinstance(value, jax.Array) and is_floating(value)):
        return value
    if is_traced(value) or isinstance(value, jax.Array):
        return jnp.asarray(value, float)
    array = np.asarray(value)
    return array if array.dtype == np.float32 else array.astype(np.float64)


def as_function(fn: Any) -> Any:
    """Convert a callable to a pytree.

    A plain function becomes part of the structure; a callable pytree keeps its arrays as leaves.
    """
    leaves = jax.tree.leaves(fn)
    return jax.tree_util.Partial(fn) if len(leaves) == 1 and leaves[0] is fn else fn


def is_floating(leaf: Any) -> bool:
    """Whether a leaf is a real floating-point number or array of Python, NumPy or JAX."""
    dtype = getattr(leaf, "dtype", None)
    return isinstance(leaf, float) or (dtype is not None and jnp.issubdtype(dtype, jnp.floating))


def _mark(name: str, value: Any, constraint: AbstractConstraint) -> Marked:
    if is_marked(value):
        raise TypeError(f"{name} is already marked: {value}.")
    value = as_float(value)
    check_value(name, value, constraint)
    return Marked(value, constraint)


def check_value(name: str, value: Any, constraint: AbstractConstraint) -> None:
    """Raise a ValueError if a concrete value violates its constraint."""
    if is_marked(value) or is_traced(value):
        return
    reason = constraint.check(value)
    if reason is not None:
        raise ValueError(f"{name} {reason}, got {_brief(value)}.")


def _brief(value: Array) -> str:
    if np.ndim(value) == 0:
        return f"{float(value):g}"
    return f"an array of shape {np.shape(value)}: {np.asarray(value)}"


def positive(value: Any) -> Marked:
    """Mark a parameter as positive, entry by entry.

    It stays positive during a fit because the optimiser works on its logarithm. The shape parameters
    of the package's families (`df`, `smoothness`, `power`) are held at their values by default;
    this mark also makes them free.

    >>> ms.params.names(ms.models.StudentT(0.0, 1.0, ms.positive(5.0)))
    ('loc', 'scale', 'df')
    """
    return _mark("positive(value): value", value, POSITIVE)


def fixed(value: Tree) -> Marked:
    """Mark a leaf, or a whole subtree, as known: it is not a parameter and has no gradient.

    >>> ms.params.names(ms.models.Gaussian(0.0, ms.fixed(2.0)))
    ('loc',)
    """
    return Marked(
        jax.tree.map(lambda leaf: as_float(leaf) if is_floating(leaf) else leaf, value), HELD
    )


def simplex(value: Any) -> Marked:
    """Mark a vector as positive weights that sum to one; all except the last are parameters.

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
    """Declare a field of a family as a parameter; a HELD field is free only if it is marked."""
    return eqx.field(converter=as_float, metadata={"constraint": constraint})


def is_marked(node: Any) -> bool:
    return isinstance(node, Marked)


def plain(node: Any) -> Any:
    """Return the value of a leaf, marked or not."""
    return node.value if is_marked(node) else node


def unwrap(model: Tree) -> Tree:
    """Return the model with every mark replaced by its value.

    Only this function removes marks from a model.

    >>> float(ms.params.unwrap({"rate": ms.positive(2.0)})["rate"])
    2.0
    """

    def take_off(node: Any) -> Any:
        if not is_marked(node):
            return node
        return constant(unwrap(node.value)) if node.constraint is HELD else node.value

    return jax.tree.map(take_off, model, is_leaf=is_marked)


def constant(tree: Tree) -> Tree:
    """Return the tree with its floating-point leaves excluded from differentiation."""
    return jax.tree.map(
        lambda leaf: jax.lax.stop_gradient(leaf) if is_floating(leaf) else leaf, tree
    )
