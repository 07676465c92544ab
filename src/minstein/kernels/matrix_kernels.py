"""Matrix kernels made of scalar ones: a matrix times a kernel, and a kernel for each coordinate."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Point, is_traced
from ..params import as_float
from ._kernel import AbstractKernel, Span, Term, as_kernel
from .terms import check_scalar, join_terms, replace_terms


class Separable(AbstractKernel):
    """K = B k with B symmetric positive semi-definite.

    Args:
        B: the matrix, of shape (d, d).
        kernel: a scalar kernel.

    >>> k = ms.kernels.Separable([[2.0, 1.0], [1.0, 2.0]], ms.kernels.IMQ(1.0))
    >>> k(jnp.array([0.0, 0.0]), jnp.array([0.0, 0.0])).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """

    B: Any = eqx.field(converter=as_float)
    kernel: AbstractKernel
    factor: Any = eqx.field(repr=False)

    def __init__(self, B: Any, kernel: Any):
        self.B, self.kernel = as_float(B), as_kernel(kernel)
        self.factor = _psd_factor(self.B)

    def __call__(self, x: Point, y: Point) -> Float[Array, "r r"]:
        return self.B * self.kernel(x, y)

    def terms(self) -> tuple[Term, ...] | None:
        return replace_terms(check_scalar("Separable", self.kernel), mix=lambda term: self.factor)


class Diagonal(AbstractKernel):
    """K = diag(λ₁k₁, …, λ_d k_d) with λ > 0.

    Args:
        kernels: one scalar kernel for each coordinate.
        weights: λ; ones by default.

    >>> k = ms.kernels.Diagonal([ms.kernels.Gaussian(1.0), ms.kernels.Gaussian(2.0)])
    >>> np.allclose(k(jnp.array([0.0, 0.0]), jnp.array([1.0, 1.0])), np.exp([-1, -1 / 4]))
    True
    """

    kernels: tuple[AbstractKernel, ...]
    weights: Any

    def __init__(self, kernels: Any, weights: Any = None):
        self.kernels = tuple(map(as_kernel, kernels))
        self.weights = as_float(np.ones(len(self.kernels)) if weights is None else weights)
        count = len(self.kernels)
        if np.shape(self.weights) != (count,):
            raise ValueError(
                f"Diagonal: {count} kernels need {count} weights, got {np.size(self.weights)}."
            )
        if not is_traced(self.weights) and not np.all(np.asarray(self.weights) > 0):
            raise ValueError(f"Diagonal: weights must be positive, got {np.asarray(self.weights)}.")

    def __call__(self, x: Point, y: Point) -> Float[Array, " r"]:
        return self.weights * jnp.stack([kernel(x, y) for kernel in self.kernels])

    def terms(self) -> tuple[Term | Span, ...] | None:
        def entry(j: int, kernel: AbstractKernel) -> tuple[Term, ...] | None:
            root = jnp.sqrt(self.weights[j])
            scalar = check_scalar("Diagonal", kernel)
            return replace_terms(scalar, mix=lambda _: root, column=lambda _: j)

        return join_terms(*(entry(j, kernel) for j, kernel in enumerate(self.kernels)))


_ROUNDING = 1e-12
"""Asymmetry and negative eigenvalues up to this, relative to the largest entry or eigenvalue, are
taken for rounding in the user's float64 arithmetic (about 5000 times its machine epsilon).
"""

_RANK = 1e-14
"""Eigenvalues below this, relative to the largest, are rounding errors of `eigh` and count as zero
(about 50 times the machine epsilon of float64).
"""


def _psd_factor(B: Any) -> Any:
    """L with B = LLᵀ and as many columns as the rank of B."""
    if is_traced(B):
        return jnp.linalg.cholesky(B)
    matrix = np.asarray(B, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Separable: B must have shape (d, d), got {matrix.shape}.")
    if not np.allclose(matrix, matrix.T, rtol=0, atol=_ROUNDING * np.abs(matrix).max()):
        raise ValueError(
            "Separable: B must be symmetric, because a kernel satisfies K(y, x) = K(x, y)ᵀ."
        )
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -_ROUNDING * max(values[-1], 0) or values[-1] <= 0:
        raise ValueError(
            f"Separable: B must be positive semi-definite, but its smallest eigenvalue is {values[0]:.3g}. "
            "Otherwise B·k is not a kernel."
        )
    kept = values > _RANK * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])
