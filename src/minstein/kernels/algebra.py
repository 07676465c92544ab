"""Kernels built from other kernels: sums, products, multiples and weights."""

import operator
from collections.abc import Callable
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
from .terms import radial_terms, replace_terms


class RadialSum(AbstractRadial):
    """κ₁ + κ₂ + …, the profile of a sum of radial kernels."""

    profiles: tuple[AbstractRadial, ...]

    def profile(self, u):
        return tuple(
            sum(parts) for parts in zip(*(p.profile(u) for p in self.profiles), strict=True)
        )


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


class Sum(AbstractKernel):
    """K₁ + K₂ + …, also written `k1 + k2`; next to matrix kernels, a scalar kernel k means kI.

    >>> k = ms.kernels.IMQ(1.0) + ms.kernels.IMQ(2.0)
    >>> float(k(jnp.array([0.0]), jnp.array([0.0])))
    1.5
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(
        converter=lambda kernels: tuple(map(as_kernel, kernels))
    )

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
    """The product k₁ · k₂ · … of scalar kernels, also written `k1 * k2`; fast if all are radial.

    >>> k = ms.kernels.Gaussian(1.0) * ms.kernels.Gaussian(1.0)
    >>> round(float(k(jnp.array([0.0]), jnp.array([1.0]))), 4)                           # e^(−1)
    0.3679
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(
        converter=lambda kernels: tuple(map(as_kernel, kernels))
    )

    def __call__(self, x: Point, y: Point) -> Field:
        values = [kernel(x, y) for kernel in self.kernels]
        if sum(jnp.ndim(value) > 0 for value in values) > 1:
            raise TypeError(
                "A product of kernels may contain at most one matrix kernel; the others must be scalar."
            )
        return reduce(operator.mul, values)

    def terms(self) -> tuple[Term, ...] | None:
        profiles = []
        for kernel in self.kernels:
            part = radial_terms(kernel)
            if part is None or len(part) != 1 or not part[0].is_radial:
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
    return (
        weight
        if other is None
        else jax.tree_util.Partial(lambda v, w, x: v(x) * w(x), weight, other)
    )
