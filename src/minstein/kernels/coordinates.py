"""Kernels after a linear change of coordinates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from .._types import Array, Field, Point, is_traced
from ..params import as_float
from ._kernel import AbstractKernel, Term, as_kernel
from .terms import check_scalar, radial_terms, replace_terms


class Elliptical(AbstractKernel):
    """k(Ax, Ay): a kernel after a linear change of coordinates, for example A = Σ^(−1/2).

    Args:
        matrix: A, of shape (e, d).
        kernel: a scalar kernel on ℝᵉ.

    >>> k = ms.kernels.Elliptical([[2.0]], ms.kernels.Gaussian(1.0))
    >>> round(float(k(jnp.array([0.0]), jnp.array([1.0]))), 4)                           # e^(−2)
    0.1353
    """

    matrix: Any = eqx.field(converter=as_float)
    kernel: AbstractKernel = eqx.field(converter=as_kernel)

    def __check_init__(self):
        if np.ndim(self.matrix) != 2:
            raise ValueError(
                f"Elliptical: matrix must have shape (e, d), got {np.shape(self.matrix)}."
            )

    def __call__(self, x: Point, y: Point) -> Field:
        if x.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"x has {x.shape[0]} coordinates, but Elliptical's matrix has {self.matrix.shape[1]} columns."
            )
        return self.kernel(self.matrix @ x, self.matrix @ y)

    def terms(self) -> tuple[Term, ...] | None:
        return _transform_terms(self.kernel, self.matrix)


class Whitened(AbstractKernel):
    """LLᵀ k(L⁻¹x, L⁻¹y): the KSD with this kernel is the KSD with k in the coordinates L⁻¹x.

    Args:
        factor: L, a lower-triangular matrix of shape (d, d) with positive diagonal, which holds the
            units and correlations of x.
        kernel: a scalar kernel.

    >>> k = ms.kernels.Whitened([[2.0]], ms.kernels.Gaussian(1.0))
    >>> np.allclose(k(jnp.array([0.0]), jnp.array([2.0])), 4 * np.exp(-1 / 2))
    True
    """

    factor: Any
    kernel: AbstractKernel
    inverse: Any = eqx.field(repr=False)

    def __init__(self, factor: Any, kernel: Any):
        self.factor, self.kernel = as_float(factor), as_kernel(kernel)
        shape = np.shape(self.factor)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"Whitened: factor must have shape (d, d), got {shape}.")
        self.inverse = triangular_inverse(self.factor)

    def __call__(self, x: Point, y: Point) -> Float[Array, "d d"]:
        return self.factor @ self.factor.T * self.kernel(self.inverse @ x, self.inverse @ y)

    def terms(self) -> tuple[Term, ...] | None:
        kernel = check_scalar("Whitened", self.kernel)
        return _transform_terms(kernel, self.inverse, mix=lambda term: self.factor)


def _transform_terms(
    kernel: AbstractKernel, A: Any, **changes: Callable
) -> tuple[Term, ...] | None:
    """The terms of k(Ax, Ay), with other changes, or None if a term has a weight or a matrix."""
    terms = radial_terms(kernel)
    if terms is None or any(term.weight is not None or not term.is_scalar for term in terms):
        return None
    whiten = lambda term: A if term.whiten is None else term.whiten @ A
    return replace_terms(kernel, whiten=whiten, **changes)


def triangular_inverse(L: Any) -> Any:
    """L⁻¹ for a lower-triangular matrix L with positive diagonal."""
    if is_traced(L):
        return jax.scipy.linalg.solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)
    L = np.asarray(L)
    if np.triu(L, 1).any() or not np.all(np.diagonal(L) > 0):
        raise ValueError("Whitened: factor must be lower triangular with a positive diagonal.")
    return scipy.linalg.solve_triangular(L, np.eye(len(L), dtype=L.dtype), lower=True)
