"""How much an observation moves an estimate: influence functions and approximate leave-one-out estimates."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from . import errors
from ._types import Array, LogDensity
from .disk import OnDisk
from .objective import objective
from .params import theta
from .result import Fit
from .sample import TILE, AnySample, Sample, bucket, read, read_or_leave, run
from .sharded import AnyData, Sharded
from .spaces import space_of


def influence(
    fit: Fit, x: Any, z: Any = None, *, key: PRNGKeyArray | None = None, draws: int = 4000
) -> Float[Array | Sharded, "k p"]:
    """The influence function of the estimate, −H⁻¹ times what an observation at z contributes to the gradient.

    An observation added at z moves the estimate by about influence/n. The paper prints it with the opposite sign.

    Args:
        fit: a fit that converged.
        x: the sample it was made from, as a fit holds no data; or None for the influence function in the population,
            at the fitted model instead of the data, from draws of a family with a sampler.
        z: points, of shape (k, d) or (k,); None means the observations themselves.
        key: for the population: the key of the draws.
        draws: how many; the error falls with their square root.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.influence(fit, x, np.array([5.0])).round(6)            # z − mean
    array([[4.566667]])
    """
    if x is None:
        return _in_population(fit, z, key, draws)
    x = _sample_of(fit, x)
    if z is None and isinstance(x, OnDisk):
        raise errors.needs_memory("The influence of every observation")
    if z is None:
        discrepancy = fit.discrepancy.ready(fit.model, x)
        rows = run(_at_observations, (discrepancy, None), fit.model, x, by_rows=True)
        return Sharded(rows, x.counts, x.mesh) if isinstance(x, Sharded) else rows[: x.shape[0]]
    points = _points(fit, z, x)
    apart = isinstance(x, Sharded | OnDisk)
    discrepancy = fit.discrepancy.ready(fit.model, x if apart else np.concatenate([x, points]))
    padded = np.resize(points, (bucket(max(len(points), TILE)), points.shape[1]))
    return run(_at_points, (discrepancy, padded), fit.model, x)[: len(points)]


def dfbeta(fit: Fit, x: Any) -> Float[Array | Sharded, "n p"]:
    """By how much each observation moved the estimates: θ̂ minus the estimate without it, to first order in 1/n.

    Args:
        fit: a fit that converged.
        x: the sample it was made from.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> bool(np.isclose(ms.dfbeta(fit, x)[0, 0], x.mean() - x[1:].mean()))
    True
    """
    moved, others = influence(fit, x), fit.n - 1
    return moved.map(lambda rows: rows / others) if isinstance(moved, Sharded) else moved / others


def _in_population(fit: Fit, z: Any, key: PRNGKeyArray | None, draws: int) -> Float[Array, "k p"]:
    if fit.discrepancy.irregular:
        raise TypeError(f"There is no influence function. {fit.discrepancy.irregular}")
    if not hasattr(fit.model, "sample"):
        raise TypeError(
            f"The influence function in the population needs draws from the model, and {type(fit.model).__name__} has "
            "no sampler. Pass the data as x for the empirical one."
        )
    if key is None or z is None:
        raise ValueError("The influence function in the population needs points z and a key: key=jax.random.key(0).")
    x = np.asarray(fit.model.sample(key, draws), np.float64)
    points = _points(fit, z, x)
    discrepancy = fit.discrepancy.ready(fit.model, np.concatenate([x, points]))
    return run(_at_points_of_model, (discrepancy, points), fit.model, x)


def _points(fit: Fit, z: Any, x: AnyData) -> Array:
    z = np.asarray(read(z, space_of(fit.model)), x.dtype)
    if z.shape[1] != x.shape[1]:
        raise ValueError(f"z has {z.shape[1]} coordinates, but x has {x.shape[1]}.")
    return z


def _sample_of(fit: Fit, x: Any) -> AnyData:
    x = read_or_leave(x, space_of(fit.model))
    if fit.discrepancy.irregular:
        raise TypeError(f"There is no influence function. {fit.discrepancy.irregular}")
    if not fit.converged:
        raise ValueError(f"The influence function is that of a minimum, and there is none. {fit.message}")
    if x.shape != (fit.n, fit.d):
        raise errors.another_sample(x.shape, (fit.n, fit.d))
    return x


def _at_observations(tree: tuple, model: LogDensity, sample: Sample) -> Float[Array, "N p"]:
    second = objective(tree[0], model, sample, natural=True).second(theta(model))
    return sample.in_place(-(second.projections.T @ jnp.linalg.inv(second.hessian)))


def _at_points(tree: tuple, model: LogDensity, sample: AnySample) -> Float[Array, "k p"]:
    discrepancy, z = tree
    target = objective(discrepancy, model, sample, natural=True)
    return -jnp.linalg.solve(target.second(theta(model)).hessian, target.shares(theta(model), z)).T


def _at_points_of_model(tree: tuple, model: LogDensity, sample: Sample) -> Float[Array, "k p"]:
    """At the model the Hessian is 2g."""
    discrepancy, z = tree
    target = objective(discrepancy, model, sample, natural=True)
    return -jnp.linalg.solve(2 * target.jet(theta(model)).metric, target.shares(theta(model), z)).T
