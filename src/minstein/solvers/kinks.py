"""Losses with kinks: whether the Hessian at a minimum predicts how the loss rises, and standard
errors if it does not.

A density with a kink or a cusp, such as exp(−|x − θ|^1.2), has second derivatives that are infinite
at an observation and uninformative about the mean over many. Differences over a standard error do:
they smooth the loss at the scale on which the estimate varies.
"""

import dataclasses
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Theta
from ..data.compiling import compiled
from ..discrepancies.base import AbstractObjective, Second
from ..params import from_real, theta
from . import AbstractIterative
from .sandwich import sandwich

_SCALES = (1.0, 0.5, 0.25)
"""Distances from the minimum at which the loss is evaluated, in standard errors."""

_FEW = 4
"""Parameters up to which differences replace derivatives: 2p² evaluations for each of two rounds.
"""

_SEVERAL = 6
"""Parameters up to which the program of a search, which also computes derivatives, serves to
evaluate the loss; for more, compiling another program takes less time.
"""

_ROWS = 2048
"""Rows up to which two evaluations for each of more parameters take little time."""

_ROUNDING = 1e3
"""The error of a sum over pairs, in units of its last digit."""

_FAITHFUL = 0.05
"""The relative difference between the rise over a standard error and the Hessian's prediction that
needs no closer look: the relative error of the standard error is then as small, which is less than
its sampling error for fewer than 200 observations.
"""

_SMOOTH = (0.0, 0.5, 0.2)
"""The shares of that difference that may remain at the other scales: if the loss is smooth it falls
with the square, to 1/4 and 1/16.
"""

_STEP = 2.0
"""The distance over which differences are taken, in standard errors; 1, 2 and 3 give similar results.
"""


class Axes(NamedTuple):
    """Standard errors of θ around η, with ∂θ/∂η, and the rise of the loss over each of them by the
    Hessian.
    """

    eta: Float[Array, " p"]
    jacobian: Float[Array, "p p"]
    errors: Float[Array, " p"]
    rise: Float[Array, " p"]

    def steps(self) -> Float[np.ndarray, "p p"]:
        """Steps of one standard error along each parameter, as rows in η, computed by NumPy to avoid
        compiling.
        """
        return np.linalg.solve(np.asarray(self.jacobian), np.diag(np.asarray(self.errors))).T


def axes_at(
    target: AbstractObjective, eta: Theta, H: Float[Array, "p p"], cov: Float[Array, "p p"]
) -> Axes:
    """The axes for a Hessian and a covariance on the natural scale."""
    jacobian = jax.jacfwd(lambda eta: theta(from_real(target.model, eta)))(eta)
    return Axes(eta, jacobian, jnp.sqrt(jnp.diagonal(cov)), jnp.diagonal(H) * jnp.diagonal(cov) / 2)


def can_look(target: AbstractObjective, solver: AbstractIterative, p: int) -> bool:
    """Whether evaluating the loss along each parameter costs little, and derivatives can be trusted."""
    quick = target.sample.all_at_once and (target.sample.x.shape[0] <= _ROWS or p <= _FEW)
    return quick and solver.slack is not None


def rises_as_predicted(target: AbstractObjective, axes: Axes, H: Float[Array, "p p"]) -> Array:
    """Whether the loss rises as its Hessian predicts if all parameters move together by a standard
    error, or differs from the prediction as a smooth loss does.

    For fits that JAX traces, rows on disk and many parameters, for which evaluations along each
    parameter are impossible or too expensive. It takes three evaluations, and four more in doubt.
    """
    step = jnp.linalg.solve(axes.jacobian, axes.errors)
    expected, here = axes.errors @ H @ axes.errors / 2, target(axes.eta)
    rounding = _ROUNDING * jnp.finfo(here.dtype).eps * jnp.abs(here)

    def off(scale: float) -> Array:
        ends = jnp.stack([axes.eta + scale * step, axes.eta - scale * step])
        return jnp.abs((jnp.mean(jax.lax.map(target, ends)) - here) / scale**2 - expected)

    first = off(_SCALES[0])
    smooth = lambda: jnp.all(
        jnp.stack(
            [
                off(scale) <= share * first + rounding / scale**2
                for scale, share in zip(_SCALES[1:], _SMOOTH[1:], strict=True)
            ]
        )
    )
    near = first <= _FAITHFUL * expected + rounding
    if target.sample.blocks is not None:  # all devices must evaluate the same
        return near | smooth()
    return jax.lax.cond(near, lambda: jnp.asarray(True), smooth)


def look_again(
    target: AbstractObjective,
    solver: AbstractIterative,
    vector: Theta,
    value: float,
    cov: Float[Array, "p p"],
    axes: Axes,
    rows: int,
) -> tuple[Float[Array, "p p"], bool]:
    """Return the covariance, and whether the loss is lower nearby.

    The covariance is computed from differences if the loss has kinks, and is NaN if those fail too.
    For few parameters the loss is computed by the program of the search, `rows` rows at a time.
    """
    rounding = _ROUNDING * float(jnp.finfo(cov.dtype).eps) * abs(value)
    rises = lambda axes, scale: _losses(target, solver, axes, scale, rows) - value
    found = [rises(axes, _SCALES[0])]
    if _is_faithful(found[0].mean(0), np.asarray(axes.rise), rounding):
        return cov, False
    found += [rises(axes, scale) for scale in _SCALES[1:]]
    if _is_smooth(np.stack([rise.mean(0) for rise in found]), np.asarray(axes.rise), rounding):
        return cov, False
    nothing = jnp.full_like(cov, jnp.nan)
    if not _can_difference(target, len(vector)):
        return nothing, bool(np.min(found) < -rounding)
    new, axes = _by_differences(target, axes.eta, vector, jnp.sqrt(jnp.diagonal(cov)))
    if np.isfinite(new).all():
        found += [rises(axes, scale) for scale in _SCALES]
    near = _is_near(found[-len(_SCALES)].mean(0), np.asarray(axes.rise))
    lower = bool(np.nanmin(found) < -rounding)
    return new if near and not lower else nothing, lower


def _can_difference(target: AbstractObjective, p: int) -> bool:
    """Whether differences may replace derivatives."""
    return p <= _FEW and target.has_zeroth


def _losses(
    target: AbstractObjective, solver: AbstractIterative, axes: Axes, scale: float, rows: int
) -> Float[np.ndarray, "2 p"]:
    """The loss on either side of the estimate along each parameter."""
    eta, steps = np.asarray(axes.eta), scale * axes.steps()
    points, values = np.concatenate([eta + steps, eta - steps]), []
    if len(eta) > _SEVERAL:
        return np.asarray(_values(target, points)).reshape(2, -1)
    for start in range(0, len(points), rows):
        part = points[start : start + rows]
        padded = np.concatenate([part, np.broadcast_to(eta, (rows - len(part), eta.size))])
        values.append(solver.look(target, padded, np.arange(len(part))).value[: len(part)])
    return np.concatenate(values).reshape(2, -1)


@compiled(often=True)
def _values(target: AbstractObjective, points: Float[Array, "m p"]) -> Float[Array, " m"]:
    return jax.lax.map(target, jnp.asarray(points))


def _is_faithful(
    rise: Float[np.ndarray, " p"], expected: Float[np.ndarray, " p"], rounding: float
) -> bool:
    """Whether the loss rises over a standard error as its Hessian predicts."""
    return bool(np.all(np.abs(rise - expected) <= _FAITHFUL * expected + rounding))


def _is_near(rise: Float[np.ndarray, " p"], expected: Float[np.ndarray, " p"]) -> bool:
    """Whether the rise over a standard error is within a half of what differences over two predict."""
    return bool(np.all(np.abs(rise - expected) <= expected / 2))


def _is_smooth(
    rises: Float[np.ndarray, "3 p"], expected: Float[np.ndarray, " p"], rounding: float
) -> bool:
    """Whether the error of the Hessian vanishes at smaller scales, so that there is no kink."""
    square = np.array(_SCALES)[:, None] ** 2
    off = np.abs(rises / square - expected)
    with np.errstate(invalid="ignore"):  # a loss that is infinite nearby is not smooth
        allowed = np.array(_SMOOTH)[:, None] * off[0] + rounding / square
    return bool(np.all((off[1:] <= allowed[1:]) | (off[0] <= _FAITHFUL * expected)))


@compiled
def _by_differences(
    target: AbstractObjective, eta: Theta, vector: Theta, errors: Float[Array, " p"]
) -> tuple[Float[Array, "p p"], Axes]:
    """The covariance and its axes from differences over two standard errors, recomputed once.

    The covariance is NaN if the Hessian is not positive definite.
    """
    natural, n = dataclasses.replace(target, natural=True), target.sample.size
    first = sandwich(_differences(natural, vector, _STEP * errors), n)[0]
    second = _differences(natural, vector, _STEP * jnp.sqrt(jnp.diagonal(first)))
    fine = jnp.linalg.eigvalsh(second.hessian)[0] > 0
    cov = jnp.where(fine, sandwich(second, n)[0], jnp.nan)
    return cov, axes_at(target, eta, second.hessian, cov)


def _differences(target: AbstractObjective, vector: Theta, steps: Float[Array, " p"]) -> Second:
    """The loss to second order, by central differences over these steps."""
    p = vector.size
    units = np.eye(p)
    pairs = list(itertools.combinations(range(p), 2))
    corners = [
        s * units[j] + t * units[k]
        for j, k in pairs
        for s, t in ((1, 1), (-1, -1), (1, -1), (-1, 1))
    ]
    points = np.concatenate([np.zeros((1, p)), units, -units, np.array(corners).reshape(-1, p)])
    value, rows = jax.lax.map(target.zeroth, vector + points * steps)
    up, down, corner = value[1 : 1 + p], value[1 + p : 1 + 2 * p], value[1 + 2 * p :].reshape(-1, 4)
    hessian = jnp.diag(up + down - 2 * value[0])
    for (j, k), around in zip(pairs, corner, strict=True):
        mixed = (around[0] + around[1] - around[2] - around[3]) / 4
        hessian = hessian.at[j, k].set(mixed).at[k, j].set(mixed)
    projections = (rows[1 : 1 + p] - rows[1 + p : 1 + 2 * p]) / (2 * steps[:, None])
    return Second(hessian / steps[:, None] / steps, (up - down) / (2 * steps), projections)
