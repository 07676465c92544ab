"""Standard errors: the sandwich covariance of an estimate, from the Hessian of the loss that was
minimised.

With it comes how many parameters share the equation of each estimate.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Scalar, namespace
from .objective import Second


def sandwich(second: Second, n: Scalar) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    """H⁻¹ΣH⁻¹/n, where Σ is the second moment of each observation's share in the gradient, and the
    Newton step left.

    For a U-statistic of degree two the share is twice the Hájek projection, which gives the paper's
    g⁻¹Σg⁻¹; for DSM it is the gradient of its term, which gives ¼g⁻¹Σg⁻¹ (the paper prints it
    without the ¼).
    """
    w, Q = jnp.linalg.eigh(second.hessian)
    solve = lambda B: Q / w @ (Q.T @ B)
    influence = solve(second.projections)
    return influence @ influence.T / n**2, -solve(second.gradient)


def parameters_used(hessian: Float[Array, "p p"]) -> Float[Array, " p"]:
    """How many parameters the estimating equation of each one involves: the entries in its row of
    the Hessian.

    Two are counted at least, if there are two: location and scale of a normal distribution share
    their equations, although at the estimate the entry between them vanishes.
    """
    xp = namespace(hessian)
    unit = xp.sqrt(xp.abs(xp.diagonal(hessian)))
    unit = xp.where(unit > 0, unit, 1)
    nothing = np.sqrt(
        np.finfo(hessian.dtype).eps
    )  # what is there has the size 1/√n, what is not that of rounding
    entries = xp.sum(xp.abs(hessian / unit[:, None] / unit) > nothing, axis=1)
    return xp.maximum(entries, min(2, len(hessian))).astype(hessian.dtype)
