"""What a choice of discrepancy costs: the efficiency of an estimate, and its gross-error sensitivity."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from . import errors
from ._types import Array, LogDensity
from .discrepancy import AbstractDiscrepancy
from .fit import fit
from .kernels.finite_rank import LEAST_R_SQUARED
from .objective import objective
from .params import names, theta, to_real
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
    def message(self) -> str:
        """In words."""
        if np.isnan(self.joint):
            return (
                f"Efficiency is not known: the fields of a design explain too little of the Fisher score, "
                f"leave-one-out R² {min(self.r_squared.values()):.2f}. No design would be accepted here."
            )
        largest = max(self.sensitivity.values())
        reach = "has no limit" if np.isinf(largest) else f"is at most {largest:.3g} standard deviations over n"
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

    >>> x = 10 * np.tan(np.linspace(-1.2, 1.2, 200))
    >>> print(ms.efficiency(ms.SM(), ms.models.StudentT(0.0, 1.0, 2.0), x).joint < 0.6)
    True
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
    best, own, r_squared = run(_informations, (found.discrepancy, pilot, basis_on(x)), found.model, x)
    variances = np.diag(np.linalg.inv(best))
    known = np.isfinite(r_squared).all() and r_squared.min() > LEAST_R_SQUARED
    joint = (np.linalg.det(own) / np.linalg.det(best)) ** (1 / len(best)) if known else np.nan
    each = variances / np.diag(np.linalg.inv(own)) if known else np.full(len(best), np.nan)
    largest = np.array(list(robustness(found, x).sensitivity.values())) / np.sqrt(variances)
    by_name = lambda values: dict(zip(names(found.model), np.asarray(values).tolist(), strict=True))
    return Efficiency(float(joint), by_name(each), by_name(r_squared), by_name(largest))


def _informations(tree: tuple, model: LogDensity, sample: Sample) -> tuple[Array, Array, Array]:
    """The information in θ of the fitted Fisher score, and of the discrepancy's estimating functions."""
    discrepancy, pilot, basis = tree
    found = learn(features_at(pilot, basis, model, sample, to_real(model)))
    S = jnp.linalg.solve(found.jacobian.T, found.fitted.T)
    G = objective(discrepancy, model, sample, natural=True).second(theta(model)).projections
    G = sample.zero_padding_of_columns(G - jnp.sum(G, 1, keepdims=True) / sample.size)
    best, cross = S @ S.T / sample.size, S @ G.T / sample.size
    return best, cross @ jnp.linalg.solve(G @ G.T / sample.size, cross.T), found.r_squared
