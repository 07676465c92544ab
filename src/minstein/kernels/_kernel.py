"""The interface of a kernel, and the normal form that pair sums use.

A matrix kernel is *reducible* if it is a sum of terms `w(x) w(y) κ(‖A(x − y)‖²) LLᵀ` with a radial
profile κ, or `F(x) F(y)ᵀ` with few columns. Every kernel in the package is reducible, except
`Hamming` and products of kernels that are not radial; other kernels are evaluated by autodiff.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._text import as_call
from .._types import Array, Field, Point, Scalar, is_symbolic_zero
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

    def summands(self) -> "tuple[Term | Span | Free, ...]":
        """The terms of the kernel, or the kernel itself as a `Free` term if it is not reducible."""
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

    def components(self) -> "tuple[tuple[Any, AbstractRadial], ...]":
        """The profile as a weighted sum of profiles that are not sums: pairs (weight, profile)."""
        return ((1.0, self),)

    def __call__(self, x: Point, y: Point) -> Scalar:
        return _profile(0, self, jnp.sum((x - y) ** 2))

    def terms(self) -> "tuple[Term, ...]":
        return (Term(self),)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _profile(order: int, kernel: AbstractRadial, u: Scalar) -> Scalar:
    """Return the derivative of κ of this order, itself differentiable at u = 0 if κ contains √u."""
    return kernel.profile(u)[order]


@partial(_profile.defjvp, symbolic_zeros=True)
def _profile_jvp(order, primals, tangents):
    (kernel, u), (dkernel, du) = primals, tangents
    tangent = jnp.zeros_like(u)
    if not is_symbolic_zero(du):
        third = jax.grad(lambda u: kernel.profile(u)[2])
        tangent += (_profile(order + 1, kernel, u) if order < 2 else third(u)) * du
    if not all(map(is_symbolic_zero, jax.tree.leaves(dkernel))):
        dkernel = jax.tree.map(_instantiate, kernel, dkernel)
        tangent += jax.jvp(lambda kernel: kernel.profile(u)[order], (kernel,), (dkernel,))[1]
    return _profile(order, kernel, u), tangent


def _instantiate(primal: Array, tangent: Any) -> Any:
    """Return the tangent as an array of zeros if it is a symbolic zero, else unchanged."""
    return jnp.zeros_like(primal) if is_symbolic_zero(tangent) else tangent


class AbstractSummand(eqx.Module):
    """One of the summands of a kernel."""

    is_free: ClassVar[bool] = False
    """Whether the summand must be differentiated at every pair."""

    is_radial: ClassVar[bool] = False
    """Whether the summand is κ(‖x − y‖²) and nothing more."""


class Term(AbstractSummand):
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
    def is_radial(self) -> bool:
        return self.whiten is None and self.weight is None and self.is_scalar

    @property
    def is_scalar(self) -> bool:
        """Whether LLᵀ is the identity."""
        return self.mix is None and self.column is None


class Free(AbstractSummand):
    """A kernel that is not reducible."""

    is_free: ClassVar[bool] = True
    kernel: AbstractKernel


class Span(AbstractSummand):
    """One term of a reducible kernel: K(x, y) = F(x) F(y)ᵀ with columns f_j(x) = Σ_a ψ_a(x) α_a·j.

    Args:
        functions: ψ, a function of one point with values of shape (B,).
        coefficients: α.
    """

    functions: Callable
    coefficients: Float[Array, "B d r"]
