"""Whether a loss is quadratic in the parameters, decided by tracing its features."""

import jax
import jax.numpy as jnp

from .._types import Array, LogDensity
from ..params import from_real, names, unwrap
from .diffusions import AbstractDiffusion
from .operator import features


def is_affine(diffusion: AbstractDiffusion, model: LogDensity, d: int) -> bool:
    """Whether the features (b, m) are affine in η, so that the loss is quadratic.

    Their second derivative is traced, not evaluated: if they are affine, it does not depend on its
    directions.
    """
    p = len(names(model))
    at = lambda eta: unwrap(from_real(model, eta))

    def second(eta: Array, v: Array, w: Array, x: Array):
        of_eta = lambda eta: features(at(eta), diffusion, x)
        first = lambda eta: jax.jvp(of_eta, (eta,), (v,))[1]
        return jax.jvp(first, (eta,), (w,))[1]

    vector, point = jax.ShapeDtypeStruct((p,), jnp.float32), jax.ShapeDtypeStruct((d,), jnp.float32)
    jaxpr = jax.make_jaxpr(second)(vector, vector, vector, point).jaxpr
    reached = {jaxpr.invars[2]}
    for equation in jaxpr.eqns:
        if any(v in reached for v in equation.invars if not hasattr(v, "val")):
            reached.update(equation.outvars)
    return not any(v in reached for v in jaxpr.outvars if not hasattr(v, "val"))
