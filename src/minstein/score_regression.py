"""The Fisher score regressed on Stein features: the fields under which a Stein estimator is efficient.

Differentiating E S[f] = 0 in θ gives E ∂_j S[f] = −Cov(S[f], ∂_j log p). Hence the estimating functions S[f_j] are as good
as the Fisher score where they span it, and least squares of ∂_j log p on S[f_l] finds the best combination of given fields.
The unknown derivative of the normaliser is the intercept.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Float

from ._types import Array, LogDensity, Point, Theta, namespace
from .default import median_distance
from .discrepancies import DKSD
from .kernels import IMQ
from .models._family import median_and_mad
from .pairs.reduce import stein_features
from .params import from_real, theta, unwrap
from .sample import Sample

SHARE = 5
"""There are at most n over this many fields."""

_BUMPS_ON_LINE, _BUMPS = 16, 12
"""Bumps in one dimension, and in more."""

_WIDTH = 2.0
"""The width of a bump, in median distances."""

_RIDGE = 1e-6


class Basis(eqx.Module):
    """The functions 1, u₁, …, u_d and (c² + ‖u − z_l‖²)^(−1/2) of u = (x − centre)/scale; each times e_i is a field.

    `full` says whether u_j e_i is a field for all i and j, or for i = j only.
    """

    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    bumps: Float[Array, "L d"]
    c: Float[Array, ""]
    full: bool = eqx.field(static=True)

    def __call__(self, x: Point) -> Float[Array, " B"]:
        u = (x - self.centre) / self.scale
        height = lambda z: IMQ(self.c)(u, z)
        return jnp.concatenate([jnp.ones(1, u.dtype), u, jax.vmap(height)(jnp.asarray(self.bumps))])

    @property
    def fields(self) -> tuple[np.ndarray, np.ndarray]:
        """The function a and the direction i of each field ψ_a e_i."""
        d = self.centre.shape[0]
        linear = np.ones((d, d), bool) if self.full else np.eye(d, dtype=bool)
        rest = np.ones((self.bumps.shape[0], d), bool)
        return np.nonzero(np.concatenate([np.ones((1, d), bool), linear, rest]))


def basis_on(x: Float[Array, "n d"]) -> Basis:
    """Functions placed on the data: bumps at quantiles in one dimension, at observations in more."""
    n, d = x.shape
    xp = namespace(x)
    centre, scale = median_and_mad(x)
    u = (x - centre) / scale
    full = d + d**2 <= n // SHARE
    room = n // SHARE - d - (d**2 if full else d)
    count = int(np.clip(room // d, 0, _BUMPS_ON_LINE if d == 1 else _BUMPS))
    if d == 1:
        bumps = xp.quantile(u, (np.arange(count) + 0.5) / max(count, 1), axis=0)
    else:
        bumps = u[np.linspace(0, n - 1, count).astype(int)]
    return Basis(centre, scale, bumps, xp.asarray(_WIDTH * median_distance(u)), full)


class Learned(NamedTuple):
    """The regression at one η; θ-coordinates are those of `params.theta`, the others those of `params.to_real`.

    Attributes:
        coefficients: α of the fields f_j = Σ_a ψ_a α_a·j.
        r_squared: leaving one out, of each coordinate of θ.
        scores: S[f_j] at each observation, zero in padding.
        mean: of the scores.
        cov: their covariance: the Fisher information that they carry.
        slope: the mean of ∂S[f_j], with the fields held.
        jacobian: ∂θ/∂η.
    """

    coefficients: Float[Array, "B d p"]
    r_squared: Float[Array, " p"]
    scores: Float[Array, "N p"]
    mean: Float[Array, " p"]
    cov: Float[Array, "p p"]
    slope: Float[Array, "p p"]
    jacobian: Float[Array, "p p"]

    def standard_errors(self, n: Array) -> Float[Array, " p"]:
        """Those of θ when estimated by S[f_j] = 0, from the sandwich."""
        influence = self.jacobian @ jnp.linalg.inv(self.slope)
        return jnp.sqrt(jnp.diagonal(influence @ self.cov @ influence.T) / n)


def learn(discrepancy: DKSD, basis: Basis, model: LogDensity, sample: Sample, eta: Theta) -> Learned:
    """Least squares of ∂_η log p on the Stein features of the discrepancy's diffusion, at η."""
    at = lambda eta: unwrap(from_real(model, eta))
    functions, directions = basis.fields
    n, p = sample.size, eta.size

    def stein(eta: Theta) -> Float[Array, "N F"]:
        phi = discrepancy.features(at(eta), sample)
        return stein_features(basis, sample.x, phi)[:, functions, directions]

    A, y = stein(eta), jax.vmap(lambda x: jax.grad(lambda eta: at(eta)(x))(eta))(sample.x)
    regression = _least_squares(sample, A, y)
    jacobian = jax.jacfwd(lambda eta: theta(from_real(model, eta)))(eta)
    total = sample.zero_padding(y - jnp.sum(sample.zero_padding(y), 0) / n) * n / (n - 1)
    in_theta = lambda rows: jnp.sum(jnp.linalg.solve(jacobian.T, rows.T) ** 2, 1)
    scores = sample.zero_padding(A @ regression.coefficients)
    mean = jnp.sum(scores, 0) / n
    centred = sample.zero_padding(scores - mean)
    slope = jax.jacfwd(lambda eta: jnp.sum(sample.zero_padding(stein(eta) @ regression.coefficients), 0) / n)(eta)
    shape = (1 + basis.centre.shape[0] + basis.bumps.shape[0], basis.centre.shape[0], p)
    return Learned(
        jnp.zeros(shape, A.dtype).at[functions, directions].set(regression.coefficients),
        1 - in_theta(regression.left_out) / in_theta(total),
        scores,
        mean,
        centred.T @ centred / n,
        slope,
        jacobian,
    )


class _Regression(NamedTuple):
    coefficients: Float[Array, "F p"]
    left_out: Float[Array, "N p"]


def _least_squares(sample: Sample, A: Float[Array, "N F"], y: Float[Array, "N p"]) -> _Regression:
    """Coefficients with an intercept, and the residual of each observation predicted from the others."""
    n = sample.size
    centred = lambda rows: sample.zero_padding(rows - jnp.sum(sample.zero_padding(rows), 0) / n)
    X, y = centred(A), centred(y)
    unit = jnp.sqrt(jnp.sum(X**2, 0) / n)
    unit = jnp.where(unit > 0, unit, 1)
    X = X / unit
    ridge = max(_RIDGE, 10 * float(jnp.finfo(X.dtype).eps))
    factor = jnp.linalg.cholesky(X.T @ X / n + ridge * jnp.eye(X.shape[1], dtype=X.dtype))
    coefficients = cho_solve((factor, True), X.T @ y / n)
    leverage = 1 / n + jnp.sum(solve_triangular(factor, X.T, lower=True) ** 2, 0) / n
    return _Regression(coefficients / unit[:, None], (y - X @ coefficients) / (1 - leverage)[:, None])
