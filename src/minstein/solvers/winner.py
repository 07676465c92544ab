"""The best end of a search: its status, the loss around it, and its covariance."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from .._types import Array, Scalar, Theta
from ..data.compiling import compiled
from ..discrepancies.base import AbstractObjective
from ..params import from_real, theta
from . import Candidates, Chains, kinks, status
from .kinks import Axes, axes_at
from .sandwich import parameters_used, sandwich


class Ends(NamedTuple):
    """Where the search from each start ended, on the natural scale."""

    theta: Float[Array, "k p"]
    value: Float[Array, " k"]
    status: Int[Array, " k"]


class Outcome(NamedTuple):
    """The result of a search.

    `as_v` says whether the V-statistic replaced the U-statistic; `used` is the number of parameters
    in the equation of each estimate, known if the covariance is.
    """

    theta: Float[Array, " p"]
    value: Scalar
    status: Int[Array, ""]
    steps: Int[Array, ""]
    condition: Scalar
    cov: Float[Array, "p p"] | None
    trace: Float[Array, " t"]
    as_v: Bool[Array, ""]
    chains: Chains | None
    ends: Ends
    used: Float[Array, " p"] | None = None


@compiled
def judge_winner(
    target: AbstractObjective,
    candidates: Candidates,
    decisive: tuple[int, int],
    covariance: bool,
    slack: float | None,
    polish: bool,
    look: bool,
    doubt: bool,
) -> tuple[Outcome, Axes | None]:
    """Return the best end and, if `look`, its axes and its covariance, which is NaN if the loss does
    not rise as the Hessian predicts.
    """
    best = _winner(candidates, decisive)
    code, eta = candidates.status[best], candidates.eta[best]
    value, vector = candidates.value[best], theta(from_real(target.model, eta))
    seen = Seen(vector, value, code, candidates.condition[best])
    if look:
        seen = _look(target, eta, seen, covariance, slack, polish, doubt)
    thetas = jax.vmap(lambda eta: theta(from_real(target.model, eta)))(candidates.eta)
    outcome = Outcome(
        theta=seen.theta,
        value=seen.value,
        status=seen.status,
        steps=candidates.steps[best],
        condition=seen.condition,
        cov=seen.cov,
        trace=candidates.trace[best],
        as_v=jnp.asarray(False),
        chains=jax.tree.map(lambda part: part[best], candidates.chains),
        ends=Ends(thetas, candidates.value, candidates.status),
        used=seen.used,
    )
    return outcome, seen.axes


class Seen(NamedTuple):
    """The best end, and the shape of the loss around it."""

    theta: Float[Array, " p"]
    value: Scalar
    status: Int[Array, ""]
    condition: Scalar
    cov: Float[Array, "p p"] | None = None
    used: Float[Array, " p"] | None = None
    axes: Axes | None = None


def _look(
    target: AbstractObjective,
    eta: Theta,
    seen: Seen,
    covariance: bool,
    slack: float | None,
    polish: bool,
    doubt: bool,
) -> Seen:
    """Return the best end with the shape of the loss and, if `covariance`, the covariance."""
    natural = dataclasses.replace(target, natural=True)
    second = natural.second(seen.theta)
    shape, condition = _shape(second.hessian)
    code = seen.status
    if slack is not None:
        code = jnp.where(code == status.CONVERGED, shape, code)
    if not covariance:
        return seen._replace(status=code, condition=condition)
    vector, value = seen.theta, seen.value
    cov, newton = sandwich(second, target.sample.size)
    if polish:
        vector, value, newton = _polish(natural, vector, value, second.hessian, newton, cov)
    if slack is not None:
        code = _update_status(code, shape, newton, cov, slack)
    there = (code == status.CONVERGED) & (shape == status.CONVERGED)
    if slack is None:
        there &= _is_quadratic(natural, vector, second.hessian, cov)
    cov = jnp.where(there, cov, jnp.nan)
    axes = axes_at(target, eta, second.hessian, cov)
    if doubt and slack is not None:
        cov = jnp.where(kinks.rises_as_predicted(target, axes, second.hessian), cov, jnp.nan)
    return Seen(vector, value, code, condition, cov, parameters_used(second.hessian), axes)


def _winner(candidates: Candidates, decisive: tuple[int, int]) -> Int[Array, ""]:
    """Return the candidate of lowest loss; of several that are equal up to rounding, the first that
    converged.

    A decisive start counts even if it did not converge: if it went lower, another minimum is not
    the lowest. Other starts count only if they converged, because far from the data many losses
    are flat and low.
    """
    reached = jnp.min(jnp.where(jnp.isfinite(candidates.trace), candidates.trace, jnp.inf), axis=1)
    value = jnp.where(jnp.isfinite(candidates.value), candidates.value, reached)
    done = jnp.isin(candidates.status, jnp.asarray([status.CONVERGED, status.FINISHED]))
    rows = jnp.arange(value.size)
    value = jnp.where(done | ((rows >= decisive[0]) & (rows < decisive[1])), value, jnp.inf)
    lowest = jnp.min(value)
    ties = value <= lowest + _SAME * jnp.abs(lowest)
    return jnp.where(jnp.any(ties & done), jnp.argmax(ties & done), jnp.argmax(ties))


_SAME = 1e-10
"""Losses whose relative difference is smaller belong to the same minimum."""


def _shape(H: Float[Array, "p p"]) -> tuple[Int[Array, ""], Scalar]:
    """Return whether a Hessian is that of a minimum, as a status, and its condition number after
    scaling its diagonal to one.
    """
    unit = jnp.sqrt(jnp.abs(jnp.diagonal(H)))
    unit = jnp.where(unit > 0, unit, 1)
    w = jnp.linalg.eigvalsh(H / unit[:, None] / unit)
    flat = 10 * w.size * jnp.finfo(w.dtype).eps
    code = jnp.where(
        w[0] < -flat, status.SADDLE, jnp.where(w[0] > flat, status.CONVERGED, status.SINGULAR)
    )
    return code, jnp.where(w[0] > 0, w[-1] / w[0], jnp.inf)


def _polish(
    target: AbstractObjective,
    vector: Theta,
    value: Scalar,
    H: Float[Array, "p p"],
    newton: Theta,
    cov: Array,
) -> tuple[Theta, Scalar, Theta]:
    """Take Newton steps with a known Hessian; return the vector, its loss and the next step.

    A step is taken if it is short and the next is shorter.
    """
    size = lambda step: jnp.max(jnp.abs(step) / jnp.sqrt(jnp.diagonal(cov)))

    def body(step: Array, now: tuple) -> tuple:
        vector, _, newton = now
        there, gradient = jax.value_and_grad(target)(vector + newton)
        left = -jnp.linalg.solve(H, gradient)
        better = (size(newton) <= _IN_REACH) & (size(left) < size(newton))
        return jax.tree.map(
            lambda new, old: jnp.where(better, new, old), (vector + newton, there, left), now
        )

    return jax.lax.fori_loop(0, _POLISH, body, (vector, value, newton))


_IN_REACH, _POLISH = 1.0, 3
"""The longest Newton step, in standard errors, because a descent that ends farther away has failed;
and the number of steps, each of which leaves at most about a tenth of the distance.
"""


def _is_quadratic(
    target: AbstractObjective, vector: Theta, H: Float[Array, "p p"], cov: Float[Array, "p p"]
) -> Array:
    """Whether the loss one standard error away is as the Hessian predicts, unlike a loss with kinks."""
    steps = jnp.diag(jnp.sqrt(jnp.diagonal(cov)))
    values = jax.lax.map(target, jnp.concatenate([vector + steps, vector - steps]))
    rise = jnp.mean(values.reshape(2, -1), axis=0) - target(vector)
    expected = jnp.diagonal(H) * jnp.diagonal(cov) / 2
    return jnp.all(jnp.abs(rise - expected) <= expected / 2)


def _update_status(
    code: Array, shape: Array, newton: Theta, cov: Float[Array, "p p"], slack: float
) -> Int[Array, ""]:
    """The status, given the distance to the minimum in standard errors."""
    near = (shape == status.CONVERGED) & jnp.all(
        jnp.abs(newton) <= slack * jnp.sqrt(jnp.diagonal(cov))
    )
    code = jnp.where((code == status.CONVERGED) & ~near, status.LIMIT, code)
    return jnp.where((code == status.FINISHED) & near, status.CONVERGED, code)
