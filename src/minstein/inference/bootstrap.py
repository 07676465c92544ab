"""The nonparametric bootstrap, as a cross-check or if the sandwich does not apply."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array
from ..data.boundary import precision
from ..data.keys import as_key
from ..data.reading import read
from ..data.spaces import space_of
from ..fit import fit as fit_again
from ..result.fitted import Fit, check_sample
from ..result.intervals import check_level
from ..solvers.names import as_solver
from ..solvers.progress import bar

_PORTION = 25
"""The number of refits between updates of the progress bar, which are compiled as one program."""


class Bootstrap(eqx.Module):
    """Estimates from resampled data, one row per replication.

    Standard errors, covariances and intervals use only the replications that converged.
    """

    theta: Float[Array, "r p"]
    converged: Bool[Array, " r"]
    names: tuple[str, ...] = eqx.field(static=True)

    def __repr__(self) -> str:
        errors = ", ".join(f"{name} {value:.4g}" for name, value in self.bse.items())
        return f"<{len(self.theta)} replications, {int(self.converged.sum())} converged; standard errors: {errors}>"

    @property
    def cov(self) -> Float[Array, "p p"]:
        """The covariance of the estimates over replications."""
        return np.atleast_2d(np.cov(self.theta[self.converged].T))

    @property
    def bse(self) -> dict[str, float]:
        """The standard errors by name."""
        return dict(zip(self.names, np.sqrt(np.diag(self.cov)).tolist(), strict=True))

    def conf_int(self, alpha: Any = 0.05) -> dict[str, tuple[float, float]]:
        """Percentile intervals by name."""
        check_level(alpha)
        ends = np.quantile(self.theta[self.converged], [alpha / 2, 1 - alpha / 2], axis=0)
        return dict(zip(self.names, map(tuple, ends.T.tolist()), strict=True))


def bootstrap(
    fit: Fit,
    x: Any,
    key: Any,
    *,
    replications: int = 500,
    solver: Any = None,
    progress: bool | None = None,
) -> Bootstrap:
    """Fit the model again to samples drawn from the data with replacement, starting from the fit.

    Args:
        fit: a fit that converged.
        x: the sample that was fitted, because a fit holds no data.
        key: the key of the resampling, an integer or a JAX key.
        replications: the number of replications.
        solver: as for `ms.fit`.
        progress: as for `ms.fit`.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> boot = ms.bootstrap(fit, x, jax.random.key(0), replications=50)
    >>> bool(abs(boot.bse["loc"] / fit.bse["loc"] - 1) < 0.4)
    True
    """
    x, key = read(x, space_of(fit.model)), as_key(key)
    solver = None if solver is None else as_solver(solver)
    x.require_together("The bootstrap")
    check_sample(fit, x)
    if replications < 2:
        raise ValueError(f"A bootstrap needs at least 2 replications, got {replications}.")
    refit = _refit_one_by_one if fit.discrepancy.looks_up else _refit_compiled
    with precision(x, fit.model), bar(progress, replications, "bootstrap") as shown:
        keys, found = jax.random.split(key, replications), []
        problem = (fit.model, fit.discrepancy, solver, jnp.asarray(x.plain))
        for start in range(0, replications, _PORTION):
            part = keys[start : start + _PORTION]
            found.append(jax.tree.map(np.asarray, refit(problem, part)))
            shown.update(len(part))
    theta, converged = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Bootstrap(theta, converged, fit.names)


@eqx.filter_jit
def _refit_compiled(problem: tuple, keys: Any) -> tuple[Array, Array]:
    return jax.lax.map(lambda key: _refit(problem, key), keys)


def _refit_one_by_one(problem: tuple, keys: Any) -> tuple[Array, Array]:
    theta, converged = zip(*(_refit(problem, key) for key in keys), strict=True)
    return np.stack(theta), np.stack(converged)


def _refit(problem: tuple, key: Any) -> tuple[Array, Any]:
    model, discrepancy, solver, x = problem
    rows = jax.random.randint(key, (x.shape[0],), 0, x.shape[0])
    options = {"solver": solver, "covariance": False, "throw": False}
    again = fit_again(model, x[rows], discrepancy, key=jax.random.fold_in(key, 1), **options)
    return again.theta, again.converged
