"""The nonparametric bootstrap of a fit: for a cross-check, and where the sandwich does not apply."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from . import errors
from ._types import Array
from .discrepancy import AbstractDiscrepancy, check_together
from .discrete import MPF
from .fit import fit as fit_again
from .progress import bar
from .result import Fit
from .sample import precision, read
from .solvers import AbstractSolver
from .spaces import space_of

_PORTION = 25
"""Refits between two movements of the progress bar."""


class Bootstrap(eqx.Module):
    """Estimates from resampled data, a row for each replication; figures leave out those that did not converge."""

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
        """Standard errors by name."""
        return dict(zip(self.names, np.sqrt(np.diag(self.cov)).tolist(), strict=True))

    def conf_int(self, alpha: float = 0.05) -> dict[str, tuple[float, float]]:
        """Percentile intervals by name."""
        ends = np.quantile(self.theta[self.converged], [alpha / 2, 1 - alpha / 2], axis=0)
        return {name: (float(low), float(high)) for name, low, high in zip(self.names, *ends, strict=True)}


def bootstrap(
    fit: Fit,
    x: Any,
    key: PRNGKeyArray,
    *,
    replications: int = 500,
    solver: AbstractSolver | None = None,
    progress: bool | None = None,
) -> Bootstrap:
    """Fit the model again to samples drawn from the data with replacement, starting from the fit.

    Args:
        fit: a fit that converged.
        x: the sample it was made from; a fit holds no data.
        key: for the resampling.
        replications: how many.
        solver: as for `ms.fit`.
        progress: as for `ms.fit`.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> boot = ms.bootstrap(fit, x, jax.random.key(0), replications=50)
    >>> bool(abs(boot.bse["loc"] / fit.bse["loc"] - 1) < 0.4)
    True
    """
    x = read(x, space_of(fit.model))
    check_together("The bootstrap", x)
    if x.shape != (fit.n, fit.d):
        raise errors.another_sample(x.shape, (fit.n, fit.d))
    if replications < 2:
        raise ValueError(f"A bootstrap needs at least 2 replications, got {replications}.")
    with precision(x, fit.model), bar(progress, replications, "bootstrap") as shown:
        keys, data, found = jax.random.split(key, replications), jnp.asarray(x), []
        for start in range(0, replications, _PORTION):
            part = keys[start : start + _PORTION]
            refitted = _one_by_one if _on_host(fit.discrepancy) else _refitted
            found.append(jax.tree.map(np.asarray, refitted(fit.model, fit.discrepancy, solver, data, part)))
            shown.update(len(part))
    theta, converged = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Bootstrap(theta, converged, fit.names)


def _on_host(discrepancy: AbstractDiscrepancy) -> bool:
    """Whether the discrepancy must look at the data before it can be compiled."""
    return isinstance(discrepancy, MPF) and discrepancy.looks_up


@eqx.filter_jit
def _refitted(model: Any, discrepancy: Any, solver: Any, x: Array, keys: Any) -> tuple[Array, Array]:
    return jax.lax.map(lambda key: _one(model, discrepancy, solver, x, key), keys)


def _one_by_one(model: Any, discrepancy: Any, solver: Any, x: Array, keys: Any) -> tuple[Array, Array]:
    theta, converged = zip(*(_one(model, discrepancy, solver, x, key) for key in keys), strict=True)
    return jnp.stack(theta), jnp.asarray(converged)


def _one(model: Any, discrepancy: Any, solver: Any, x: Array, key: Any) -> tuple[Array, Any]:
    rows = jax.random.randint(key, (x.shape[0],), 0, x.shape[0])
    walk = jax.random.fold_in(key, 1)
    again = fit_again(model, x[rows], discrepancy, solver=solver, key=walk, covariance=False, throw=False)
    return again.theta, again.converged
