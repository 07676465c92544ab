"""Is an estimate robust? The influence function far out, and what a cluster of outliers would do."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ._types import Array, LogDensity
from .discrepancies import DKSD
from .influence import influence
from .models._family import median_and_mad
from .operator import stein_kernel
from .params import unwrap
from .result import Fit
from .sample import Sample, read, run
from .sharded import Data, Sharded
from .spaces import space_of

_FAR = np.geomspace(1e2, 1e4, 5)
"""Distances, in units of the data's spread, at which rates are measured."""

_NEAR = 20
"""Half the width of the box over which the largest influence is looked for."""

_POINTS, _ROUNDS, _FEW = 512, 8, 8
"""Points of the box that are tried; rounds of trying an eighth as many around the best, each in a quarter of the width;
and the most parameters for which that is done."""

_GROWS = 0.05
"""A rate above this counts as growth."""


class Robustness(NamedTuple):
    """How an estimate behaves under outliers.

    Attributes:
        sensitivity: the largest influence of a single observation on each parameter, ∞ where it has no bound.
        rates: the power of the distance with which the influence on each parameter grows; negative where it falls.
        cluster_rate: the same for k⁰(z, z), which decides about many outliers in one place; None for score matching.
        message: all this in words.
    """

    sensitivity: dict[str, float]
    rates: dict[str, float]
    cluster_rate: float | None
    message: str

    @property
    def bounded(self) -> bool:
        """Whether no single observation can move any parameter without limit."""
        return all(rate <= _GROWS for rate in self.rates.values())

    def __repr__(self) -> str:
        rows = [
            f"{name}: sensitivity {self.sensitivity[name]:.4g}, rate {self.rates[name]:+.2f}" for name in self.rates
        ]
        return "\n".join([self.message, *rows])


def robustness(fit: Fit, x: Any) -> Robustness:
    """Look at the influence function of a fit around the data, and far away along the axes.

    Args:
        fit: a fit that converged.
        x: the sample it was made from; a fit holds no data.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.robustness(fit, x).bounded                                    # a mean
    False
    """
    if space_of(fit.model).discrete:
        raise TypeError(
            "Robustness looks at observations ever farther out, and a discrete model may have none. "
            "ms.influence(fit, x) tells how much each observation matters."
        )
    data = read(x)
    data = data if isinstance(data, Sharded) else np.asarray(data, np.float64)
    centre, spread = median_and_mad(data)
    rays = np.concatenate([np.eye(fit.d), -np.eye(fit.d)]) * spread
    far = np.abs(_along(fit, x, centre, rays, _FAR))
    near = sensitivity(fit, x, centre - _NEAR * spread, centre + _NEAR * spread)
    rates = _rates(far)
    largest = np.maximum(list(near.values()), np.where(rates > _GROWS, np.inf, far.max((0, 1))))
    cluster = _cluster_rate(fit, data, centre, rays)
    by_name = lambda values: dict(zip(fit.names, (float(v) for v in values), strict=True))
    return Robustness(by_name(largest), by_name(rates), cluster, _message(rates, cluster))


def sensitivity(fit: Fit, x: Any, low: Any, high: Any) -> dict[str, float]:
    """The gross-error sensitivity over a box: the largest influence of a point in it on each parameter, up to sign.

    Args:
        fit: a fit that converged.
        x: the sample it was made from; a fit holds no data.
        low, high: the corners of the box, numbers or shape (d,).

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> round(ms.sensitivity(fit, x, -5.0, 5.0)["loc"], 4)               # |−5 − mean|
    5.4333
    """
    from scipy.stats import qmc  # here, because it takes as long to import as JAX

    corners = np.broadcast_to(np.stack(np.broadcast_arrays(low, high)).astype(float).reshape(2, -1), (2, fit.d))
    if not (corners[0] < corners[1]).all():
        raise ValueError(f"low must be below high in each coordinate, got {corners[0]} and {corners[1]}.")
    grid = np.append(qmc.Sobol(fit.d, scramble=False).random(_POINTS), np.ones((1, fit.d)), 0)
    points, reach = corners[0] + (corners[1] - corners[0]) * grid, (corners[1] - corners[0]) / 8
    sizes = np.abs(np.asarray(influence(fit, x, points)))
    best, largest = points[sizes.argmax(0)], sizes.max(0)
    p = len(fit.names)
    for _ in range(_ROUNDS if p <= _FEW else 0):
        around = np.clip(best[:, None] + reach * (2 * grid[: _POINTS // 8] - 1), *corners)
        sizes = np.abs(np.asarray(influence(fit, x, around.reshape(-1, fit.d)))).reshape(p, -1, p)
        sizes = sizes[np.arange(p), :, np.arange(p)]
        better = sizes.max(1) > largest
        best = np.where(better[:, None], around[np.arange(p), sizes.argmax(1)], best)
        largest, reach = np.maximum(largest, sizes.max(1)), reach / 4
    return dict(zip(fit.names, largest.tolist(), strict=True))


def _along(fit: Fit, x: Any, centre: Array, rays: Array, distances: Array) -> Float[Array, "rays r p"]:
    z = centre + distances[:, None] * rays[:, None, :]
    return np.asarray(influence(fit, x, z.reshape(-1, fit.d))).reshape(len(rays), len(distances), -1)


def _rates(values: Float[Array, "rays r *p"]) -> Array:
    """The largest slope of log value on log distance over the rays, as far out as it goes; −∞ where values vanish."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
        slopes = (logs[:, -1] - logs[:, -2]) / np.log(_FAR[-1] / _FAR[-2])
    return np.where(np.isfinite(slopes), slopes, -np.inf).max(0)


def _cluster_rate(fit: Fit, x: Data, centre: Array, rays: Array) -> float | None:
    if not isinstance(fit.discrepancy, DKSD):
        return None
    z = (centre + _FAR[:, None] * rays[:, None, :]).reshape(-1, fit.d)
    values = run(_on_diagonal, (fit.discrepancy, z), fit.model, x)
    return float(_rates(np.abs(values).reshape(len(rays), len(_FAR), 1))[0])


def _on_diagonal(tree: tuple, model: LogDensity, sample: Sample) -> Float[Array, " k"]:
    discrepancy, z = tree
    k0 = stein_kernel(unwrap(model), discrepancy.diffusion, discrepancy.kernel)
    return jax.vmap(lambda z: k0(z, z))(jnp.asarray(z))


def _message(rates: Array, cluster: float | None) -> str:
    if (rates > _GROWS).any():
        return (
            "Not robust: a single observation far out moves the estimate without limit. "
            "A diffusion that falls off bounds it: ms.DKSD(kernel, ms.diffusions.decay(alpha, centre))."
        )
    if cluster is not None and cluster > _GROWS:
        return (
            "A single outlier does bounded harm, but many in one place would still bias the estimate, because k⁰(z, z) "
            "grows with their distance. A diffusion that falls off faster than the score grows prevents it."
        )
    return "Robust: neither a single outlier nor a distant cluster of them moves the estimate without limit."
