"""What a choice of discrepancy costs: the efficiency of an estimate, and its gross-error sensitivity."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from . import errors
from ._types import Array, LogDensity
from .design import design
from .diffusions import Constant, Within
from .discrepancies import DSM, SM
from .discrepancy import AbstractDiscrepancy
from .fit import fit
from .kernels.finite_rank import LEAST_R_SQUARED
from .models._family import median_and_mad
from .objective import objective
from .params import names, theta, to_real, unwrap, with_theta
from .result import Fit
from .robustness import robustness
from .sample import Sample, read, run
from .score_regression import basis_on, features_at, learn, pilot_discrepancy
from .spaces import space_of


class Efficiency(NamedTuple):
    """How good an estimate is, relative to that of an efficient design, if the model is true.

    Attributes:
        joint: (det C*/det C)^(1/p) of the covariances of the efficient design and of this estimate, NaN where the
            fields of a design do not explain the Fisher score, so that the best is not known.
        each: the ratio of variances for each parameter.
        r_squared: how much of the Fisher score the fields explain, leaving one out: how far to trust the above.
        sensitivity: the largest influence of one observation on each parameter, ∞ where it has no bound, in units of
            the √n times the standard error of an efficient estimate: for the mean of a normal distribution, of σ.
    """

    joint: float
    each: dict[str, float]
    r_squared: dict[str, float]
    sensitivity: dict[str, float]

    @property
    def largest(self) -> float:
        """The largest sensitivity of any parameter."""
        return max(self.sensitivity.values())

    @property
    def message(self) -> str:
        """In words."""
        if np.isnan(self.joint):
            return (
                f"Efficiency is not known: the fields of a design explain too little of the Fisher score, "
                f"leave-one-out R² {min(self.r_squared.values()):.2f}. No design would be accepted here."
            )
        reach = (
            "has no limit" if np.isinf(self.largest) else f"is at most {self.largest:.3g} standard deviations over n"
        )
        cost = 1 - np.sqrt(min(self.each.values()))
        wider = f"; an efficient design would cut a standard error by up to {100 * cost:.0f} %" if cost > 0.005 else ""
        return f"Joint efficiency {self.joint:.2f}{wider}. The influence of one observation {reach}."

    def __repr__(self) -> str:
        rows = [
            f"{name}: efficiency {self.each[name]:.3f}, sensitivity {self.sensitivity[name]:.3g}" for name in self.each
        ]
        return "\n".join([self.message, *rows])


def efficiency(
    discrepancy: AbstractDiscrepancy | None, model: LogDensity, x: Any, *, support: tuple[Any, Any] | None = None
) -> Efficiency:
    """Fit a model by a discrepancy and estimate what it costs against an efficient design, and what outliers may do.

    The covariance of an estimate with estimating functions G is (Cov(S, G) Cov(G)⁻¹ Cov(G, S))⁻¹/n, where S is the
    Fisher score. S is estimated by least squares on Stein features at the fit, as in `ms.design`.

    Args:
        discrepancy: any that has standard errors; None for the default of `ms.fit`.
        model: log p up to a constant, where the fit starts.
        x: the sample.
        support: as for `ms.design`.

    >>> x = np.linspace(-2, 2, 60)
    >>> round(ms.efficiency(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), x).joint, 3)     # that of the mean
    1.0
    """
    x = read(x, space_of(model))
    if space_of(model).discrete:
        raise errors.needs_continuous("efficiency", space_of(model))
    found = fit(model, x, discrepancy, progress=False)
    if found.cov is None:
        raise TypeError(f"An efficiency is that of an estimate with standard errors. {found.discrepancy.irregular}")
    return efficiency_of(found, x, support=support)


def efficiency_of(found: Fit, x: Float[Array, "n d"], *, support: tuple[Any, Any] | None = None) -> Efficiency:
    """`efficiency`, of a fit that has been made."""
    pilot = pilot_discrepancy(found.model, x, support)
    best, own, r_squared = run(_informations, (found.discrepancy, pilot, basis_on(x, pilot)), found.model, x)
    variances = np.diag(np.linalg.inv(best))
    known = np.isfinite(r_squared).all() and r_squared.min() > LEAST_R_SQUARED
    joint = (np.linalg.det(own) / np.linalg.det(best)) ** (1 / len(best)) if known else np.nan
    each = variances / np.diag(np.linalg.inv(own)) if known else np.full(len(best), np.nan)
    largest = np.array(list(robustness(found, x).sensitivity.values())) / np.sqrt(variances)
    by_name = lambda values: dict(zip(names(found.model), np.asarray(values).tolist(), strict=True))
    return Efficiency(float(joint), by_name(each), by_name(r_squared), by_name(largest))


class Comparison(NamedTuple):
    """Several ways of estimating the same parameters from the same data.

    Attributes:
        rows: an `Efficiency` by name.
        notes: what was left out, and why.
    """

    rows: dict[str, Efficiency]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        width = max(map(len, self.rows), default=0)
        head = f"{'':<{width}}  efficiency  sensitivity"
        lines = [f"{name:<{width}}  {e.joint:10.2f}  {e.largest:11.3g}" for name, e in self.rows.items()]
        return "\n".join([head, *lines, *self.notes])


def compare(
    model: LogDensity,
    x: Any,
    discrepancies: Mapping[str, AbstractDiscrepancy] | None = None,
    *,
    support: tuple[Any, Any] | None = None,
) -> Comparison:
    """Efficiency and sensitivity of several discrepancies, and of maximum likelihood.

    That of maximum likelihood is estimated without the normaliser, by the regression that `ms.design` is built on.

    Args:
        model: log p up to a constant, where fits start.
        x: the sample.
        discrepancies: by name; None means score matching, KSD by default, and both designs.
        support: as for `ms.design`.
    """
    x = read(x, space_of(model))
    designed = design(model, x, support=support)
    if discrepancies is None:
        sm = SM() if isinstance(designed.diffusion, Constant) else DSM(designed.diffusion)
        robust = design(model, x, "robust")
        pilot = pilot_discrepancy(model, x, support)
        discrepancies = {"score matching": sm, "KSD": pilot, "designed": designed, "robust": robust}
    rows, notes = {}, []
    for name, discrepancy in discrepancies.items():
        try:
            rows[name] = efficiency(discrepancy, model, x, support=support)
        except (errors.NotConverged, ValueError) as reason:
            notes.append(f"Without {name}: {reason}")
    found = fit(model, x, designed, throw=False, progress=False)
    if found.converged:
        rows["maximum likelihood"] = _of_likelihood(found, x, support)
    return Comparison(rows, tuple(notes))


def _of_likelihood(found: Fit, x: Float[Array, "n d"], support: tuple[Any, Any] | None) -> Efficiency:
    centre, spread = median_and_mad(np.asarray(x, np.float64))
    rays = np.concatenate([np.eye(found.d), -np.eye(found.d)]) * spread
    z = centre + _DISTANCES[:, None, None] * rays
    pilot = pilot_discrepancy(found.model, x, support)
    inside = _inside(pilot, z)
    tree = (pilot, basis_on(x, pilot), np.where(inside, z, x[0]).reshape(-1, found.d))
    best, own, scores, r_squared = run(_likelihood, tree, found.model, x)
    variances = np.diag(np.linalg.inv(best))
    sizes = np.abs(np.linalg.solve(own, scores.T)).reshape(len(best), *z.shape[:2])
    with np.errstate(divide="ignore", invalid="ignore"):
        grows = (np.log(sizes[:, -1] / sizes[:, -2]) > _GROWS).any(1)
    largest = np.where(grows, np.inf, sizes.max((1, 2))) / np.sqrt(variances)
    by_name = lambda values: dict(zip(names(found.model), np.asarray(values).tolist(), strict=True))
    joint = (np.linalg.det(own) / np.linalg.det(best)) ** (1 / len(best))
    each = variances / np.diag(np.linalg.inv(own))
    return Efficiency(float(joint), by_name(each), by_name(r_squared), by_name(largest))


_DISTANCES = np.append(np.linspace(0, 20, 101), [3e3, 1e4])
"""Distances from the median, in spreads, at which the influence on maximum likelihood is looked at."""

_GROWS = 0.05 * np.log(1e4 / 3e3)


def _inside(pilot: Any, z: Float[Array, "k r d"]) -> Any:
    """Which points are not beyond an edge of the support."""
    field = getattr(pilot.diffusion, "field", None)
    if not isinstance(field, Within):
        return np.ones((*z.shape[:2], 1), bool)
    return ((z > np.asarray(field.edges.low)) & (z < np.asarray(field.edges.high))).all(2, keepdims=True)


def _likelihood(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Array, Array, Array, Array]:
    """Informations of the fitted and of the whole Fisher score in θ, and the score at further points."""
    pilot, basis, z = tree
    features = features_at(pilot, basis, model, sample, to_real(model))
    found = learn(features)
    in_theta = lambda rows: jnp.linalg.solve(found.jacobian.T, rows.T)
    mean = jnp.sum(features.scores, 0) / sample.size
    whole = in_theta(sample.zero_padding(features.scores - mean))
    log_p = lambda vector, z: unwrap(with_theta(model, vector))(z)
    scores = jax.vmap(lambda z: jax.grad(log_p)(theta(model), z))(jnp.asarray(z))
    intercept = in_theta((mean - found.mean)[None])[:, 0]
    S = in_theta(found.fitted)
    return S @ S.T / sample.size, whole @ whole.T / sample.size, scores - intercept, found.r_squared


def _informations(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Array, Array, Array]:
    """The information in θ of the fitted Fisher score, and of the discrepancy's estimating functions."""
    discrepancy, pilot, basis = tree
    found = learn(features_at(pilot, basis, model, sample, to_real(model)))
    S = jnp.linalg.solve(found.jacobian.T, found.fitted.T)
    G = objective(discrepancy, model, sample, natural=True).second(theta(model)).projections
    G = sample.zero_padding_of_columns(G - jnp.sum(G, 1, keepdims=True) / sample.size)
    best, cross = S @ S.T / sample.size, S @ G.T / sample.size
    return best, cross @ jnp.linalg.solve(G @ G.T / sample.size, cross.T), found.r_squared
