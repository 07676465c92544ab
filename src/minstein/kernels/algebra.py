"""Kernels made from kernels: sums, products, multiples, elliptical and tilted ones, and matrix kernels."""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._fields import as_matrix
from .._types import Array, Field, Point, is_traced
from ..params import as_float, as_function
from ._kernel import AbstractKernel, AbstractRadial, Span, Term, as_kernel
from .radial import check_positive


class RadialSum(AbstractRadial):
    """κ₁ + κ₂ + …, the profile of a sum of radial kernels."""

    profiles: tuple[AbstractRadial, ...]

    def profile(self, u):
        return tuple(sum(parts) for parts in zip(*(p.profile(u) for p in self.profiles), strict=True))


class RadialProduct(AbstractRadial):
    """κ₁ · κ₂ · …, the profile of a product of radial kernels."""

    profiles: tuple[AbstractRadial, ...]

    def profile(self, u):
        def leibniz(f, g):
            return f[0] * g[0], f[1] * g[0] + f[0] * g[1], f[2] * g[0] + 2 * f[1] * g[1] + f[0] * g[2]

        return reduce(leibniz, (p.profile(u) for p in self.profiles))


class RadialMultiple(AbstractRadial):
    """a κ, the profile of a multiple of a radial kernel."""

    factor: Any
    of: AbstractRadial

    def profile(self, u):
        return tuple(self.factor * part for part in self.of.profile(u))


class Sum(AbstractKernel):
    """K₁ + K₂ + …, also written `k1 + k2`; scalar kernels among matrix kernels are read as kI.

    >>> k = ms.kernels.IMQ(1.0) + ms.kernels.IMQ(2.0)
    >>> float(k(jnp.array([0.0]), jnp.array([0.0])))
    1.5
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(converter=lambda kernels: tuple(map(as_kernel, kernels)))

    def __call__(self, x: Point, y: Point) -> Field:
        values = [kernel(x, y) for kernel in self.kernels]
        if len({jnp.ndim(value) for value in values}) == 1:
            return sum(values[1:], values[0])
        return jnp.sum(jnp.stack([as_matrix(value, x.shape[0]) for value in values]), axis=0)

    def terms(self) -> tuple[Term | Span, ...] | None:
        terms: list[Term | Span] = []
        for kernel in self.kernels:
            part = kernel.terms()
            if part is None:
                return None
            terms.extend(part)
        radial = tuple(term.profile for term in terms if term.is_radial)
        merged = (Term(RadialSum(radial)),) if radial else ()
        return merged + tuple(term for term in terms if not term.is_radial)


class Product(AbstractKernel):
    """k₁ · k₂ · …, also written `k1 * k2`, of scalar kernels. Fast when all are radial.

    >>> k = ms.kernels.Gaussian(1.0) * ms.kernels.Gaussian(1.0)
    >>> round(float(k(jnp.array([0.0]), jnp.array([1.0]))), 4)                           # e^(−1)
    0.3679
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(converter=lambda kernels: tuple(map(as_kernel, kernels)))

    def __call__(self, x: Point, y: Point) -> Field:
        values = [kernel(x, y) for kernel in self.kernels]
        if sum(jnp.ndim(value) > 0 for value in values) > 1:
            raise TypeError(
                "A product of kernels may have only one matrix kernel among them; the others must be scalar."
            )
        return reduce(operator.mul, values)

    def terms(self) -> tuple[Term, ...] | None:
        profiles = []
        for kernel in self.kernels:
            part = kernel.terms()
            if part is None or len(part) != 1 or not isinstance(part[0], Term) or not part[0].is_radial:
                return None
            profiles.append(part[0].profile)
        return (Term(RadialProduct(tuple(profiles))),)


class Scaled(AbstractKernel):
    """a · K with a > 0, also written `a * k`.

    >>> k = 3.0 * ms.kernels.IMQ(2.0)
    >>> float(k(jnp.array([0.0]), jnp.array([0.0])))
    1.5
    """

    kernel: AbstractKernel = eqx.field(converter=as_kernel)
    factor: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        check_positive("Scaled", "factor", self.factor, advice="")

    def __call__(self, x: Point, y: Point) -> Field:
        return self.factor * self.kernel(x, y)

    def terms(self) -> tuple[Term, ...] | None:
        return _each(self.kernel, profile=lambda term: RadialMultiple(self.factor, term.profile))


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
            raise ValueError(f"Elliptical: matrix must have shape (e, d), got {np.shape(self.matrix)}.")

    def __call__(self, x: Point, y: Point) -> Field:
        if x.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"x has {x.shape[0]} coordinates, but Elliptical's matrix has {self.matrix.shape[1]} columns."
            )
        return self.kernel(self.matrix @ x, self.matrix @ y)

    def terms(self) -> tuple[Term, ...] | None:
        parts = _radial_terms(self.kernel)
        if parts is None or any(term.weight is not None or not term.is_scalar for term in parts):
            return None
        return _each(self.kernel, whiten=lambda t: self.matrix if t.whiten is None else t.whiten @ self.matrix)


class Tilted(AbstractKernel):
    """w(x) K(x, y) w(y). A tilted KSD is the DKSD with the scalar diffusion w.

    Args:
        kernel: the kernel K.
        weight: w, a function of one point that returns a scalar.

    >>> k = ms.kernels.Tilted(ms.kernels.IMQ(1.0), lambda x: 1 / (1 + x[0] ** 2))
    >>> float(k(jnp.array([1.0]), jnp.array([1.0])))
    0.25
    """

    kernel: AbstractKernel = eqx.field(converter=as_kernel)
    weight: Callable = eqx.field(converter=as_function)

    def __call__(self, x: Point, y: Point) -> Field:
        w = lambda x: jnp.reshape(self.weight(x), ())
        return w(x) * w(y) * self.kernel(x, y)

    def terms(self) -> tuple[Term, ...] | None:
        return _each(self.kernel, weight=lambda term: _product(self.weight, term.weight))


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
        return _each(_scalar("Separable", self.kernel), mix=lambda term: self.factor)


class Diagonal(AbstractKernel):
    """K = diag(λ₁k₁, …, λ_d k_d) with λ > 0.

    Args:
        kernels: one scalar kernel for each coordinate.
        weights: λ, all ones if not given.

    >>> k = ms.kernels.Diagonal([ms.kernels.Gaussian(1.0), ms.kernels.Gaussian(2.0)])
    >>> np.allclose(k(jnp.array([0.0, 0.0]), jnp.array([1.0, 1.0])), np.exp([-1, -1 / 4]))
    True
    """

    kernels: tuple[AbstractKernel, ...]
    weights: Any

    def __init__(self, kernels: Any, weights: Any = None):
        self.kernels = tuple(map(as_kernel, kernels))
        self.weights = as_float(np.ones(len(self.kernels)) if weights is None else weights)
        if np.shape(self.weights) != (len(self.kernels),):
            count = len(self.kernels)
            raise ValueError(f"Diagonal: {count} kernels need as many weights, got {np.size(self.weights)}.")
        if not is_traced(self.weights) and not np.all(np.asarray(self.weights) > 0):
            raise ValueError(f"Diagonal: weights must be positive, got {np.asarray(self.weights)}.")

    def __call__(self, x: Point, y: Point) -> Float[Array, " r"]:
        return self.weights * jnp.stack([kernel(x, y) for kernel in self.kernels])

    def terms(self) -> tuple[Term, ...] | None:
        terms: list[Term] = []
        for j, kernel in enumerate(self.kernels):
            root = jnp.sqrt(self.weights[j])
            part = _each(_scalar("Diagonal", kernel), mix=lambda _, root=root: root, column=lambda _, j=j: j)
            if part is None:
                return None
            terms.extend(part)
        return tuple(terms)


def _radial_terms(kernel: AbstractKernel) -> tuple[Term, ...] | None:
    """The terms of a kernel, or None where one of them is not radial."""
    parts = kernel.terms() or ()
    radial = tuple(part for part in parts if isinstance(part, Term))
    return radial if parts and len(radial) == len(parts) else None


def _each(kernel: AbstractKernel, **changes: Callable) -> tuple[Term, ...] | None:
    """The terms of a kernel, each with some of its parts replaced."""
    parts = _radial_terms(kernel)
    if parts is None:
        return None
    keep = lambda term: {name: getattr(term, name) for name in term.__dataclass_fields__}
    return tuple(Term(**{**keep(term), **{name: change(term) for name, change in changes.items()}}) for term in parts)


def _scalar(owner: str, kernel: AbstractKernel) -> AbstractKernel:
    """The kernel, refused where it is a matrix kernel already."""
    parts = _radial_terms(kernel)
    if parts is not None and not all(term.is_scalar for term in parts):
        raise TypeError(f"{owner} needs a scalar kernel, got the matrix kernel {type(kernel).__name__}.")
    return kernel


def _product(weight: Callable, other: Callable | None) -> Callable:
    return weight if other is None else jax.tree_util.Partial(lambda v, w, x: v(x) * w(x), weight, other)


def _psd_factor(B: Any) -> Any:
    """L with B = LLᵀ, of as many columns as B has rank."""
    if is_traced(B):
        return jnp.linalg.cholesky(B)
    matrix = np.asarray(B, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Separable: B must have shape (d, d), got {matrix.shape}.")
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max()):
        raise ValueError("Separable: B must be symmetric, because a kernel satisfies K(y, x) = K(x, y)ᵀ.")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -1e-12 * max(values[-1], 0) or values[-1] <= 0:
        raise ValueError(
            f"Separable: B must be positive semi-definite, but its smallest eigenvalue is {values[0]:.3g}. "
            "Otherwise B·k is not a kernel."
        )
    kept = values > 1e-14 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])
