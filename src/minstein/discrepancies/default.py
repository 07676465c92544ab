"""The discrepancy that `fit` uses when none is given, and its robust counterpart."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import chdtri

from .._types import LogDensity, namespace
from ..data.in_memory import as_rows
from ..data.reading import read
from ..data.robust import centre_and_factor, median_and_mad, scatter_factor
from ..data.rows import AbstractRows, Data
from ..data.spaces import space_of
from ..kernels import IMQ, AbstractKernel, Elliptical, Whitened
from ..kernels.coordinates import triangular_inverse
from ..kernels.heuristic import ROWS, median_distance
from ..params import names
from ..stein.diffusions import bounded, plateau, redescending
from ..stein.fields import Plateau, Reweighted, Within
from ..stein.tangents import MANY
from ..stein.unfolding import unfolded
from .base import AbstractDiscrepancy
from .discrete import MPF
from .efficient import Efficient
from .ksd import DKSD
from .score_matching import DSM, SM

Support = tuple[Any, Any]
"""The lower and the upper edge of each coordinate, infinite in directions in which there is none.
"""


def default_discrepancy(
    model: LogDensity, x: AbstractRows, support: Support | None = None
) -> AbstractDiscrepancy:
    """`Efficient` for continuous data, minimum probability flow for discrete ones.

    Rows on disk or on several devices, very small and very large samples, and models with very many
    parameters are fitted by KSD.
    """
    if space_of(model).discrete:
        return MPF()
    n, d = x.shape
    fits = n >= _ENOUGH and n * d * (d + _OTHERS) <= _ENTRIES
    if x.is_here and fits and len(names(model)) <= MANY:
        return efficient(x, support)
    return standardised_ksd(x.at_hand, support)


_ENOUGH = 20
"""Observations from which fields are learned; fewer leave room for less than six of them."""

_OTHERS, _ENTRIES = 14, 1 << 25
"""Functions besides the linear ones; and the most entries of the features of all observations, of
which a fit keeps about a dozen arrays: 3 GB.
"""


def efficient(x: Data, support: Support | None = None) -> Efficient:
    """The likelihood equations without the normaliser, with a diffusion that vanishes at the edges
    of the support if it has any.
    """
    return Efficient(None if support is None else inside(x, support))


Profile = Callable[[Any], AbstractKernel]
"""A radial kernel for each lengthscale."""


def standardised_ksd(
    x: Data, support: Support | None = None, *, profile: Profile = IMQ, widening: float = 1.0
) -> DKSD:
    """KSD as a V-statistic on robustly standardised data, with an IMQ kernel whose c is their
    median distance.

    The data are measured in the coordinates L⁻¹x, where LLᵀ is their robust scatter, so that
    neither units nor correlations matter: the estimate follows every linear change of coordinates.
    If the support has edges, coordinates are measured one by one, in units of their scaled median
    absolute deviation, and the diffusion vanishes at the edges.

    Args:
        x: the sample.
        support: the edges, if there are any.
        profile: another kernel, as a function of its lengthscale.
        widening: the lengthscale in median distances.
    """
    if support is None:
        return DKSD(_whitened(x, scatter_factor(x), profile, widening), unbiased=False)
    return DKSD(standardised_kernel(x, profile, widening), inside(x, support), unbiased=False)


def inside(x: Data, support: Support) -> Within:
    """The diffusion that vanishes at the edges, each coordinate in units of its scaled median
    absolute deviation.
    """
    return Within(bounded(*support), median_and_mad(x)[1])


def score_matching(x: Data, support: Support | None = None) -> DSM:
    """Score matching, with a diffusion that vanishes at the edges if the support has any."""
    return SM() if support is None else DSM(inside(x, support))


def standardised_kernel(x: Data, profile: Profile = IMQ, widening: float = 1.0) -> Elliptical:
    """A kernel of (x − y)/s with s the median absolute deviations, its lengthscale in median
    distances.
    """
    _, s = median_and_mad(x)
    distance = median_distance(as_rows(x).in_one_array(ROWS) / s)
    return Elliptical(namespace(s).diag(1 / s), profile(widening * distance))


def robust_discrepancy(
    x: Any, support: Support | None = None, *, a: Any = 2.5, widening: float = 4.0
) -> DKSD:
    """DKSD as a V-statistic that gives no weight to observations far from the bulk of the data.

    In one dimension the diffusion is exp(−r²/2a²) with r the distance from the median in units of
    the scaled median absolute deviation. In d dimensions it is exp(−(r/a)¹²/2) with r the
    Mahalanobis distance by a robust centre and scatter, and a² grows as the 99 % quantile of χ²
    with d degrees of freedom. If the support has edges, r is that of the logarithm or logit of the
    coordinates that have one, and the diffusion also vanishes there. Centre and scatter are held.

    Args:
        x: the sample, of shape (n, d), or (n,) for one variable.
        support: the edges, if there are any.
        a: smaller is more robust, larger more efficient; infinite for no weights at all.
        widening: the kernel's c in median distances. 4 makes estimates of location and scale
            together nearly efficient; take 1 where the scale is fitted alone, or a shape, whose
            estimates a wide kernel ruins.
    """
    x = read(x)
    if support is not None:
        within = inside(x, support)
        weight = _plateau(unfolded(as_rows(x).plain, within.edges.low, within.edges.high), a)
        kernel = standardised_kernel(x, widening=widening)
        return DKSD(kernel, Reweighted(within, weight), unbiased=False)
    if x.shape[1] == 1:
        kernel = standardised_kernel(x, widening=widening)
        return DKSD(kernel, redescending(a, *median_and_mad(x)), unbiased=False)
    weight = _plateau(x, a)
    return DKSD(_whitened(x, weight.factor, widening=widening), weight, unbiased=False)


def _plateau(x: Data, a: Any) -> Plateau:
    """The weight that falls off outside the bulk of data without edges."""
    return plateau(a * np.sqrt(chdtri(x.shape[1], 0.01) / chdtri(1, 0.01)), *centre_and_factor(x))


def _whitened(x: Data, L: Any, profile: Profile = IMQ, widening: float = 1.0) -> Whitened:
    """A kernel in the coordinates L⁻¹x, its lengthscale in median distances."""
    rows = as_rows(x).in_one_array(ROWS) @ triangular_inverse(L).T
    return Whitened(L, profile(widening * median_distance(rows)))
