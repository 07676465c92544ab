"""The Fisher score regressed on Stein features: the fields under which a Stein estimator is
efficient.

Differentiating E S[f] = 0 in θ gives E ∂_j S[f] = −Cov(S[f], ∂_j log p). Hence the estimating
functions S[f_j] are as good as the Fisher score where they span it, and least squares of ∂_j log p
on S[f_l] finds the best combination of given fields. The unknown derivative of the normaliser is
the intercept.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, LogDensity, Point, Theta, namespace
from ..data.in_memory import as_rows
from ..data.robust import median_and_mad
from ..data.rows import Data
from ..data.sample import Sample
from ..kernels import IMQ
from ..kernels.heuristic import median_distance
from ..pairs.reduce import stein_features
from ..params import from_real, theta, unwrap
from ..stein.diffusions import Within
from .default import standardised_ksd
from .ksd import DKSD
from .support import support_of

SHARE = 5
"""There are at most n over this many fields."""

_BUMPS_ON_LINE, _BUMPS = 16, 12
"""Bumps in one dimension, and in more."""

_WIDTH = 2.0
"""The width of a bump, in median distances."""

_RIDGE = 1e-6


def pilot_discrepancy(model: LogDensity, x: Data, support: tuple[Any, Any] | None) -> DKSD:
    """KSD on standardised data; with a diffusion that vanishes at the edges of the support, where
    it has any.
    """
    return standardised_ksd(x, support_of(model, x, support))


class Basis(eqx.Module):
    """The functions 1, u₁, …, u_d and (c² + ‖u − z_l‖²)^(−1/2) of u = (x − centre)/scale; each
    times e_i is a field.

    In coordinates with an edge x is first taken to the whole line, by a logarithm or a logit.
    `full` says whether u_j e_i is a field for all i and j, or for i = j only.
    """

    low: Float[Array, " d"]
    high: Float[Array, " d"]
    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    bumps: Float[Array, "L d"]
    c: Float[Array, ""]
    full: bool = eqx.field(static=True)

    def __call__(self, x: Point) -> Float[Array, " B"]:
        u = (unfolded(x, self.low, self.high) - self.centre) / self.scale
        height = lambda z: IMQ(self.c)(u, z)
        return jnp.concatenate([jnp.ones(1, u.dtype), u, jax.vmap(height)(jnp.asarray(self.bumps))])

    @property
    def fields(self) -> tuple[np.ndarray, ...]:
        """The function a and the direction i of each field ψ_a e_i."""
        d = self.centre.shape[0]
        linear = np.ones((d, d), bool) if self.full else np.eye(d, dtype=bool)
        rest = np.ones((self.bumps.shape[0], d), bool)
        return np.nonzero(np.concatenate([np.ones((1, d), bool), linear, rest]))

    def spread(self, coefficients: Float[Array, "F p"]) -> Float[Array, "B d p"]:
        """Coefficients of the fields by function and direction."""
        shape = (
            1 + self.centre.shape[0] + self.bumps.shape[0],
            self.centre.shape[0],
            coefficients.shape[1],
        )
        return jnp.zeros(shape, coefficients.dtype).at[self.fields].set(coefficients)


def unfolded(
    x: Float[Array, "*n d"], low: Float[Array, " d"], high: Float[Array, " d"]
) -> Float[Array, "*n d"]:
    """A half-line or an interval taken to the whole line: log(x − low), −log(high − x), or their
    sum.
    """
    xp = namespace(x)
    has_low, has_high = xp.isfinite(low), xp.isfinite(high)
    below = xp.log(xp.where(has_low, x - xp.where(has_low, low, 0), 1))
    above = xp.log(xp.where(has_high, xp.where(has_high, high, 0) - x, 1))
    return xp.where(has_low | has_high, below - above, x)


def folded(
    u: Float[Array, "*n d"], low: Float[Array, " d"], high: Float[Array, " d"]
) -> Float[Array, "*n d"]:
    """The inverse of `unfolded`: low + e^u, high − e^(−u), or between the two by the logistic
    function.
    """
    xp = namespace(u)
    has_low, has_high = xp.isfinite(low), xp.isfinite(high)
    low, high = xp.where(has_low, low, 0), xp.where(has_high, high, 0)
    below, above = xp.exp(-abs(u)), 1 / (1 + xp.exp(-abs(u)))
    between = low + (high - low) * xp.where(u < 0, below * above, above)
    rising, falling = (
        low + xp.exp(xp.where(has_low, u, 0)),
        high - xp.exp(xp.where(has_high, -u, 0)),
    )
    return xp.where(
        has_low & has_high, between, xp.where(has_low, rising, xp.where(has_high, falling, u))
    )


def basis_on(x: Data, discrepancy: DKSD) -> Basis:
    """Functions placed on the data: bumps at quantiles in one dimension, at observations in more.

    Edges of the support are those at which the diffusion of the discrepancy vanishes.
    """
    rows: Any = as_rows(x).plain
    xp, (n, d) = namespace(rows), rows.shape
    field = getattr(discrepancy.diffusion, "field", None)
    edges = (field.edges.low, field.edges.high) if isinstance(field, Within) else (-np.inf, np.inf)
    low, high = (xp.broadcast_to(xp.asarray(edge, rows.dtype), (d,)) for edge in edges)
    y = unfolded(rows, low, high)
    centre, scale = median_and_mad(y)
    u = (y - centre) / scale
    full = d + d**2 <= n // SHARE
    room = n // SHARE - d - (d**2 if full else d)
    count = int(np.clip(room // d, 0, _BUMPS_ON_LINE if d == 1 else _BUMPS))
    if d == 1:
        bumps = xp.quantile(u, (np.arange(count) + 0.5) / max(count, 1), axis=0)
    else:
        bumps = u[np.linspace(0, n - 1, count).astype(int)]
    return Basis(low, high, centre, scale, bumps, xp.asarray(_WIDTH * median_distance(u)), full)


class Features(NamedTuple):
    """What the regression needs of a model at η, a row for each observation and zero in padding.

    Attributes:
        stein: S[f_l] for each field of the basis.
        scores: ∂_η log p, without the normaliser.
        drift: the mean of ∂_η S[f_l].
        jacobian: ∂θ/∂η.
        real: one for observations, zero for padding.
    """

    stein: Float[Array, "N F"]
    scores: Float[Array, "N p"]
    drift: Float[Array, "F p"]
    jacobian: Float[Array, "p p"]
    real: Float[Array, " N"]


def features_at(
    discrepancy: DKSD, basis: Basis, model: LogDensity, sample: Sample, eta: Theta
) -> Features:
    """Stein features for the diffusion of a discrepancy, and Fisher scores, at η."""
    at = lambda eta: unwrap(from_real(model, eta))
    functions, directions = basis.fields

    def stein(eta: Theta) -> Float[Array, "N F"]:
        phi = discrepancy.features(at(eta), sample)
        return stein_features(basis, sample.x, phi)[:, functions, directions]

    scores = jax.vmap(lambda x: jax.grad(lambda eta: at(eta)(x))(eta))(sample.x)
    drift = jax.jacfwd(lambda eta: jnp.sum(stein(eta), 0) / sample.size)(eta)
    jacobian = jax.jacfwd(lambda eta: theta(from_real(model, eta)))(eta)
    return Features(
        stein(eta), sample.zero_padding(scores), drift, jacobian, sample.real.astype(sample.x.dtype)
    )


class Learned(NamedTuple):
    """The regression of scores on Stein features; θ-coordinates are those of `params.theta`, the
    others of `to_real`.

    Attributes:
        coefficients: α of S[f_j] = Σ_l S[f_l] α_lj.
        r_squared: leaving one out, of each coordinate of θ.
        fitted: S[f_j] less its mean, a row for each observation.
        mean: of S[f_j].
        cov: its covariance: the Fisher information that the fields carry.
        slope: the mean of ∂S[f_j], with the fields held.
        jacobian: ∂θ/∂η.
    """

    coefficients: Float[Array, "F p"]
    r_squared: Float[Array, " p"]
    fitted: Float[Array, "N p"]
    mean: Float[Array, " p"]
    cov: Float[Array, "p p"]
    slope: Float[Array, "p p"]
    jacobian: Float[Array, "p p"]

    def standard_errors(self, n: Any) -> Float[Array, " p"]:
        """Those of θ when estimated by S[f_j] = 0, from the sandwich."""
        xp = namespace(self.cov)
        influence = self.jacobian @ xp.linalg.inv(self.slope)
        return xp.sqrt(xp.diagonal(influence @ self.cov @ influence.T) / n)


def learn(features: Features) -> Learned:
    """Least squares with an intercept, for the derivative of log Z, and a ridge on features of unit
    variance.
    """
    A, y, drift, jacobian, real = features
    xp, n = namespace(A), real.sum()
    means = lambda rows: rows.sum(0) / n
    centred = lambda rows: (rows - means(rows)) * real[:, None]
    X, y = centred(A), centred(y)
    unit = xp.sqrt(means(X**2))
    unit = xp.where(unit > 0, unit, 1)
    X = X / unit
    ridge = max(_RIDGE, 10 * float(xp.finfo(X.dtype).eps))
    gram = X.T @ X / n + ridge * xp.eye(X.shape[1], dtype=X.dtype)
    solved = xp.linalg.solve(gram, xp.concatenate([X.T @ y, X.T], 1)) / n
    alpha, leverage = solved[:, : y.shape[1]], 1 / n + (solved[:, y.shape[1] :].T * X).sum(1)
    left_out = (y - X @ alpha) / (1 - leverage)[:, None]
    squares = lambda rows: (xp.linalg.solve(jacobian.T, rows.T) ** 2).sum(1)
    alpha = alpha / unit[:, None]
    fitted = centred(A @ alpha)
    return Learned(
        alpha,
        1 - squares(left_out) / squares(y * n / (n - 1)),
        fitted,
        means(A) @ alpha,
        fitted.T @ fitted / n,
        alpha.T @ drift,
        jacobian,
    )
