"""Where a search begins: starts that are always used, and a fixed design spread over the data, of
which the best are used.
"""

from itertools import permutations, product
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from .._types import Array, LogDensity, is_traced
from ..data.robust import MAD_TO_SD
from ..data.rows import QUICK
from ..models._family import is_family, starting_models
from ..params import reach, to_real, unconstrained, with_theta
from .problem import Problem

_SCATTERED = 8
"""Points of the low-discrepancy design."""

_FARTHEST = 2.0
"""The standard deviation of the design, as of random starts: in spreads, or for a logarithm in
units of at most one.
"""

_BLOCKS = 3
"""The most locations for which every assignment of cluster centres is tried: six for three."""

_LEVELS = {1: np.linspace(0, 1, 10), 2: np.linspace(0, 1, 5), 3: np.array([0.1, 0.5, 0.9])}
"""Quantiles of the data at which locations are also placed, by the number of locations: 10, 25 and
27 points in all.
"""

_ROWS = 500
"""The most rows used to find clusters."""


class Starts(NamedTuple):
    """Rows of η.

    Attributes:
        certain: starts from which a search always begins.
        placed: starts with locations at cluster centres of the data.
        scattered: steps from a certain start, in units of the spread of each parameter.
        decisive: how many of the last certain starts decide the status if they go lower than all
            others without converging. The initial values of a family may be arbitrary and do not.
    """

    certain: Float[Array, "k p"]
    placed: Float[Array, "m p"]
    scattered: Float[Array, "q p"]
    decisive: int

    @property
    def count(self) -> int:
        """The number of starts."""
        return len(self.certain) + len(self.placed) + len(self.scattered)


def certain_starts(problem: Problem, companion: Any) -> Float[Array, "k p"]:
    """Return the estimate at which the discrepancy was designed or, if there is none, the model's own
    values, its family's start and the fit by a companion.
    """
    estimate = problem.discrepancy.designed_at
    if estimate is not None:
        return to_real(with_theta(problem.model, estimate))[None]
    models = starting_models(problem.model, problem.x.few)
    if companion is not None and (is_traced(companion) or companion.converged):
        models.append(companion.model)
    rows = [to_real(model) for model in models]
    return (jnp if is_traced(rows) else np).stack(rows)


def starts_around(problem: Problem, etas: Float[Array, "k p"]) -> Starts:
    """Return the starts with a design around them, if the solver can choose from it and the data are
    few.
    """
    model, x, discrepancy = problem.model, problem.x, problem.discrepancy
    known = x.is_here and not is_traced((x, model, discrepancy, etas))
    small = known and len(x) <= QUICK and etas.shape[1] <= FEW
    decisive = max(1, len(etas) - is_family(model))
    if discrepancy.designed_at is not None or problem.solver.looking is None or not small:
        return only(etas, decisive)
    return design(model, np.asarray(x), etas, decisive)


FEW = 20
"""The most parameters for which further searches, or a covariance to compare, cost little."""


def design(
    model: LogDensity, x: Float[np.ndarray, "n d"], certain: Float[Array, "k p"], decisive: int
) -> Starts:
    """The certain starts with a design around the last of them; the same for the same data."""
    base = np.asarray(certain)[-1]
    return Starts(certain, _place_locations(model, x, base), _scatter(base.size), decisive)


def only(certain: Float[Array, "k p"], decisive: int) -> Starts:
    """The certain starts without a design."""
    none = np.zeros((0, certain.shape[1]))
    return Starts(certain, none, none, decisive)


def _scatter(p: int) -> Float[np.ndarray, "q p"]:
    """Normal scores of the additive low-discrepancy sequence of the generalised golden ratio
    (Roberts 2018).
    """
    ratio = 2.0
    for _ in range(50):  # a fixed-point iteration that gains a digit in two steps at the worst
        ratio = (1 + ratio) ** (1 / (p + 1))
    k, j = np.arange(1, _SCATTERED + 1)[:, None], np.arange(1, p + 1)
    return _FARTHEST * ndtri((0.5 + k * ratio**-j) % 1)


def _place_locations(
    model: LogDensity, x: Float[np.ndarray, "n d"], base: Float[np.ndarray, " p"]
) -> Float[np.ndarray, "m p"]:
    """The base with parameters that may be locations placed at cluster centres; if they are not
    locations, the loss there is high.

    Unconstrained leaves with an entry for each coordinate, or several such rows, may be locations.
    One location takes the centres of two and of three clusters, with the scales of the base and
    with smaller ones; several take all centres at once, in every order. In addition, each takes some
    quantiles of the data, in all combinations.
    """
    blocks = _possible_locations(model, x.shape[1])
    if not 1 <= len(blocks) <= _BLOCKS:
        return np.zeros((0, base.size))
    places = _places(_thin(np.asarray(x, np.float64)), len(blocks))
    found = np.tile(base, (len(places), 1))
    for block, centres in zip(blocks, np.moveaxis(places, 1, 0), strict=True):
        found[:, block] = centres
    narrow = found[:2].copy()
    narrow[:, np.isfinite(reach(model))] -= 1
    return np.concatenate([found, narrow])


def _possible_locations(model: LogDensity, d: int) -> list[Int[np.ndarray, " d"]]:
    """The entries of η that may be locations, d at a time."""
    columns = [columns for columns in unconstrained(model) if columns.size % d == 0]
    return [block for part in columns for block in part.reshape(-1, d)]


def _places(x: Float[np.ndarray, "n d"], count: int) -> Float[np.ndarray, "m k d"]:
    """Where to put this many locations: at cluster centres, and at quantiles of the data."""
    if count == 1:
        at_centres = [(centre,) for k in (2, 3) for centre in _centres(x, k)]
    else:
        at_centres = list(permutations(_centres(x, count)))
    levels = np.quantile(x, _LEVELS[count], axis=0)
    return np.array([*at_centres, *product(levels, repeat=count)])


def _thin(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "k d"]:
    return x[np.linspace(0, len(x) - 1, min(len(x), _ROWS)).astype(int)]


def _centres(x: Float[np.ndarray, "n d"], count: int) -> Float[np.ndarray, "k d"]:
    """Medians of clusters, by Lloyd's iteration from equal parts along the main direction of the
    data.

    Distances are in units of each coordinate's scaled median absolute deviation, in which no
    outlier is far.
    """
    scale = MAD_TO_SD * np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    z = np.clip((x - np.median(x, axis=0)) / np.where(scale > 0, scale, 1), -_CLIP, _CLIP)
    main = np.linalg.svd(z - z.mean(0), full_matrices=False)[2][0]
    labels = np.argsort(np.argsort(z @ main, kind="stable"), kind="stable") * count // len(z)
    for _ in range(_LLOYD):
        before, means = labels, _medians(z, labels, count)
        labels = np.argmin(((z[:, None] - means) ** 2).sum(2), axis=1)
        if (labels == before).all():
            break
    return _medians(x, labels, count)


_CLIP, _LLOYD = 10.0, 10
"""The largest standardised deviation that counts, and the iterations: starts need not be optimal."""


def _medians(
    x: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"], count: int
) -> Float[np.ndarray, "k d"]:
    """The median of each cluster, or of everything if the cluster is empty."""
    return np.stack(
        [np.median(x[labels == k] if (labels == k).any() else x, axis=0) for k in range(count)]
    )
