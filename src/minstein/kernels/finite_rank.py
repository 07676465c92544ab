"""Kernels of finite rank, whose pair sums cost linear time, and the kernels of `ms.design`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array, Field, Point, is_traced
from ..params import as_float, as_function
from ..stein.matrix_fields import as_matrix
from ._kernel import AbstractKernel, Span, Term
from .terms import join_terms


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
    """The criteria by which a design is accepted or rejected.

    Attributes:
        names: the names of the parameters.
        fields: the number of candidate fields.
        n: the number of observations.
        found: whether the pilot fit found a minimum.
        r_squared: the leave-one-out R² of the regression of ∂_θ log p on Stein features, for each
            parameter.
        distance: from the designed estimate to the pilot's, in standard errors of the pilot.
        identity: the smallest and largest eigenvalue of the Hessian relative to the variance of the
            estimating functions; all eigenvalues are one at the truth.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    fields: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    found: Bool[Array, "*k"]
    r_squared: Float[Array, "*k p"]
    distance: Float[Array, "*k"]
    identity: Float[Array, "*k 2"]

    @property
    def accepted(self) -> Any:
        """Whether the design passes all checks and is used."""
        xp = jnp if is_traced(self) else np
        low, high = xp.asarray(self.identity)[..., 0], xp.asarray(self.identity)[..., 1]
        passed = (
            xp.all(xp.asarray(self.r_squared) > LEAST_R_SQUARED, axis=-1)
            & (xp.asarray(self.distance) < FARTHEST)
            & (low > 1 / APART)
            & (high < APART)
            & self.found
        )
        return passed if is_traced(passed) or np.ndim(passed) else bool(passed)

    @property
    def reason(self) -> str:
        """Why the design was rejected and the pilot kept; empty if it was accepted."""
        if self.accepted:
            return ""
        if not self.found:
            return "the pilot fit found no minimum"
        r_squared = np.nan_to_num(np.asarray(self.r_squared), nan=-np.inf)
        if not r_squared.min() > LEAST_R_SQUARED:
            worst = self.names[int(r_squared.argmin())]
            return (
                f"the fields explain too little of the Fisher score of {worst}: leave-one-out R² is "
                f"{r_squared.min():.2f}, but must exceed {LEAST_R_SQUARED:g}"
            )
        if not float(self.distance) < FARTHEST:
            return (
                f"the designed estimate is {float(self.distance):.1f} standard errors of the pilot away from it, but "
                f"must be within {FARTHEST:g}"
            )
        low, high = (float(value) for value in self.identity)
        return (
            f"the information identity fails: its eigenvalues range from {low:.2g} to {high:.2g}, but must lie "
            f"between {1 / APART:g} and {APART:g}"
        )

    def __str__(self) -> str:
        if not self.accepted:
            return f"pilot kept, because {self.reason}"
        used = f"{self.fields} fields for {self.n} observations"
        shown = ", ".join(
            f"{name} {value:.3f}" for name, value in zip(self.names, self.r_squared, strict=True)
        )
        low, high = (float(value) for value in self.identity)
        return (
            f"accepted, {used}; leave-one-out R² (estimated efficiency) {shown}; {float(self.distance):.2g} standard "
            f"errors from the pilot; information identity {low:.2f} to {high:.2f}"
        )


LEAST_R_SQUARED, FARTHEST, APART = 0.5, 4.0, 4.0
"""Bounds for accepting a design: the least R² of any parameter, the largest distance from the pilot
in its standard errors, and the largest factor by which the information identity may fail.

Set once, after the first failures (mixtures with separated modes, small samples), and not tuned
since; on seven other models at least 98.5 % of the designs passed.
"""


class Designed(AbstractKernel):
    """K = Σ_j f_j f_jᵀ + η k: fields learned by `ms.design` plus a little of the pilot's kernel.

    If the design was rejected, the fields are zero and K = k.

    Attributes:
        fields: Σ_j f_j f_jᵀ.
        kernel: η k.
        theta: the estimate of the design, at which a fit starts.
        checks: the criteria of the design; `str(checks)` describes them in words.
    """

    fields: FiniteRank
    kernel: AbstractKernel
    theta: Float[Array, "*k p"]
    checks: Checks

    def __repr__(self) -> str:
        if is_traced(self):
            return f"<traced>{self.kernel!r}"
        return f"{self.kernel!r} and learned fields, {self.checks}"

    @property
    def designed_at(self) -> Any:
        return self.theta

    @property
    def design_checks(self) -> Checks:
        return self.checks

    def __call__(self, x: Point, y: Point) -> Field:
        return self.fields(x, y) + as_matrix(jnp.asarray(self.kernel(x, y)), x.shape[0])

    def terms(self) -> tuple[Term | Span, ...] | None:
        return join_terms(self.fields.terms(), self.kernel.terms())
