"""What a kernel is, and the normal form in which the pair sum wants it.

A matrix kernel is *reducible* when it is a sum of terms `w(x) w(y) κ(‖A(x − y)‖²) LLᵀ` with a radial profile κ, or
`F(x) F(y)ᵀ` with few columns; every kernel of the package is, but for products of kernels that are not radial. The rest
is evaluated by autodiff.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float

from .._text import as_call
from .._types import Array, Field, Point, Scalar
from ..params import as_function


class AbstractKernel(eqx.Module):
    """A matrix kernel K(x, y) for two points: a scalar k (meaning kI), a diagonal or a matrix."""

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def __call__(self, x: Point, y: Point) -> Field: ...

    @abc.abstractmethod
    def terms(self) -> "tuple[Term | Span, ...] | None":
        """The kernel as a sum of terms, or None where it is not reducible."""

    def __add__(self, other: "AbstractKernel") -> "AbstractKernel":
        from .algebra import Sum

        return Sum((self, as_kernel(other)))

    def __mul__(self, other: Any) -> "AbstractKernel":
        from .algebra import Product, Scaled

        return Product((self, as_kernel(other))) if callable(other) else Scaled(self, other)

    __rmul__ = __mul__


class Function(AbstractKernel):
    """A kernel that a user wrote as a function of two points."""

    fn: Callable = eqx.field(converter=as_function)

    def __call__(self, x: Point, y: Point) -> Array:
        return self.fn(x, y)

    def terms(self) -> None:
        return None


def as_kernel(kernel: Any) -> AbstractKernel:
    """Read the user's argument: a kernel, or a function K(x, y)."""
    if not callable(kernel):
        raise TypeError(f"kernel must be a kernel or a function K(x, y), got {type(kernel).__name__}.")
    return kernel if isinstance(kernel, AbstractKernel) else Function(kernel)


class AbstractRadial(AbstractKernel):
    """A radial kernel k(x, y) = κ(‖x − y‖²)."""

    @abc.abstractmethod
    def profile(self, u: Float[Array, "*shape"]) -> tuple[Array, Array, Array]:
        """κ, κ′ and κ″ at u = r²; finite at u = 0."""

    def __call__(self, x: Point, y: Point) -> Scalar:
        return _profile(0, self, jnp.sum((x - y) ** 2))

    def terms(self) -> "tuple[Term, ...]":
        return (Term(self),)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _profile(order: int, kernel: AbstractRadial, u: Scalar) -> Scalar:
    """The derivative of κ of this order, itself differentiable at u = 0 where a square root would not be."""
    return kernel.profile(u)[order]


@partial(_profile.defjvp, symbolic_zeros=True)
def _profile_jvp(order, primals, tangents):
    (kernel, u), (dkernel, du) = primals, tangents
    tangent = jnp.zeros_like(u)
    if not isinstance(du, SymbolicZero):
        slope = _profile(order + 1, kernel, u) if order < 2 else jax.grad(lambda u: kernel.profile(u)[2])(u)
        tangent += slope * du
    if not all(isinstance(leaf, SymbolicZero) for leaf in jax.tree.leaves(dkernel)):
        dkernel = jax.tree.map(_instantiated, kernel, dkernel)
        tangent += jax.jvp(lambda kernel: kernel.profile(u)[order], (kernel,), (dkernel,))[1]
    return _profile(order, kernel, u), tangent


def _instantiated(primal: Array, tangent: Any) -> Any:
    return jnp.zeros_like(primal) if isinstance(tangent, SymbolicZero) else tangent


class Term(eqx.Module):
    """One term of a reducible kernel: K(x, y) = w(x) w(y) κ(‖A(x − y)‖²) LLᵀ.

    Args:
        profile: κ.
        whiten: A, or None for the identity.
        mix: L, a matrix of shape (d, r), or None for the identity.
        column: j where L is √λ times the j-th unit vector; `mix` is then √λ.
        weight: w, or None for one.
    """

    profile: AbstractRadial
    whiten: Float[Array, "e d"] | None = None
    mix: Any = None
    column: int | None = eqx.field(static=True, default=None)
    weight: Callable | None = None

    @property
    def is_radial(self) -> bool:
        return self.whiten is None and self.weight is None and self.is_scalar

    @property
    def is_scalar(self) -> bool:
        return self.mix is None and self.column is None


class One(AbstractRadial):
    """The constant kernel k = 1."""

    def profile(self, u):
        return jnp.ones_like(u), jnp.zeros_like(u), jnp.zeros_like(u)


class Span(eqx.Module):
    """One term of a reducible kernel: K(x, y) = F(x) F(y)ᵀ with columns f_j(x) = Σ_a ψ_a(x) α_a·j.

    Args:
        functions: ψ, a function of one point with values of shape (B,).
        coefficients: α.
    """

    functions: Callable
    coefficients: Float[Array, "B d r"]
    profile: One = One()

    @property
    def is_radial(self) -> bool:
        return False
