"""Robust location, scale and scatter of a sample, by which data are standardised."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import chdtr, chdtri

from .._types import Array, Scalar, is_traced, namespace
from .in_memory import as_rows
from .rows import Data

MAD_TO_SD = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""


def median_and_mad(x: Data) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Return the median and the scaled median absolute deviation of each coordinate.

    If more than half the values of a coordinate are tied, its standard deviation is used instead,
    or one if all are.
    """
    rows = as_rows(x)
    centre = rows.median()
    deviation, xp = MAD_TO_SD * rows.median(about=centre), namespace(centre)
    deviation = xp.where(deviation > 0, deviation, rows.std(axis=0))
    return centre, xp.where(deviation > 0, deviation, 1.0)


_ROWS = 10_000
"""The scatter is estimated from at most this many rows, which determine its entries to a per cent."""

_ROWS_PER_COLUMN = 5
"""With fewer rows than this for each column, correlations are mostly noise and are not estimated."""

_ROUNDS, _SETTLED = 200, 1e-10
"""The most rounds of the fixed-point iteration, and the relative change below which it has
converged. Its error falls by a factor of about two in each round.
"""

_CONCENTRATED, _REWEIGHTED, _INNER = 30, 3, 0.975
"""The most rounds of concentration, each of which lowers the determinant until none does; the rounds
of reweighting; and the share of normal data that these keep.
"""

_SINGULAR = 1e-12
"""A correlation matrix with a smaller ratio of eigenvalues is singular in double precision; that of
single-precision data never is.
"""


def scatter_factor(x: Data) -> Float[Array, "d d"]:
    """Return the lower-triangular L of a robust scatter matrix LLᵀ.

    It is scaled so that LLᵀ estimates the covariance of normal data. The scatter is that of the
    multivariate Cauchy distribution fitted to the sample (Kent and Tyler 1991), which is
    equivariant under linear changes of coordinates and to which a distant observation contributes
    no more than a near one. In one dimension, with too few rows or for singular data, L is the
    diagonal matrix of median absolute deviations.
    """
    _, s = median_and_mad(x)
    xp = namespace(s)
    if not _has_correlations(x):
        return xp.diag(s)
    z = as_rows(x).some(_ROWS) / s
    found = _cauchy(z)
    return s[:, None] * _root(_to_normal(z, found).scatter)[0]


def centre_and_factor(x: Data) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """Return the centre of the bulk of a sample, and the factor L of its scatter LLᵀ.

    They are those of the half of the rows with the smallest scatter, found by concentration from
    two robust starts, and then of the rows within the 97.5 % ellipse around it (Rousseeuw and Van
    Driessen 1999). A cluster at a moderate distance draws out the scatter of `scatter_factor`, but
    not this one. In one dimension, with too few rows or for singular data, they are the median and
    the diagonal matrix of median absolute deviations.
    """
    centre, s = median_and_mad(x)
    xp, d = namespace(s), x.shape[1]
    if not _has_correlations(x):
        return centre, xp.diag(s)
    z = as_rows(x).some(_ROWS) / s
    starts = (_Ellipse(centre / s, xp.eye(d, dtype=z.dtype)), _cauchy(z))
    first, second = (_concentrate(z, start) for start in starts)
    smaller = first.volume <= second.volume
    half = _Ellipse(*(xp.where(smaller, a, b) for a, b in zip(first, second, strict=True)))
    found = _repeat(z, _to_normal(z, half), _keep_inner, _REWEIGHTED)
    root, is_regular = _root(found.scatter)
    return xp.where(is_regular, s * found.centre, centre), s[:, None] * root


def _has_correlations(x: Data) -> bool:
    """Whether correlations can be estimated from this sample."""
    n, d = x.shape
    return d > 1 and n >= _ROWS_PER_COLUMN * d


def _root(scatter: Float[Array, "d d"]) -> tuple[Float[Array, "d d"], Any]:
    """Return the Cholesky factor, and whether there is one; else the identity matrix."""
    xp = namespace(scatter)
    eye = xp.eye(len(scatter), dtype=scatter.dtype)
    is_finite = xp.isfinite(scatter).all()
    w = xp.linalg.eigvalsh(xp.where(is_finite, scatter, eye))
    is_regular = is_finite & (w[0] > _SINGULAR * w[-1])
    return xp.linalg.cholesky(xp.where(is_regular, scatter, eye)), is_regular


class _Ellipse(NamedTuple):
    """A location and the scatter around it."""

    centre: Float[Array, " d"]
    scatter: Float[Array, "d d"]

    @property
    def volume(self) -> Scalar:
        """Return the determinant of the scatter, infinite if it is not known."""
        xp, is_known = namespace(self.scatter), namespace(self.scatter).isfinite(self.scatter).all()
        known = xp.where(is_known, self.scatter, xp.eye(len(self.centre)))
        return xp.where(is_known, xp.linalg.det(known), np.inf)

    def squares(self, z: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Return the squared Mahalanobis distances."""
        xp, rest = namespace(z), z - self.centre
        return (rest * xp.linalg.solve(self.scatter, rest.T).T).sum(1)


def _weighted(z: Float[Array, "n d"], weights: Float[Array, " n"]) -> _Ellipse:
    """Return the mean and the covariance of weighted rows."""
    total = weights.sum()
    centre = weights @ z / total
    rest = z - centre
    return _Ellipse(centre, (rest * weights[:, None]).T @ rest / total)


def _to_normal(z: Float[Array, "n d"], found: _Ellipse) -> _Ellipse:
    """Scale a scatter by the median of the distances, so that it is the covariance of normal data."""
    median = namespace(z).median(found.squares(z))
    return found._replace(scatter=found.scatter * median / float(chdtri(z.shape[1], 0.5)))


Round = Callable[[Float[Array, "n d"], _Ellipse], _Ellipse]
"""From an ellipse to a better one."""


def _repeat(z: Float[Array, "n d"], start: _Ellipse, improve: Round, rounds: int) -> _Ellipse:
    """Improve an ellipse until it no longer changes; its scatter is NaN if the rows lie in a plane."""
    if is_traced(z):
        return jax.lax.fori_loop(0, rounds, lambda _, found: improve(z, found), start)
    found = start
    for _ in range(rounds if np.isfinite(start.scatter).all() else 0):
        try:
            before, found = found, improve(z, found)
        except np.linalg.LinAlgError:
            return found._replace(scatter=np.full_like(found.scatter, np.nan))
        if np.abs(found.scatter - before.scatter).max() <= _SETTLED * np.abs(found.scatter).max():
            break
    return found


def _cauchy(z: Float[Array, "n d"]) -> _Ellipse:
    """Fit a multivariate Cauchy distribution to standardised rows."""
    xp = namespace(z)
    return _repeat(z, _Ellipse(xp.median(z, 0), xp.cov(z.T)), _weigh, _ROUNDS)


def _weigh(z: Float[Array, "n d"], found: _Ellipse) -> _Ellipse:
    """One round of the fixed-point iteration of Kent, Tyler and Vardi (1994)."""
    return _weighted(z, (1 + z.shape[1]) / (1 + found.squares(z)))


def _concentrate(z: Float[Array, "n d"], start: _Ellipse) -> _Ellipse:
    """The half of the rows with the smallest scatter near a start."""
    return _repeat(z, start, _keep_half, _CONCENTRATED)


def _keep_half(z: Float[Array, "n d"], found: _Ellipse) -> _Ellipse:
    near = namespace(z).argsort(found.squares(z))[: len(z) // 2 + 1]
    return _weighted(z[near], namespace(z).ones(len(z) // 2 + 1, z.dtype))


def _keep_inner(z: Float[Array, "n d"], found: _Ellipse) -> _Ellipse:
    """The rows within the ellipse that holds 97.5 % of normal data, their scatter scaled to all."""
    d, edge = z.shape[1], float(chdtri(z.shape[1], 1 - _INNER))
    inner = _weighted(z, (found.squares(z) < edge).astype(z.dtype))
    return inner._replace(scatter=inner.scatter * _INNER / float(chdtr(d + 2, edge)))
