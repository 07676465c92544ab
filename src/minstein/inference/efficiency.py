"""The efficiency of an estimate and its gross-error sensitivity.

Both are computed at the fitted model, not on the data, which may be contaminated. With S the Fisher
score and G the contribution of an observation to the gradient of a discrepancy, both centred, the
influence function at the model is E[GSᵀ]⁻¹G, because E ∂G = −E[GSᵀ]. Neither needs the normaliser.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, LogDensity
from ..data.boundary import run
from ..data.reading import read
from ..data.rows import Data
from ..data.sample import Sample
from ..data.spaces import needs_continuous, space_of
from ..discrepancies.base import AbstractDiscrepancy
from ..discrepancies.default import standardised_ksd
from ..discrepancies.score_matching import DSM, SM
from ..discrepancies.support import support_of
from ..fit import fit
from ..kernels.heuristic import some_rows
from ..params import names, theta, unwrap, with_theta
from ..result.fitted import Fit
from .design import design
from .draws import Box, Draws, box_of, draws_of
from .sensitivity import largest_size, map_blocks

_WORTH_SAYING = 0.005
"""The least reduction of standard errors that a message mentions: a smaller one rounds to 0 %."""


class Efficiency(NamedTuple):
    """The efficiency and the sensitivity to outliers of an estimate, if the model is true.

    Attributes:
        joint: (det J/det I)^(1/p), where J = E[SGᵀ]E[GGᵀ]⁻¹E[GSᵀ] is the information that the
            estimate uses and I the Fisher information.
        each: the ratio of the asymptotic variances of maximum likelihood and of this estimate, for
            each parameter.
        sensitivity: the largest influence of one observation on each parameter, ∞ if it is
            unbounded, in units of √n times the standard error of an efficient estimate. For the
            mean of a normal distribution this unit is σ.
        draws: the points over which averages were taken, in words.
    """

    joint: float
    each: dict[str, float]
    sensitivity: dict[str, float]
    draws: str

    @property
    def largest(self) -> float:
        """The largest sensitivity of any parameter."""
        return max(self.sensitivity.values())

    @property
    def message(self) -> str:
        """A summary in words."""
        limit = f"moves it by at most {self.largest:.3g} efficient standard errors over √n"
        reach = "can move it without limit" if np.isinf(self.largest) else limit
        cost = 1 - np.sqrt(min(self.each.values()))
        shorter = (
            f"; an efficient estimate has standard errors up to {100 * cost:.0f} % smaller"
            if cost > _WORTH_SAYING
            else ""
        )
        return f"Joint efficiency {self.joint:.2f}{shorter}. One observation {reach}."

    def __repr__(self) -> str:
        rows = [
            f"{name}: efficiency {self.each[name]:.3f}, sensitivity {self.sensitivity[name]:.3g}"
            for name in self.each
        ]
        return "\n".join([self.message, *rows])


def efficiency(
    discrepancy: AbstractDiscrepancy | None,
    model: LogDensity,
    x: Any,
    *,
    support: tuple[Any, Any] | None = None,
) -> Efficiency:
    """Fit a model, and return the efficiency and the sensitivity to outliers of the estimate.

    Both are computed at the fitted model, as if it were true: over quantiles in one dimension, over
    draws in several.

    Args:
        discrepancy: any discrepancy with standard errors; None for the default of `ms.fit`.
        model: log p up to a constant, at which the fit starts.
        x: the sample.
        support: as for `ms.design`.

    >>> x = np.linspace(-2, 2, 60)
    >>> round(ms.efficiency(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), x).joint, 3)     # that of the mean
    1.0
    """
    x = _read(model, x)
    found = fit(model, x, discrepancy, progress=False)
    if found.cov is None:
        raise TypeError(
            f"Efficiency is defined only for an estimate with standard errors. {found.discrepancy.irregular}"
        )
    return _Population.at(found.model, x, support).of(found.discrepancy)


class Comparison(NamedTuple):
    """A comparison of several estimates of the same parameters, if the fitted model is true.

    Attributes:
        rows: the `Efficiency` of each estimate, by name.
        notes: which estimates were left out, and why.
    """

    rows: dict[str, Efficiency]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        width = max(map(len, self.rows), default=0)
        head = f"{'':<{width}}  efficiency  sensitivity"
        lines = [
            f"{name:<{width}}  {e.joint:10.2f}  {e.largest:11.3g}" for name, e in self.rows.items()
        ]
        return "\n".join([head, *lines, *self.notes])


def compare(
    model: LogDensity,
    x: Any,
    discrepancies: Mapping[str, AbstractDiscrepancy] | None = None,
    *,
    at: Fit | None = None,
    support: tuple[Any, Any] | None = None,
) -> Comparison:
    """Compare several discrepancies and maximum likelihood at one fitted model.

    Args:
        model: log p up to a constant, at which the fit starts.
        x: the sample.
        discrepancies: discrepancies by name; if None, score matching, the default KSD and both
            designs.
        at: an existing fit, at whose model to compare. No other fit is then made, so that an
            efficient design is included only if this fit used it. If None, the model is fitted by
            the robust design, which outliers do not disturb.
        support: as for `ms.design`.
    """
    x, notes = _read(model, x), []
    if discrepancies is None:
        discrepancies, notes = _usual_discrepancies(model, x, at, support)
    fitted = fit(model, x, design(model, x, "robust"), progress=False) if at is None else at
    population, rows = _Population.at(fitted.model, x, support), {}
    for name, discrepancy in discrepancies.items():
        try:
            rows[name] = population.of(discrepancy)
        except (TypeError, ValueError) as reason:
            notes.append(f"Without {name}: {reason}")
    rows["maximum likelihood"] = population.of_likelihood()
    return Comparison(rows, tuple(notes))


def _read(model: LogDensity, x: Any) -> Data:
    x = read(x, space_of(model))
    if space_of(model).discrete:
        raise needs_continuous("efficiency", space_of(model))
    return x


def _usual_discrepancies(
    model: LogDensity, x: Data, at: Fit | None, support: tuple[Any, Any] | None
) -> tuple[dict[str, AbstractDiscrepancy], list[str]]:
    """Score matching, KSD and both designs by name, and a note for a design that was rejected."""
    pilot = standardised_ksd(x, support_of(model, some_rows(x), support))
    sm = SM() if pilot.diffusion.is_constant else DSM(pilot.diffusion)
    chosen: dict[str, AbstractDiscrepancy] = {"score matching": sm, "KSD": pilot}
    notes = []
    designed = design(model, x, support=support) if at is None else at.discrepancy
    if designed.designed_at is not None:
        chosen["efficient"] = designed
    elif at is None:
        notes.append("Without an efficient design: its equations were rejected for these data.")
    return chosen | {"robust": design(model, x, "robust")}, notes


class _Population(NamedTuple):
    """A fitted model with the points that represent it.

    Attributes:
        model: the fitted model.
        box: its support.
        draws: the points that represent it.
        S: the Fisher score at the nodes of the draws, standardised for each parameter.
        mean, unit: the mean and the standard deviation of the score.
    """

    model: LogDensity
    box: Box
    draws: Draws
    S: Float[Array, "N p"]
    mean: Float[Array, " p"]
    unit: Float[Array, " p"]

    @classmethod
    def at(cls, model: LogDensity, x: Data, support: tuple[Any, Any] | None) -> "_Population":
        box = box_of(model, x, support)
        draws = draws_of(model, x, box)
        S, mean, unit = _standardise(
            map_blocks(lambda z: run(_scores, None, model, z), draws.nodes), draws.weights
        )
        if not (np.isfinite(unit).all() and unit.min() > 0):
            raise ValueError(
                f"The Fisher information at the fitted model is not positive and finite: the standard deviations of "
                f"the score are {unit}. Efficiency needs a model whose log p depends on every parameter."
            )
        return cls(model, box, draws, S, mean, unit)

    def of(self, discrepancy: AbstractDiscrepancy) -> Efficiency:
        """The efficiency of the estimate that minimises a discrepancy."""
        if discrepancy.irregular:
            raise TypeError(
                f"Efficiency is defined only for an estimate with standard errors. {discrepancy.irregular}"
            )
        ready = discrepancy.ready(self.model, self.draws.x)
        contributions = lambda z: run(_contributions, (ready, z), self.model, self.draws.x)
        G, mean, unit = _standardise(
            map_blocks(contributions, self.draws.nodes), self.draws.weights
        )
        cross, own = self._mean_product(G, self.S), self._mean_product(G, G)
        if not (np.isfinite(cross).all() and np.linalg.matrix_rank(cross) == len(cross)):
            raise ValueError(
                "at the fitted model its estimating functions do not determine all parameters."
            )
        influence = lambda z: np.linalg.solve(cross, ((contributions(z) - mean) / unit).T).T
        return self._summarise(cross.T @ np.linalg.solve(own, cross), influence)

    def _mean_product(self, a: Float[Array, "N p"], b: Float[Array, "N q"]) -> Float[Array, "p q"]:
        return (a.T * self.draws.weights) @ b

    def of_likelihood(self) -> Efficiency:
        """The efficiency of maximum likelihood, whose estimating function is the Fisher score."""
        information = self._mean_product(self.S, self.S)
        scores = lambda z: (run(_scores, None, self.model, z) - self.mean) / self.unit
        return self._summarise(information, lambda z: np.linalg.solve(information, scores(z).T).T)

    def _summarise(self, used: Float[Array, "p p"], influence: Callable) -> Efficiency:
        """Summarise an estimate by its information and influence, in the units of the score."""
        information = self._mean_product(self.S, self.S)
        best = np.diag(np.linalg.inv(information))
        joint = (np.linalg.det(used) / np.linalg.det(information)) ** (1 / len(used))
        size = lambda z: np.abs(influence(z)) / np.sqrt(best)
        largest = largest_size(size, self.draws.x, self.box)
        by_name = lambda values: dict(
            zip(names(self.model), np.asarray(values).tolist(), strict=True)
        )
        each = best / np.diag(np.linalg.inv(used))
        return Efficiency(float(joint), by_name(each), by_name(largest), self.draws.how)


def _standardise(
    rows: Float[Array, "N p"], weights: Float[Array, " N"]
) -> tuple[Array, Array, Array]:
    """The rows standardised, their mean, and their standard deviation."""
    mean = weights @ rows
    unit = np.sqrt(weights @ (rows - mean) ** 2)
    return (rows - mean) / np.where(unit > 0, unit, 1), mean, unit


def _scores(_: None, model: LogDensity, sample: Sample) -> Float[Array, "N p"]:
    """∂_θ log p at each row, without the normaliser."""
    log_p = lambda vector, z: unwrap(with_theta(model, vector))(z)
    return jax.vmap(lambda z: jax.grad(log_p)(theta(model), z))(sample.x)


def _contributions(tree: tuple, model: LogDensity, sample: Sample) -> Float[Array, "k p"]:
    """The contribution of each row of z to the gradient, the sample taken as the population."""
    discrepancy, z = tree
    return discrepancy.objective(model, sample, natural=True).shares(theta(model), jnp.asarray(z)).T
