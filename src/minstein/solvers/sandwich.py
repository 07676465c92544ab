"""The sandwich covariance of an estimate, from the Hessian of the loss that was minimised."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Scalar, namespace
from ..discrepancies.base import Second


def sandwich(second: Second, n: Scalar) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    """Return H⁻¹ΣH⁻¹/n, with Σ the second moment of the contributions to the gradient, and the Newton
    step.

    For a U-statistic of degree two a contribution is twice the Hájek projection, which gives the paper's
    g⁻¹Σg⁻¹; for DSM it is the gradient of its term, which gives ¼g⁻¹Σg⁻¹ (the paper prints it
    without the ¼).
    """
    w, Q = jnp.linalg.eigh(second.hessian)
    solve = lambda B: Q / w @ (Q.T @ B)
    influence = solve(second.projections)
    return influence @ influence.T / n**2, -solve(second.gradient)


def parameters_used(hessian: Float[Array, "p p"]) -> Float[Array, " p"]:
    """The number of parameters in the estimating equation of each one: the non-zero entries in its
    row of the Hessian.

    It is at least two if there are two parameters: location and scale of a normal distribution
    share their equations, although at the estimate the entry between them vanishes.
    """
    xp = namespace(hessian)
    unit = xp.sqrt(xp.abs(xp.diagonal(hessian)))
    unit = xp.where(unit > 0, unit, 1)
    nothing = np.sqrt(
        np.finfo(hessian.dtype).eps
    )  # what is there has the size 1/√n, what is not that of rounding
    entries = xp.sum(xp.abs(hessian / unit[:, None] / unit) > nothing, axis=1)
    return xp.maximum(entries, min(2, len(hessian))).astype(hessian.dtype)
