"""L-BFGS, for models with too many parameters for a matrix of second derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .._types import Theta
from ..discrepancies.base import AbstractObjective
from . import status
from ._solver import RUNNING, AbstractIterative, ran_away
from ._units import spread

SCALED = 100
"""Parameters up to which each is measured in units of its own spread."""


class LBFGS(AbstractIterative):
    """Limited-memory BFGS with a line search, by Optax.

    Up to 100 parameters it works in units in which the metric g has a unit diagonal at the start;
    with more, the noise of the loss is taken to be its size at the start divided by √n.

    Args:
        max_steps: the iteration limit.
        tolerance: of the gradient, in those units and those of the noise of the loss; ε^0.375 of
            the precision if None. It is raised to the gradient that rounding of the parameters causes,
            if that is larger.
        memory: how many earlier steps approximate the Hessian.
        starts: further random starts (needs `key`).

    >>> solver = ms.LBFGS(max_steps=500)                      # ms.fit(model, x, solver=solver)
    >>> solver.needs_key
    False
    """

    max_steps: int = eqx.field(static=True, default=500)
    tolerance: float | None = None
    memory: int = eqx.field(static=True, default=10)
    starts: int = eqx.field(static=True, default=0)

    def begin(self, objective, eta):
        unit, noise = _units(objective, eta)
        value, gradient = jax.value_and_grad(objective)(eta)
        state = self._optimiser().init(jnp.zeros_like(eta))
        state = optax.tree_utils.tree_set(state, value=value / noise, grad=unit * gradient / noise)
        return value, (unit, noise, state)

    def step(self, objective, state):
        unit, noise, inner = state.inner
        loss = lambda zeta: objective(state.origin + unit * zeta) / noise
        zeta = (state.eta - state.origin) / unit
        value, gradient = optax.value_and_grad_from_state(loss)(zeta, state=inner)
        updates, inner = self._optimiser().update(
            gradient, inner, zeta, value=value, grad=gradient, value_fn=loss
        )
        eta = state.origin + unit * (zeta + updates)
        new, slope = (
            optax.tree_utils.tree_get(inner, "value"),
            optax.tree_utils.tree_get(inner, "grad"),
        )
        eps = jnp.finfo(zeta.dtype).eps
        tolerance = eps**0.375 if self.tolerance is None else self.tolerance
        rounding = 2 * jnp.sum(
            eps * jnp.abs(eta) / unit
        )  # the Hessian in these units has the diagonal 2
        tolerance = jnp.maximum(tolerance, jnp.minimum(rounding, self.slack))
        code = jnp.where(jnp.max(jnp.abs(slope)) <= tolerance, status.CONVERGED, RUNNING)
        stuck = (jnp.all(eta == state.eta)) & (code == RUNNING)
        code = jnp.where(stuck | ~jnp.isfinite(new), status.STALLED, code)
        code = jnp.where(jnp.isfinite(state.value), code, status.NOT_FINITE)
        gone = ran_away(objective, state.origin, eta)
        return eta, new * noise, (unit, noise, inner), jnp.where(gone, status.RUNAWAY, code)

    def spread(self, objective, state):
        return state.inner[0] * jnp.sqrt(objective.sample.size)

    def _optimiser(self):
        return optax.lbfgs(memory_size=self.memory)


def _units(objective: AbstractObjective, eta: Theta):
    if eta.size > SCALED or objective.is_laborious(eta.size):
        return jnp.ones_like(eta), jnp.maximum(
            jnp.abs(objective(eta)) / jnp.sqrt(objective.sample.size), 1e-300
        )
    jet = objective.jet(eta)
    return spread(objective, eta, jet) / jnp.sqrt(objective.sample.size), jet.noise
