"""The interface of a kernel, and the normal form that pair sums use.

A matrix kernel is *reducible* if it is a sum of terms `w(x) w(y) κ(‖A(x − y)‖²) LLᵀ` with a radial
profile κ, or `F(x) F(y)ᵀ` with few columns. Every kernel in the package is reducible, except
`Hamming` and products of kernels that are not radial; other kernels are evaluated by autodiff.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._text import as_call
from .._types import Array, Field, Point, Scalar, Theta, is_symbolic_zero
from ..params import as_function


class AbstractKernel(eqx.Module):
    """A matrix kernel K(x, y) for two points: a scalar k (meaning kI), a diagonal or a matrix."""

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def __call__(self, x: Point, y: Point) -> Field: ...

    def terms(self) -> "tuple[Term | Span, ...] | None":
        """The kernel as a sum of terms, or None if it is not reducible, the default."""
        return None

    @property
    def designed_at(self) -> Theta | None:
        """The estimate that a kernel was designed at, or None."""
        return None

    @property
    def design_checks(self) -> Any:
        """The criteria of the design that a kernel was made by, or None."""
        return None

    def summands(self) -> "tuple[Term | Span | Free, ...]":
        """The kernel as a sum of terms; itself, as one that is free, if it is not reducible."""
        terms = self.terms()
        return (Free(self),) if terms is None else terms

    def __add__(self, other: "AbstractKernel") -> "AbstractKernel":
        from .algebra import Sum

        return Sum((self, as_kernel(other)))

    def __mul__(self, other: Any) -> "AbstractKernel":
        from .algebra import Product, Scaled

        return Product((self, as_kernel(other))) if callable(other) else Scaled(self, other)

    __rmul__ = __mul__


class Function(AbstractKernel):
    """A kernel that the user has written as a function of two points."""

    fn: Callable = eqx.field(converter=as_function)

    def __call__(self, x: Point, y: Point) -> Array:
        return self.fn(x, y)


def as_kernel(kernel: Any) -> AbstractKernel:
    """Convert the user's argument, a kernel or a function K(x, y), to a kernel."""
    if not callable(kernel):
        raise TypeError(
            f"kernel must be a kernel or a function K(x, y), got {type(kernel).__name__}."
        )
    return kernel if isinstance(kernel, AbstractKernel) else Function(kernel)


class AbstractRadial(AbstractKernel):
    """A radial kernel k(x, y) = κ(‖x − y‖²)."""

    @abc.abstractmethod
    def profile(self, u: Float[Array, "*shape"]) -> tuple[Array, Array, Array]:
        """Return κ, κ′ and κ″ at u = r²; all three are finite at u = 0."""

    def __call__(self, x: Point, y: Point) -> Scalar:
        return _profile(0, self, jnp.sum((x - y) ** 2))

    def terms(self) -> "tuple[Term, ...]":
        return (Term(self),)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _profile(order: int, kernel: AbstractRadial, u: Scalar) -> Scalar:
    """The derivative of κ of this order, differentiable at u = 0 even if κ is a function of √u."""
    return kernel.profile(u)[order]


@partial(_profile.defjvp, symbolic_zeros=True)
def _profile_jvp(order, primals, tangents):
    (kernel, u), (dkernel, du) = primals, tangents
    tangent = jnp.zeros_like(u)
    if not is_symbolic_zero(du):
        slope = (
            _profile(order + 1, kernel, u)
            if order < 2
            else jax.grad(lambda u: kernel.profile(u)[2])(u)
        )
        tangent += slope * du
    if not all(map(is_symbolic_zero, jax.tree.leaves(dkernel))):
        dkernel = jax.tree.map(_instantiate, kernel, dkernel)
        tangent += jax.jvp(lambda kernel: kernel.profile(u)[order], (kernel,), (dkernel,))[1]
    return _profile(order, kernel, u), tangent


def _instantiate(primal: Array, tangent: Any) -> Any:
    """The tangent as an array: zeros if it is a symbolic zero."""
    return jnp.zeros_like(primal) if is_symbolic_zero(tangent) else tangent


class Term(eqx.Module):
    """One term of a reducible kernel: K(x, y) = w(x) w(y) κ(‖A(x − y)‖²) LLᵀ.

    Args:
        profile: κ.
        whiten: A, or None for the identity.
        mix: L, a matrix of shape (d, r), or None for the identity.
        column: j if L is √λ times the j-th unit vector, in which case `mix` is √λ.
        weight: w, or None for one.
    """

    profile: AbstractRadial
    whiten: Float[Array, "e d"] | None = None
    mix: Any = None
    column: int | None = eqx.field(static=True, default=None)
    weight: Callable | None = None

    @property
    def is_free(self) -> bool:
        return False

    @property
    def is_radial(self) -> bool:
        return self.whiten is None and self.weight is None and self.is_scalar

    @property
    def is_scalar(self) -> bool:
        return self.mix is None and self.column is None


class Free(eqx.Module):
    """A kernel without a reduction, differentiated at every pair."""

    kernel: AbstractKernel

    @property
    def is_free(self) -> bool:
        return True


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
    def is_free(self) -> bool:
        return False

    @property
    def is_radial(self) -> bool:
        return False
