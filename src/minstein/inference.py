"""Standard errors: the sandwich covariance of an estimate, from the Hessian of the loss that was minimised."""

import jax.numpy as jnp
from jaxtyping import Float

from ._types import Array, Scalar
from .objective import Second


def sandwich(second: Second, n: Scalar) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    """H⁻¹ΣH⁻¹/n, where Σ is the second moment of each observation's share in the gradient, and the Newton step left.

    For a U-statistic of degree two the share is twice the Hájek projection, which gives the paper's g⁻¹Σg⁻¹; for DSM it
    is the gradient of its term, which gives ¼g⁻¹Σg⁻¹ (the paper prints it without the ¼).
    """
    w, Q = jnp.linalg.eigh(second.hessian)
    solve = lambda B: Q / w @ (Q.T @ B)
    influence = solve(second.projections)
    return influence @ influence.T / n**2, -solve(second.gradient)
