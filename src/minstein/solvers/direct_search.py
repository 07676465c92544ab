"""Search by comparing values alone, for a loss that is not differentiable."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array, Scalar, Theta
from ..data.sample import Sample
from ..discrepancies.base import AbstractObjective
from ..params import unconstrained
from . import status
from ._solver import RUNNING, AbstractIterative, ran_away
from ._units import spread


class Inner(NamedTuple):
    """The unit of each parameter, the step in these units, and whether it has not yet looked wider."""

    unit: Float[Array, " p"]
    h: Scalar
    fresh: Bool[Array, ""]


class DirectSearch(AbstractIterative):
    """Compass search: try a step both ways along each parameter, move to the best, halve the step
    if none is better.

    For a loss with jumps or kinks in θ, such as that of a Laplace location, where derivatives do
    not lead to the minimum. It uses no derivatives, so there are standard errors only if the Hessian
    exists. It is meant for a few parameters.

    Before the first step, and whenever the steps have become small, it takes a wider look along
    each parameter: at many distances and, for parameters that may be locations, between
    neighbouring observations, between which such a loss is flat. It has converged if none of these
    places is better.

    Args:
        max_steps: the iteration limit.
        tolerance: the last step, in units in which the loss changes by what one observation
            contributes.
        starts: further random starts (needs `key`).
        wide: whether to take wider looks; without them the search is local, and may stop on a
            plateau.

    >>> solver = ms.DirectSearch()                            # ms.fit(model, x, solver=solver)
    >>> solver.needs_key
    False
    """

    flat: ClassVar[bool] = True
    slack: ClassVar[Any] = None
    max_steps: int = eqx.field(static=True, default=500)
    tolerance: float = 1e-7
    starts: int = eqx.field(static=True, default=0)
    wide: bool = eqx.field(static=True, default=True)

    def begin(self, objective, eta):
        unit = spread(objective, eta, objective.jet(eta))
        h = jnp.zeros((), eta.dtype) if self.wide else jnp.ones((), eta.dtype)
        return objective(eta), Inner(unit, h, jnp.asarray(self.wide))

    def spread(self, objective, state):
        return state.inner.unit

    def step(self, objective, state):
        unit, h, fresh = state.inner
        wide = h < self.tolerance
        compass = jnp.concatenate(
            [jnp.eye(unit.size, dtype=unit.dtype), -jnp.eye(unit.size, dtype=unit.dtype)]
        )
        trials = state.eta + h * unit * compass
        if self.wide:
            trials = jnp.concatenate([trials, _around(objective, state.eta, unit)])
        eta, value = _best(
            objective, trials, jnp.where(wide, len(trials), len(compass)), state.eta, state.value
        )
        better = value < state.value
        code = jnp.where(wide & ~better & ~fresh, status.CONVERGED, RUNNING)
        code = jnp.where(jnp.isfinite(state.value), code, status.NOT_FINITE)
        gone = ran_away(objective, state.origin, eta)
        h = jnp.where(wide, 1, jnp.where(better, 1.5 * h, h / 2))
        return eta, value, Inner(unit, h, fresh & ~wide), jnp.where(gone, status.RUNAWAY, code)


def _best(
    objective: AbstractObjective,
    trials: Float[Array, "t p"],
    count: Array,
    eta: Theta,
    value: Scalar,
) -> tuple[Theta, Scalar]:
    """The best of the present vector and the first `count` trials; a traced number, so that one
    program serves all.
    """

    def body(i: Array, best: tuple[Theta, Scalar]) -> tuple[Theta, Scalar]:
        new = objective(trials[i])
        better = new < best[1]  # false for NaN
        return jnp.where(better, trials[i], best[0]), jnp.where(
            better & jnp.isfinite(new), new, best[1]
        )

    return jax.lax.fori_loop(0, count, body, (eta, value))


_DISTANCES = 2.0 ** np.arange(-12, 5)
"""Distances of a wider look, in units in which the loss changes by what one observation
contributes.
"""

_NEAR, _FAR = 32, 64
"""How many gaps between observations it looks at: on either side of the present value, and at
quantiles.
"""


def _around(objective: AbstractObjective, eta: Theta, unit: Theta) -> Float[Array, "t p"]:
    """Points along each parameter: at many distances and, if it may be a location, in the gaps
    between observations.
    """
    distances = jnp.asarray(np.concatenate([_DISTANCES, -_DISTANCES]), eta.dtype)
    at = lambda j, values: jnp.broadcast_to(eta, (values.size, eta.size)).at[:, j].set(values)
    found = [at(j, eta[j] + unit[j] * distances) for j in range(eta.size)]
    if objective.sample.all_at_once:
        d = objective.sample.x.shape[1]
        columns = [part for part in unconstrained(objective.model) if part.size % d == 0]
        places = [(j, k % d) for part in columns for k, j in enumerate(part)]
        found += [at(j, _gaps(objective.sample, c, eta[j])) for j, c in places]
    return jnp.concatenate(found)


def _gaps(sample: Sample, coordinate: int, here: Array) -> Float[Array, " g"]:
    """Midpoints between neighbouring observations of one coordinate: near a given value, and at
    quantiles.
    """
    x = jnp.sort(jnp.where(sample.real, sample.x[:, coordinate], jnp.inf))
    last = sample.n - 2
    near = jnp.searchsorted(x, here) - 1 + np.arange(-_NEAR, _NEAR + 1)
    far = jnp.arange(_FAR + 1) * last // _FAR
    index = jnp.clip(jnp.concatenate([near, far]), 0, jnp.maximum(last, 0))
    return (x[index] + x[jnp.minimum(index + 1, sample.n - 1)]) / 2
