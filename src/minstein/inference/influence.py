"""Influence functions and approximate leave-one-out estimates."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._types import Array, LogDensity
from ..data.boundary import run
from ..data.in_memory import as_rows
from ..data.keys import as_key
from ..data.reading import read, read_or_leave
from ..data.rows import AbstractRows, Data
from ..data.sample import AnySample, Sample, bucket
from ..data.sharded import Sharded
from ..data.spaces import space_of
from ..params import theta
from ..result.fitted import Fit, check_sample
from ..solvers.objective import objective


def influence(
    fit: Fit, x: Any, z: Any = None, *, key: Any = None, draws: int = 4000
) -> Float[Array | Sharded, "k p"]:
    """The influence function of the estimate at the points z.

    It is −H⁻¹ times the contribution of an observation at z to the gradient: adding an observation
    at z changes the estimate by about influence/n. The paper prints it with the opposite sign.

    Args:
        fit: a fit that converged.
        x: the sample that was fitted, because a fit holds no data; or None for the influence
            function at the fitted model instead of the data, which needs a model with a sampler.
        z: points, of shape (k, d) or (k,); the observations themselves if None.
        key: the key of the draws if x is None, an integer or a JAX key.
        draws: the number of draws if x is None; the error is inversely proportional to its square
            root.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.influence(fit, x, np.array([5.0])).round(6)            # z − mean
    array([[4.566667]])
    """
    if x is None:
        return _influence_in_population(fit, z, as_key(key), draws)
    x = _sample_of(fit, x)
    if z is None:
        x.require_memory("The influence of every observation")
        discrepancy = fit.discrepancy.ready(fit.model, x)
        rows = run(_influence_of_rows, discrepancy, fit.model, x, by_rows=True)
        return x.rows_like(rows)
    points = _points(fit, z, x)
    discrepancy = fit.discrepancy.ready(fit.model, x.with_points(points))
    padded = np.resize(points, (bucket(max(len(points), _FEWEST)), points.shape[1]))
    return run(_influence_at, (discrepancy, padded, False), fit.model, x)[: len(points)]


_FEWEST = 512
"""The fewest points to evaluate together: the points are repeated up to this number, so that all
curves, rays and searches of a report use the same compiled program.
"""


def dfbeta(fit: Fit, x: Any) -> Float[Array | Sharded, "n p"]:
    """The change in the estimates due to each observation, to first order in 1/n.

    This is θ̂ minus the estimate without the observation.

    Args:
        fit: a fit that converged.
        x: the sample that was fitted.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> bool(np.isclose(ms.dfbeta(fit, x)[0, 0], x.mean() - x[1:].mean()))
    True
    """
    return as_rows(influence(fit, x)).map(lambda rows: rows / (fit.n - 1)).plain


def extent(
    fit: Fit, *, inside: float = 0.0
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """The lower and upper edges of the support, infinite if there are none.

    Args:
        fit: the fit, whose diffusion or model defines the support.
        inside: how far to stay inside each edge, as a fraction of the width of the support, or as
            a distance if the support is infinite.
    """
    space = getattr(getattr(fit.discrepancy, "diffusion", None), "box", None) or space_of(fit.model)
    low, high = (np.broadcast_to(edge, (fit.d,)) for edge in space.box or (-np.inf, np.inf))
    width = np.where(np.isfinite(low) & np.isfinite(high), high - low, 1.0)
    return low + inside * width, high - inside * width


def _influence_in_population(
    fit: Fit, z: Any, key: PRNGKeyArray | None, draws: int
) -> Float[Array, "k p"]:
    _require_regular(fit)
    if not hasattr(fit.model, "sample"):
        raise TypeError(
            f"The influence function at the model needs draws from it, but {type(fit.model).__name__} has no sampler. "
            "Pass the data as x for the empirical influence function."
        )
    if key is None or z is None:
        raise ValueError(
            "The influence function at the model needs points z and a key, such as key=jax.random.key(0)."
        )
    x = np.asarray(fit.model.sample(key, draws), np.float64)
    points = _points(fit, z, x)
    discrepancy = fit.discrepancy.ready(fit.model, np.concatenate([x, points]))
    return run(_influence_at, (discrepancy, points, True), fit.model, x)


def _require_regular(fit: Fit) -> None:
    if fit.discrepancy.irregular:
        raise TypeError(f"There is no influence function. {fit.discrepancy.irregular}")


def _points(fit: Fit, z: Any, x: Data) -> Array:
    z = np.asarray(read(z, space_of(fit.model)), x.dtype)
    if z.shape[1] != x.shape[1]:
        raise ValueError(f"z has {z.shape[1]} coordinates, but x has {x.shape[1]}.")
    return z


def _sample_of(fit: Fit, x: Any) -> AbstractRows:
    """Return the sample that was fitted; raise if there is no influence function on it."""
    x = read_or_leave(x, space_of(fit.model))
    _require_regular(fit)
    if not fit.converged:
        raise ValueError(
            f"The influence function is defined only at a minimum, and none was found. {fit.message}"
        )
    check_sample(fit, x)
    return x


def _influence_of_rows(discrepancy: Any, model: LogDensity, sample: Sample) -> Float[Array, "N p"]:
    second = objective(discrepancy, model, sample, natural=True).second(theta(model))
    return sample.in_place(-(second.projections.T @ jnp.linalg.inv(second.hessian)))


def _influence_at(tree: tuple, model: LogDensity, sample: AnySample) -> Float[Array, "k p"]:
    """The influence function at points z; if the sample was drawn from the model, H is 2g."""
    discrepancy, z, from_model = tree
    target, here = objective(discrepancy, model, sample, natural=True), theta(model)
    hessian = 2 * target.jet(here).metric if from_model else target.second(here).hessian
    return -jnp.linalg.solve(hessian, target.shares(here, z)).T
