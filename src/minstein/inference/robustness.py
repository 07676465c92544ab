"""The robustness of an estimate to single outliers and to clusters of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, LogDensity
from ..data.boundary import run
from ..data.reading import read
from ..data.robust import median_and_mad
from ..data.rows import Data
from ..data.sample import Sample
from ..data.spaces import space_of
from ..discrepancies.ksd import DKSD
from ..params import unwrap
from ..result.fitted import Fit
from ..stein.operator import stein_kernel
from .influence import extent, influence
from .sensitivity import GROWS, climb

_FAR = np.geomspace(1e2, 1e4, 5)
"""Distances, in units of the data's spread, at which rates are measured: far enough for the tails to
follow their power law, near enough for float64.
"""

_NEAR = 20
"""Half the width, in spreads, of the box searched for the largest influence; beyond it the influence
is sampled only at the distances above.
"""

_POINTS, _ROUNDS, _FEW = 512, 8, 8
"""The search for the largest influence: the number of points in the box; the number of rounds, each
with an eighth as many points around the best so far and a quarter of the previous width, which
together narrow the position by 4⁸ = 65 536; and the most parameters for which there are rounds,
because each costs as many evaluations as there are parameters.
"""

_OFF = 1e-9
"""How far inside the edges of the support all points are, as a fraction of its width: log p need not
be finite at an edge.
"""


class Robustness(NamedTuple):
    """The behaviour of an estimate under outliers.

    Attributes:
        sensitivity: the largest influence of a single observation on each parameter, ∞ if it is
            unbounded.
        rates: the power of the distance with which the influence on each parameter grows; negative
            if it decreases.
        cluster_rate: the same for k⁰(z, z), which determines the effect of many outliers in one
            place; None for score matching.
        message: a summary in words.
    """

    sensitivity: dict[str, float]
    rates: dict[str, float]
    cluster_rate: float | None
    message: str

    @property
    def bounded(self) -> bool:
        """Whether the influence of a single observation on every parameter is bounded."""
        return all(rate <= GROWS for rate in self.rates.values())

    def __repr__(self) -> str:
        rows = [
            f"{name}: sensitivity {self.sensitivity[name]:.4g}, rate {self.rates[name]:+.2f}"
            for name in self.rates
        ]
        return "\n".join([self.message, *rows])


def robustness(fit: Fit, x: Any) -> Robustness:
    """Assess the robustness of a fit from its influence function near the data and far out.

    Args:
        fit: a fit that converged.
        x: the sample that was fitted, because a fit holds no data.

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.robustness(fit, x).bounded                                    # a mean
    False
    """
    if space_of(fit.model).discrete:
        raise TypeError(
            "Robustness is about observations ever farther out, which a discrete model need not have. "
            "Use ms.influence(fit, x) for the influence of each observation."
        )
    data = read(x).in_double()
    centre, spread = median_and_mad(data)
    low, high = extent(fit, inside=_OFF)
    rays = np.concatenate([np.diag(spread)[np.isposinf(high)], -np.diag(spread)[np.isneginf(low)]])
    z = (centre + _FAR[:, None] * rays[:, None, :]).reshape(-1, fit.d)
    far = np.abs(influence(fit, x, z)) if len(z) else np.zeros((0, len(fit.names)))
    rates = _rates(far)
    box = (np.clip(centre + side * _NEAR * spread, low, high) for side in (-1, 1))
    near = list(sensitivity(fit, x, *box).values())
    largest = np.maximum(near, np.where(rates > GROWS, np.inf, far.max(0, initial=0)))
    cluster = _cluster_rate(fit, data, z)
    by_name = lambda values: dict(zip(fit.names, values.tolist(), strict=True))
    return Robustness(by_name(largest), by_name(rates), cluster, _message(rates, cluster))


def sensitivity(fit: Fit, x: Any, low: Any, high: Any) -> dict[str, float]:
    """The gross-error sensitivity over a box: the largest absolute influence on each parameter.

    Args:
        fit: a fit that converged.
        x: the sample that was fitted, because a fit holds no data.
        low, high: the corners of the box, numbers or shape (d,).

    >>> x = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> round(ms.sensitivity(fit, x, -5.0, 5.0)["loc"], 4)               # |−5 − mean|
    5.4333
    """
    corners = np.broadcast_to(
        np.stack(np.broadcast_arrays(low, high)).astype(float).reshape(2, -1), (2, fit.d)
    )
    if not (corners[0] < corners[1]).all():
        raise ValueError(
            f"low must be below high in each coordinate, got {corners[0]} and {corners[1]}."
        )
    grid, wide = _fill_cube(_POINTS, fit.d), corners[1] - corners[0]
    offsets = wide / 8 * (2 * grid[: _POINTS // 8] - 1)
    points_near = lambda best, i: np.clip(best[:, None] + offsets / 4.0**i, *corners)
    size = lambda z: np.abs(np.asarray(influence(fit, x, z)))
    rounds = _ROUNDS if len(fit.names) <= _FEW else 0
    largest = climb(size, corners[0] + wide * grid, points_near, rounds)
    return dict(zip(fit.names, largest.tolist(), strict=True))


def _fill_cube(count: int, d: int) -> Float[Array, "k d"]:
    """Points that fill the unit cube evenly: two opposite corners and a Kronecker sequence.

    The steps of the sequence are powers of 1/φ with φ^(d+1) = φ + 1, so that φ is the golden ratio
    in one dimension. SciPy has Sobol points, but its module takes as long to import as JAX.
    """
    phi = 2.0
    for _ in range(60):  # each step reduces the error at least by half, so 60 reach float64
        phi = (1 + phi) ** (1 / (d + 1))
    between = np.arange(1, count - 1)[:, None] * phi ** -np.arange(1.0, d + 1) % 1
    return np.concatenate([np.zeros((1, d)), between, np.ones((1, d))])


def _rates(values: Float[Array, "k p"]) -> Float[np.ndarray, " p"]:
    """The largest slope, over the rays, of log value in log distance at the far end.

    The values are those at the distances `_FAR` on each ray. The slope is −∞ if they vanish.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values).reshape(-1, len(_FAR), values.shape[1])
        slopes = (logs[:, -1] - logs[:, -2]) / np.log(_FAR[-1] / _FAR[-2])
    return np.where(np.isfinite(slopes), slopes, -np.inf).max(0, initial=-np.inf)


def _cluster_rate(fit: Fit, x: Data, z: Float[Array, "k d"]) -> float | None:
    if not isinstance(fit.discrepancy, DKSD) or not len(z):
        return None
    values = run(_diagonal, (fit.discrepancy, z), fit.model, x)
    return float(_rates(np.abs(values)[:, None])[0])


def _diagonal(tree: tuple, model: LogDensity, sample: Sample) -> Float[Array, " k"]:
    discrepancy, z = tree
    k0 = stein_kernel(unwrap(model), discrepancy.diffusion, discrepancy.kernel)
    return jax.vmap(lambda z: k0(z, z))(jnp.asarray(z))


def _message(rates: Array, cluster: float | None) -> str:
    if (rates > GROWS).any():
        return (
            "Not robust: a single distant observation can move the estimate without limit. "
            "A decaying diffusion bounds its influence: ms.DKSD(kernel, ms.diffusions.decay(alpha, centre))."
        )
    if cluster is not None and cluster > GROWS:
        return (
            "A single outlier does bounded harm, but many in one place would still bias the estimate, because k⁰(z, z) "
            "grows with their distance. A diffusion that decays faster than the score grows prevents this."
        )
    return "Robust: neither a single outlier nor a distant cluster of them moves the estimate without limit."
