"""Stochastic natural gradient descent, in the Stein metric."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from .._types import Scalar, is_traced
from .stochastic import AbstractStochastic, check_settings


class RiemannianSGD(AbstractStochastic):
    """Stochastic natural gradient descent of the paper: θ ← R_θ(−γ ĝ⁻¹ d̂), both estimated on a
    minibatch.

    d̂ is the gradient of the loss and ĝ the information tensor, as a V-statistic, which is positive
    semi-definite; because it may be near singular, `ridge` times its mean diagonal is added to it. The
    Hessian of the loss is 2g, so γ = ½ is a Newton step, and from γ = 1 on the iterates oscillate.
    The retraction R is linear for parameters on ℝ; for positive and positive-definite ones it is
    linear in the logarithm, or in the logarithmic Cholesky factor, so that constraints always hold.

    Args:
        step: γ, a number or a function of the step's index such as `lambda t: 0.5 / (1 + t / 100)`.
        steps, batch, average, checkpoint, every: as for `SGD`.
        ridge: what is added to ĝ, in units of its mean diagonal.

    >>> solver = ms.RiemannianSGD(0.25, steps=100, batch=32)  # ms.fit(model, x, solver=solver, key=key)
    >>> solver.needs_key
    True
    """

    step: float | Scalar | Callable = 0.1
    steps: int = eqx.field(static=True, default=200)
    batch: int = eqx.field(static=True, default=100)
    ridge: float = 1e-6
    average: float = eqx.field(static=True, default=0.0)
    checkpoint: str | None = eqx.field(static=True, default=None)
    every: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        check_settings(self)
        if not callable(self.step) and not is_traced(self.step) and not self.step > 0:
            raise ValueError(f"RiemannianSGD: step must be positive, got {float(self.step):g}.")

    def begin(self, eta):
        return ()

    def move(self, objective, eta, inner, t):
        jet = objective.jet(eta)
        g = jet.metric + self.ridge * jnp.mean(jnp.diagonal(jet.metric)) * jnp.eye(
            eta.size, dtype=eta.dtype
        )
        step = self.step(t) if callable(self.step) else self.step
        return eta - step * jnp.linalg.solve(g, jet.gradient), inner, jet.value
