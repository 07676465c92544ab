"""Shape annotations, and the protocols of what a user may bring."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.core
import jax.numpy
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float, PyTree

Array = jax.Array | np.ndarray

Point = Float[Array, " d"]
Rows = Float[Array, "n d"]
Scalar = Float[Array, ""]
Theta = Float[Array, " p"]
Field = Float[Array, ""] | Float[Array, " d"] | Float[Array, "d d"]
"""The value of a matrix field at a point: h·I, diag(h) or the matrix itself."""

Tree = PyTree[Any]


@runtime_checkable
class LogDensity(Protocol):
    """log p_θ(x) up to a constant, for one point x of shape (d,)."""

    def __call__(self, x: Any, /) -> Any: ...


@runtime_checkable
class MatrixKernel(Protocol):
    """K(x, y) for two points: a scalar k (meaning k·I), a vector (a diagonal) or a matrix."""

    def __call__(self, x: Any, y: Any, /) -> Any: ...


MatrixField = Callable[[Any], Any]
"""m(x) for one point: a scalar (meaning m·I), a vector (a diagonal) or a matrix."""


def is_traced(tree: Tree) -> bool:
    """Whether JAX is transforming any leaf, so that its value is not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def is_symbolic_zero(tangent: Any) -> bool:
    """Whether a tangent is known to be zero, so that nothing need be computed along it."""
    return isinstance(tangent, SymbolicZero)


def namespace(array: Any) -> Any:
    """jax.numpy for its arrays, NumPy for others: for code that serves data and traced values
    alike.
    """
    return jax.numpy if isinstance(array, jax.Array) else np
