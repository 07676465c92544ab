"""Search by comparing values alone, for a loss that is not differentiable."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import status
from ..params import reach
from ._solver import RUNNING, AbstractIterative, ran_away
from ._units import spread


class DirectSearch(AbstractIterative):
    """Compass search: try a step both ways along each parameter, move to the best, halve the step where none is better.

    For a loss with jumps or kinks in θ, such as that of a Laplace location, where derivatives do not lead to the
    minimum. It needs no derivative, and finds none: standard errors come with it only where the Hessian exists. Meant
    for a few parameters.

    Args:
        max_steps: the iteration limit.
        tolerance: the last step, in units in which the loss changes by what one observation contributes.
        starts: further random starts (needs `key`).

    >>> solver = ms.DirectSearch()                            # ms.fit(model, x, solver=solver)
    >>> solver.needs_key
    False
    """

    max_steps: int = eqx.field(static=True, default=500)
    tolerance: float = 1e-7
    starts: int = eqx.field(static=True, default=0)

    @property
    def slack(self):
        return None

    def begin(self, objective, eta):
        unit = spread(objective, eta, objective.jet(eta))
        return objective(eta), (unit, jnp.ones((), eta.dtype))

    def step(self, objective, state):
        unit, h = state.inner
        compass = jnp.concatenate([jnp.eye(unit.size, dtype=unit.dtype), -jnp.eye(unit.size, dtype=unit.dtype)])
        trials = state.eta + h * unit * compass
        values = jax.lax.map(objective, trials)
        values = jnp.where(jnp.isfinite(values), values, jnp.inf)
        best = jnp.argmin(values)
        better = values[best] < state.value
        eta = jnp.where(better, trials[best], state.eta)
        h = jnp.where(better, 1.5 * h, h / 2)
        code = jnp.where(h < self.tolerance, status.CONVERGED, RUNNING)
        code = jnp.where(jnp.isfinite(state.value), code, status.NOT_FINITE)
        gone = ran_away(objective, state.origin, eta, jnp.asarray(reach(objective.model)))
        value = jnp.where(better, values[best], state.value)
        return eta, value, (unit, h), jnp.where(gone, status.RUNAWAY, code)
