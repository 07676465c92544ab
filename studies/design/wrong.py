"""The default under a wrong model: does it aim at the target of maximum likelihood, at every n?

Each row fits a model to data of another kind. The target is the value of the parameters at which the expected log
likelihood is largest, by quadrature. Prints the mean error of the estimates and their scatter, in units of the mean
standard error, how often 95 % intervals cover the target, and how often the default kept its equations.

`python -m studies wrong --replications 400`
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import integrate, optimize, stats

import minstein as ms


class Case(NamedTuple):
    """A model, log p without its normaliser as a function of θ and a grid, and the law of the data."""

    model: Any
    log_p: Callable
    law: Any
    start: tuple[float, ...]

    def target(self) -> np.ndarray:
        """Maximise the mean of log p − log Z under the law, on a grid that holds both."""
        reach = max(40.0, float(-self.law.ppf(1e-9)))
        grid = np.sinh(np.linspace(-np.arcsinh(reach), np.arcsinh(reach), 200_001))
        law = self.law.pdf(grid)

        def loss(theta: np.ndarray) -> float:
            values = self.log_p(theta, grid)
            log_z = values.max() + np.log(integrate.simpson(np.exp(values - values.max()), x=grid))
            return float(log_z - integrate.simpson(law * values, x=grid))

        return optimize.minimize(loss, self.start, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13}).x


def quartic(law: Any) -> Case:
    """exp(ax + bx² − x⁴)."""
    statistic = lambda x: jnp.array([x[0], x[0] ** 2])
    model = ms.models.ExponentialFamily(statistic, [0.0, 0.0], lambda x: -(x[0] ** 4))
    return Case(model, lambda t, x: t[0] * x + t[1] * x**2 - x**4, law, (0.1, 0.1))


def gaussian(law: Any) -> Case:
    log_p = lambda t, x: -0.5 * ((x - t[0]) / t[1]) ** 2
    return Case(ms.models.Gaussian(0.0, 1.0), log_p, law, (0.1, 1.1))


def logistic(law: Any) -> Case:
    """Location and scale of a logistic distribution."""
    log_p = lambda p, x: -(x[0] - p["loc"]) / p["scale"] - 2 * jnp.logaddexp(0.0, -(x[0] - p["loc"]) / p["scale"])
    model = ms.models.from_log_density(log_p, {"loc": 0.0, "scale": ms.positive(1.0)})
    by_hand = lambda t, x: -(x - t[0]) / t[1] - 2 * np.logaddexp(0.0, -(x - t[0]) / t[1])
    return Case(model, by_hand, law, (0.1, 1.1))


CASES: dict[str, Callable[[], Case]] = {
    "t₅ under a Gaussian": lambda: gaussian(stats.t(5)),
    "Laplace under a Gaussian": lambda: gaussian(stats.laplace()),
    "Gumbel under a logistic": lambda: logistic(stats.gumbel_r()),
    "normal under a quartic": lambda: quartic(stats.norm(0.3, 0.6)),
    "Laplace under a quartic": lambda: quartic(stats.laplace(scale=0.45)),
    "t₅ under a quartic": lambda: quartic(stats.t(5, 0.2, 0.4)),
}
SIZES = (100, 300, 1000, 3000, 10_000)


class Row(NamedTuple):
    """For each parameter: bias and scatter over the mean standard error, coverage; how often equations were used."""

    bias: np.ndarray
    scatter: np.ndarray
    coverage: np.ndarray
    used: float

    def __str__(self) -> str:
        show = lambda values: ", ".join(f"{value:.3f}" for value in values)
        return (
            f"bias {show(self.bias)}; scatter {show(self.scatter)}; coverage {show(self.coverage)}; "
            f"equations {self.used:.3f}"
        )


def study(case: Case, n: int, replications: int, seed: int = 1) -> Row:
    """Fit samples one after another; a fit that fails counts as an interval that does not cover."""
    target, rng = case.target(), np.random.default_rng(seed)
    theta, errors, covers, used = [], [], [], []
    for _ in range(replications):
        fit = ms.fit(case.model, case.law.rvs(n, random_state=rng), throw=False)
        used.append(type(fit.discrepancy) is ms.Efficient)
        if not fit.converged:
            covers.append(np.zeros(target.size, bool))
            continue
        low, high = np.array(list(fit.conf_int().values())).T
        covers.append((low <= target) & (target <= high))
        theta.append(np.asarray(fit.theta))
        errors.append(np.array(list(fit.bse.values())))
    unit = np.mean(errors, 0)
    bias, scatter = (np.mean(theta, 0) - target) / unit, np.std(theta, 0) / unit
    return Row(bias, scatter, np.mean(covers, 0), float(np.mean(used)))


def main(replications: int = 400, only: str | None = None) -> None:
    if only not in (None, *CASES):
        raise ValueError(f"--only must be one of {', '.join(CASES)}, got {only}.")
    for name, make in CASES.items():
        for n in SIZES if only in (None, name) else ():
            print(f"{name}, n = {n}: {study(make(), n, replications)}", flush=True)
