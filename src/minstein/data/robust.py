"""Robust location, scale and scatter of a sample, by which data are standardised."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

from .._types import Array, is_traced, namespace
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
"""The most rounds of the fixed-point iteration, and the change of a weight below which it has
converged. Its error falls by a factor of about two in each round.
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
    xp, (n, d) = namespace(s), x.shape
    if d == 1 or n < _ROWS_PER_COLUMN * d:
        return xp.diag(s)
    z = as_rows(x).some(_ROWS) / s
    scatter = _scatter(z)
    w = xp.linalg.eigvalsh(scatter)
    fine = xp.isfinite(w).all() & (w[0] > _SINGULAR * w[-1])
    root = xp.linalg.cholesky(xp.where(fine, scatter, xp.eye(d, dtype=scatter.dtype)))
    return s[:, None] * root


class _Cauchy(NamedTuple):
    """A location, the scatter around it, and the weight that each row has in them."""

    centre: Float[Array, " d"]
    scatter: Float[Array, "d d"]
    weights: Float[Array, " n"]


def _scatter(z: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """Return the scatter of standardised rows, scaled by the median of their distances."""
    xp, (n, d) = namespace(z), z.shape
    start = _Cauchy(xp.median(z, 0), xp.cov(z.T), xp.zeros(n, z.dtype))
    if is_traced(z):
        found = jax.lax.fori_loop(0, _ROUNDS, lambda _, state: _iterate(z, state), start)
    else:
        found = _converge(z, start)
    squares = _squares(z, found)
    return found.scatter * xp.median(squares) / float(chdtri(d, 0.5))


def _converge(z: Float[Array, "n d"], state: _Cauchy) -> _Cauchy:
    """Return the fixed point of the iteration, with a scatter of NaN if the rows lie in a plane."""
    for _ in range(_ROUNDS):
        try:
            before, state = state, _iterate(z, state)
        except np.linalg.LinAlgError:
            return state._replace(scatter=np.full_like(state.scatter, np.nan))
        if np.abs(state.weights - before.weights).max() <= _SETTLED:
            break
    return state


def _squares(z: Float[Array, "n d"], state: _Cauchy) -> Float[Array, " n"]:
    """Return the squared Mahalanobis distances."""
    xp, rest = namespace(z), z - state.centre
    return (rest * xp.linalg.solve(state.scatter, rest.T).T).sum(1)


def _iterate(z: Float[Array, "n d"], state: _Cauchy) -> _Cauchy:
    """Return the result of one round of the fixed-point iteration of Kent, Tyler and Vardi (1994)."""
    weights = (1 + z.shape[1]) / (1 + _squares(z, state))
    total = weights.sum()
    centre = weights @ z / total
    rest = z - centre
    return _Cauchy(centre, (rest * weights[:, None]).T @ rest / total, weights)
