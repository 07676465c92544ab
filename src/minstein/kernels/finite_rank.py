"""Kernels of finite rank, whose pair sums cost linear time, and those in designs by version 0.1."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array, Field, Point
from ..params import as_float, as_function
from ..stein.matrix_fields import as_matrix
from ._kernel import AbstractKernel, Span, Term


class FiniteRank(AbstractKernel):
    """K(x, y) = Σ_j f_j(x) f_j(y)ᵀ with the fields f_j(x) = Σ_a ψ_a(x) α_a·j.

    Its pair sums are squares of sums over points. On its own it detects only departures that these
    few fields detect: add another kernel.

    Args:
        functions: ψ, a function of one point with values of shape (B,).
        coefficients: α, of shape (B, d, r): r fields in d dimensions.

    >>> linear = ms.kernels.FiniteRank(lambda x: jnp.append(x, 1.0), np.eye(2)[:, None, :])   # the fields x and 1
    >>> float(linear(jnp.array([2.0]), jnp.array([3.0]))[0, 0])                               # xy + 1
    7.0
    """

    functions: Callable = eqx.field(converter=as_function)
    coefficients: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        if np.ndim(self.coefficients) != 3:
            raise ValueError(
                f"FiniteRank: coefficients must have shape (B, d, r), got {np.shape(self.coefficients)}."
            )

    def __call__(self, x: Point, y: Point) -> Float[Array, "d d"]:
        F = lambda x: jnp.einsum("a,air->ir", self.functions(x), self.coefficients)
        return F(x) @ F(y).T

    def terms(self) -> tuple[Span]:
        return (Span(self.functions, self.coefficients),)


class Checks(eqx.Module):
    """The criteria by which version 0.1 accepted or rejected a design.

    Attributes:
        names: the names of the parameters.
        fields: the number of candidate fields.
        n: the number of observations.
        found: whether the pilot fit found a minimum.
        r_squared: the leave-one-out R² of the regression of ∂_θ log p on Stein features.
        distance: between the designed estimate and the pilot's, in standard errors of the pilot.
        identity: the smallest and largest eigenvalue of the Hessian relative to the variance of the
            estimating functions.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    fields: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    found: Bool[Array, "*k"]
    r_squared: Float[Array, "*k p"]
    distance: Float[Array, "*k"]
    identity: Float[Array, "*k 2"]


class Designed(AbstractKernel):
    """K = Σ_j f_j f_jᵀ + η k: the kernel of a design by version 0.1, whose saved fits hold it.

    Attributes:
        fields: Σ_j f_j f_jᵀ.
        kernel: η k.
        theta: the estimate of the design.
        checks: the criteria of the design.
    """

    fields: FiniteRank
    kernel: AbstractKernel
    theta: Float[Array, "*k p"]
    checks: Checks

    def __repr__(self) -> str:
        return f"{self.kernel!r} and {self.checks.fields} learned fields"

    def __call__(self, x: Point, y: Point) -> Field:
        return self.fields(x, y) + as_matrix(jnp.asarray(self.kernel(x, y)), x.shape[0])

    def terms(self) -> tuple[Term | Span, ...] | None:
        rest = self.kernel.terms()
        return None if rest is None else (*self.fields.terms(), *rest)
