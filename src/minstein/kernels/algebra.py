"""Kernels built from other kernels: sums, products, multiples and weights."""

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Field, Point
from ..params import as_float, as_function
from ..stein.matrix_fields import as_matrix
from ._kernel import AbstractKernel, AbstractRadial, Span, Term, as_kernel
from .radial import check_positive
from .terms import join_terms, radial, replace_terms


def _as_kernels(kernels: Iterable[Any]) -> tuple[AbstractKernel, ...]:
    return tuple(map(as_kernel, kernels))


class RadialSum(AbstractRadial):
    """κ₁ + κ₂ + …, the profile of a sum of radial kernels."""

    profiles: tuple[AbstractRadial, ...]

    def profile(self, u):
        return tuple(
            sum(parts) for parts in zip(*(p.profile(u) for p in self.profiles), strict=True)
        )

    def components(self):
        return sum((p.components() for p in self.profiles), ())


class RadialProduct(AbstractRadial):
    """κ₁ · κ₂ · …, the profile of a product of radial kernels."""

    profiles: tuple[AbstractRadial, ...]

    def profile(self, u):
        def leibniz(f, g):
            return (
                f[0] * g[0],
                f[1] * g[0] + f[0] * g[1],
                f[2] * g[0] + 2 * f[1] * g[1] + f[0] * g[2],
            )

        return reduce(leibniz, (p.profile(u) for p in self.profiles))


class RadialMultiple(AbstractRadial):
    """a κ, the profile of a multiple of a radial kernel."""

    factor: Any
    of: AbstractRadial

    def profile(self, u):
        return tuple(self.factor * part for part in self.of.profile(u))

    def components(self):
        return tuple((self.factor * weight, p) for weight, p in self.of.components())


class Sum(AbstractKernel):
    """K₁ + K₂ + …, also written `k1 + k2`; in a sum with matrix kernels, a scalar kernel k means kI.

    >>> k = ms.kernels.IMQ(1.0) + ms.kernels.IMQ(2.0)
    >>> float(k(jnp.array([0.0]), jnp.array([0.0])))
    1.5
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(converter=_as_kernels)

    def __call__(self, x: Point, y: Point) -> Field:
        values = [kernel(x, y) for kernel in self.kernels]
        if len({jnp.ndim(value) for value in values}) == 1:
            return sum(values[1:], values[0])
        return jnp.sum(jnp.stack([as_matrix(value, x.shape[0]) for value in values]), axis=0)

    def terms(self) -> tuple[Term | Span, ...] | None:
        terms = join_terms(*(kernel.terms() for kernel in self.kernels))
        if terms is None:
            return None
        profiles = tuple(term.profile for term in radial(terms) if term.is_radial)
        merged = (Term(RadialSum(profiles)),) if profiles else ()
        return merged + tuple(term for term in terms if not term.is_radial)


class Product(AbstractKernel):
    """The product k₁ · k₂ · … of scalar kernels, also written `k1 * k2`; fast if all are radial.

    >>> k = ms.kernels.Gaussian(1.0) * ms.kernels.Gaussian(1.0)
    >>> round(float(k(jnp.array([0.0]), jnp.array([1.0]))), 4)                           # e^(−1)
    0.3679
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(converter=_as_kernels)

    def __call__(self, x: Point, y: Point) -> Field:
        values = [kernel(x, y) for kernel in self.kernels]
        if sum(jnp.ndim(value) > 0 for value in values) > 1:
            raise TypeError(
                "A product of kernels may contain at most one matrix kernel; the others must be scalar."
            )
        return reduce(operator.mul, values)

    def terms(self) -> tuple[Term, ...] | None:
        terms = [kernel.terms() or () for kernel in self.kernels]
        if not all(len(part) == 1 and part[0].is_radial for part in terms):
            return None
        return (Term(RadialProduct(tuple(part[0].profile for part in map(radial, terms)))),)


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
        return replace_terms(
            self.kernel, profile=lambda term: RadialMultiple(self.factor, term.profile)
        )


class Tilted(AbstractKernel):
    """w(x) K(x, y) w(y): the KSD with this kernel is the DKSD with the scalar diffusion w.

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
        return replace_terms(self.kernel, weight=lambda term: _product(self.weight, term.weight))


def _product(weight: Callable, other: Callable | None) -> Callable:
    """The product of two weights, of which None is one."""
    if other is None:
        return weight
    return jax.tree_util.Partial(lambda v, w, x: v(x) * w(x), weight, other)
