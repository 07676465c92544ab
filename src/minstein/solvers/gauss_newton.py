"""Damped Gauss–Newton in the Stein metric."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Scalar, Theta
from ..discrepancies.base import AbstractObjective, Jet
from ..params import reach
from . import status
from ._solver import RUNNING, AbstractIterative, ran_away
from ._spectrum import Spectrum
from ._units import spread


class Inner(NamedTuple):
    jet: Jet
    spectrum: Spectrum
    damping: Scalar


class GaussNewton(AbstractIterative):
    """Gauss–Newton in the metric g that the discrepancy induces, with Levenberg–Marquardt damping.

    The Hessian of the loss is 2g near the truth, so the step is −½(g + λ diag g)⁻¹∇; λ falls if
    the loss follows its prediction and grows if it does not. g is taken as a V-statistic, which
    is positive semi-definite. A step and its value, gradient and metric cost one pass over the
    pairs, or a matrix product if the Gram matrix can be stored.

    It has converged when the next step would be below `tolerance` standard errors, roughly, and
    small against θ. If parameters are so large beside their standard errors that rounding hides
    such a step, it need only be below that rounding and a hundredth of a standard error.

    Args:
        max_steps: the iteration limit.
        tolerance: of the next step, in units of the noise of the loss; √ε of the precision if None.
        starts: further random starts (needs `key`) besides the model's own values and its family's
            start.

    >>> solver = ms.GaussNewton(starts=10)                    # ms.fit(model, x, solver=solver, key=key)
    >>> solver.needs_key
    True
    """

    max_steps: int = eqx.field(static=True, default=200)
    tolerance: float | None = None
    starts: int = eqx.field(static=True, default=0)

    def begin(self, objective, eta):
        zeros, one, eye = (
            jnp.zeros_like(eta),
            jnp.ones((), eta.dtype),
            jnp.eye(eta.size, dtype=eta.dtype),
        )
        nowhere = Jet(jnp.inf * one, zeros, eye, eye, 0 * one)
        return nowhere.value, Inner(nowhere, Spectrum(zeros + 1, zeros + 1, eye), 1e-3 * one)

    def step(self, objective, state):
        jet, s, damping = state.inner
        delta = self._shorten(objective, -s.solve(jet.gradient, damping) / 2)
        trial = objective.jet(state.eta + delta)
        predicted = -(jet.gradient @ delta + delta @ jet.metric @ delta)
        ratio = (jet.value - trial.value) / predicted
        tiny = predicted < 1e-10 * jet.noise  # below what differences of the loss can tell
        finite = (
            jnp.isfinite(trial.value)
            & jnp.all(jnp.isfinite(trial.gradient))
            & jnp.all(jnp.isfinite(trial.metric))
        )
        first = jnp.isinf(jet.value)
        accept = finite & ((ratio > 1e-4) | tiny | first)
        eta, jet = jax.tree.map(
            lambda new, old: jnp.where(accept, new, old),
            (state.eta + delta, trial),
            (state.eta, jet),
        )
        inner = Inner(jet, Spectrum.of(jet.metric), _damping(damping, ratio, accept))
        return eta, jet.value, inner, self._judge(objective, state.origin, eta, inner)

    def spread(self, objective, state):
        return spread(objective, state.eta, state.inner.jet)

    def _shorten(self, objective: AbstractObjective, delta: Theta) -> Theta:
        """The step, shortened if it would change a positive parameter by more than a factor of
        e².
        """
        bounded = jnp.where(jnp.isfinite(jnp.asarray(reach(objective.model))), jnp.abs(delta), 0)
        return delta / jnp.maximum(1, jnp.max(bounded) / 2)

    def _judge(
        self, objective: AbstractObjective, origin: Theta, eta: Theta, inner: Inner
    ) -> Array:
        """Converged, singular, stalled or run away, or else still running."""
        jet, s, damping = inner
        eps = jnp.finfo(jet.value.dtype).eps
        tolerance = jnp.sqrt(eps) if self.tolerance is None else self.tolerance
        solid = s.w > 10 * eta.size * eps
        slope = s.Q.T @ (s.unit * jet.gradient) / 2
        along = jnp.where(solid, slope / jnp.where(solid, s.w, 1), 0)
        rounding = eps * jnp.abs(eta)
        known = jnp.minimum(rounding @ jnp.abs(jet.metric) @ rounding, self.slack**2 * jet.noise)
        there = jnp.sum(along * slope) <= jnp.maximum(tolerance**2 * jet.noise, known)
        small = jnp.all(jnp.abs(s.unit * (s.Q @ along)) <= eps**0.375 * (1 + jnp.abs(eta)))
        code = jnp.where(damping > 1e10, status.STALLED, RUNNING)
        code = jnp.where(
            there & small, jnp.where(jnp.all(solid), status.CONVERGED, status.SINGULAR), code
        )
        gone = ran_away(objective, origin, eta)
        code = jnp.where(gone, status.RUNAWAY, code)
        return jnp.where(jnp.isinf(jet.value), status.NOT_FINITE, code)


def _damping(damping: Scalar, ratio: Scalar, accept: Array) -> Scalar:
    """Nielsen's rule: the better the prediction, the less damping; four times as much after a step
    that fails.
    """
    gain = jnp.maximum(1 / 5, 1 - (2 * ratio - 1) ** 3)
    return jnp.where(
        accept, damping * jnp.minimum(jnp.where(jnp.isfinite(gain), gain, 1), 2), 4 * damping
    )
