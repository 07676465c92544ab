"""The Fisher score regressed on Stein features: the fields under which a Stein estimator is
efficient.

Differentiating E S[f] = 0 in θ gives E ∂_j S[f] = −Cov(S[f], ∂_j log p). Hence the estimating
functions S[f_j] are as good as the Fisher score if they span it, and least squares of ∂_j log p on
S[f_l] finds the best combination of given fields. The unknown derivative of the normaliser is the
intercept.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array, LogDensity, Point, Theta, namespace
from ..data.in_memory import as_rows
from ..data.robust import median_and_mad
from ..data.rows import Data
from ..data.sample import Sample
from ..kernels import IMQ
from ..kernels.heuristic import median_distance
from ..pairs.forms import Features
from ..pairs.reduce import stein_features
from ..stein import matrix_fields
from ..stein.diffusions import AbstractDiffusion
from ..stein.operator import features, field_at, score
from ..stein.unfolding import unfolded

SHARE = 3
"""There are at most n over this many fields: with n/2 the regression follows the noise."""

_BUMPS_ON_LINE, _BUMPS = 16, 12
"""Bumps in one dimension, and in more."""

_WIDTH = 2.0
"""The width of a bump, in median distances."""

_RIDGE = 1e-8
"""The ridge on features of unit variance, which only breaks ties between collinear ones: exponential
data under a normal model are moved by 0.0006 standard errors, with 1e-6 by 0.06.
"""


class Basis(eqx.Module):
    """Fields among which the best combination is sought.

    They are ψ_a e_i, with ψ the functions 1, u₁, …, u_d and (c² + ‖u − z_l‖²)^(−1/2) of
    u = (x − centre)/scale, and those that the model suggests: g_k = mᵀ∇∂_k log p, under which the
    equations are those of score matching, and M g_k, with which they are those of maximum
    likelihood if the model is Gaussian and M the inverse of E[mᵀ∇log p (mᵀ∇log p)ᵀ].

    In coordinates with an edge x is first taken to the whole line, by a logarithm or a logit.
    `full` says whether u_j e_i is a field for all i and j, or for i = j only; without a
    `whitening` M the model suggests none.
    """

    low: Float[Array, " d"]
    high: Float[Array, " d"]
    centre: Float[Array, " d"]
    scale: Float[Array, " d"]
    bumps: Float[Array, "L d"]
    c: Float[Array, ""]
    full: bool = eqx.field(static=True)
    whitening: Float[Array, "d d"] | None = None

    def __call__(self, x: Point) -> Float[Array, " B"]:
        u = (unfolded(x, self.low, self.high) - self.centre) / self.scale
        height = lambda z: IMQ(self.c)(u, z)
        return jnp.concatenate([jnp.ones(1, u.dtype), u, jax.vmap(height)(jnp.asarray(self.bumps))])

    @property
    def functions_and_directions(self) -> tuple[np.ndarray, ...]:
        """The function a and the direction i of each field ψ_a e_i."""
        d = self.centre.shape[0]
        linear = np.ones((d, d), bool) if self.full else np.eye(d, dtype=bool)
        rest = np.ones((self.bumps.shape[0], d), bool)
        return np.nonzero(np.concatenate([np.ones((1, d), bool), linear, rest]))

    def count(self, p: int) -> int:
        """The number of fields for a model of p parameters."""
        return self.functions_and_directions[0].size + (0 if self.whitening is None else 2 * p)


def basis_on(x: Data, edges: tuple[Any, Any] | None, p: int, whitening: Any = None) -> Basis:
    """Fields placed on the data: bumps at quantiles in one dimension, at observations in more.

    Args:
        x: the sample.
        edges: (low, high) of the support, or None if it has none.
        p: the number of parameters.
        whitening: M, if the fields that the model suggests are wanted; they come first, then
            linear fields and bumps as long as there is room.
    """
    rows: Any = as_rows(x).plain
    xp, (n, d) = namespace(rows), rows.shape
    low, high = (
        xp.broadcast_to(xp.asarray(edge, rows.dtype), (d,)) for edge in edges or (-np.inf, np.inf)
    )
    y = unfolded(rows, low, high)
    centre, scale = median_and_mad(y)
    u = (y - centre) / scale
    room = n // SHARE - d - (0 if whitening is None else 2 * p)
    full = d**2 <= room
    room -= d**2 if full else d
    count = int(np.clip(room // d, 0, _BUMPS_ON_LINE if d == 1 else _BUMPS))
    if d == 1:
        bumps = xp.quantile(u, (np.arange(count) + 0.5) / max(count, 1), axis=0)
    else:
        bumps = u[np.linspace(0, n - 1, count).astype(int)]
    c = xp.asarray(_WIDTH * median_distance(u))
    return Basis(low, high, centre, scale, bumps, c, full, whitening)


At = Callable[[Theta], LogDensity]
"""The model, without marks, at each value of its parameters in some coordinates."""


def regressors(
    basis: Basis, diffusion: AbstractDiffusion, at: At, vector: Theta, x: Float[Array, "N d"]
) -> tuple[Float[Array, "N F"], Float[Array, "N p"]]:
    """S[f_l] for each field of the basis, and ∂ log p without the normaliser, at each row."""
    b, m = jax.vmap(lambda x: features(at(vector), diffusion, x))(x)
    functions, directions = basis.functions_and_directions
    S = stein_features(basis, x, Features(b, m))[:, functions, directions]
    if basis.whitening is not None:
        S = jnp.concatenate([S, _of_model(basis.whitening, diffusion, at, vector, x, b, m)], 1)
    return S, jax.vmap(lambda x: jax.grad(lambda vector: at(vector)(x))(vector))(x)


def _of_model(
    whitening: Float[Array, "d d"],
    diffusion: AbstractDiffusion,
    at: At,
    vector: Theta,
    x: Float[Array, "N d"],
    b: Float[Array, "N d"],
    m: Array,
) -> Float[Array, "N q"]:
    """S[g_k] and S[M g_k] for the fields that the model suggests."""

    def one(x: Point, b: Point, m: Array) -> Float[Array, " q"]:
        g = lambda x: suggested_fields(diffusion, at, vector, x)
        both = lambda x: jnp.concatenate([g(x), g(x) @ whitening])
        slopes = jax.jacfwd(both)(x)  # ∂_i of component j of field k at [k, j, i]
        m = matrix_fields.as_matrix(m, x.size)
        return both(x) @ b + jnp.einsum("kji,ij->k", slopes, m)

    return jax.vmap(one)(x, b, m)


def suggested_fields(
    diffusion: AbstractDiffusion, at: At, vector: Theta, x: Point
) -> Float[Array, "p d"]:
    """g_k = mᵀ∇∂_k log p at one point."""

    def scaled_score(vector: Theta) -> Point:
        m = field_at(at(vector), diffusion, x)(x)
        return matrix_fields.transpose_apply(m, score(at(vector), x))

    return jax.jacfwd(scaled_score)(vector).T


def whitening_at(
    diffusion: AbstractDiffusion, model: LogDensity, sample: Sample
) -> Float[Array, "d d"]:
    """The inverse of E[mᵀ∇log p (mᵀ∇log p)ᵀ] over the sample."""
    scaled = lambda x: matrix_fields.transpose_apply(
        field_at(model, diffusion, x)(x), score(model, x)
    )
    s = sample.zero_padding(jax.vmap(scaled)(sample.x))
    second = s.T @ s / sample.size
    return jnp.linalg.inv(second + _RIDGE * jnp.diag(jnp.diagonal(second)))


class Regression(NamedTuple):
    """The regression of ∂_k log p on Stein features, and what follows from it.

    Attributes:
        alpha: the coefficients α, of features of unit variance.
        mean: g, the mean of Σ_l S[f_l] α_lk: the equations g = 0 are those of the estimate.
        cov: the covariance of Σ_l S[f_l] α_lk, the Fisher information that the fields carry.
        r_squared: of each parameter, each observation predicted by the others.
        centre, unit: the mean and the standard deviation of each feature.
        scores: the mean of ∂_k log p.
        tilt: how the features must be weighted for their mean to vanish.
        shrunk: by how much the ridge shrinks α.
    """

    alpha: Float[Array, "F p"]
    mean: Float[Array, " p"]
    cov: Float[Array, "p p"]
    r_squared: Float[Array, " p"]
    centre: Float[Array, " F"]
    unit: Float[Array, " F"]
    scores: Float[Array, " p"]
    tilt: Float[Array, " F"]
    shrunk: Float[Array, "F p"]

    def shares(self, S: Float[Array, "k F"], y: Float[Array, "k p"]) -> Float[Array, "k p"]:
        """The derivative of g in the weight of an observation with these features and scores.

        With a = (S − centre)/unit, e = y − ȳ − αᵀa and v = tilt it is αᵀa + (vᵀa) e − ρ Σ_l v_l a_l²
        α_l, where ρ is the ridge: what the observation adds under the fields as they are, and how it
        changes what the fields are. The second part vanishes if the mean of every feature does.
        """
        a, fitted = (S - self.centre) / self.unit, self.held_shares(S)
        error = y - self.scores - fitted
        ridge = ridge_for(S.dtype)
        return (
            fitted
            + (a @ self.tilt)[:, None] * error
            - ridge * a**2 @ (self.tilt[:, None] * self.alpha)
        )

    def held_shares(self, S: Float[Array, "k F"]) -> Float[Array, "k p"]:
        """αᵀa, the share of an observation under the fields as they are."""
        return (S - self.centre) / self.unit @ self.alpha


class Rows(NamedTuple):
    """What is regressed at each row, standardised, with the weight of the row."""

    a: Float[Array, "N F"]
    error: Float[Array, "N p"]
    weight: Float[Array, " N"]

    @classmethod
    def of(cls, found: Regression, S: Any, y: Any, real: Bool[Array, " N"]) -> "Rows":
        hide = lambda rows: jnp.where(real[:, None], rows, 0)
        a = hide((S - found.centre) / found.unit)
        return cls(
            a, hide(y - found.scores) - a @ found.alpha, real.astype(S.dtype) / jnp.sum(real)
        )

    def slope(
        self, found: Regression, dS: Float[Array, "N F"], dy: Float[Array, "N p"]
    ) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
        """The derivatives of g and of C in one direction, in which S and y have these derivatives.

        With a the features of unit variance, μ their means and G = mean aaᵀ + ρ it follows from
        Gα = mean ayᵀ that G dα = r, r = mean (da eᵀ + a (dy − αᵀda)ᵀ), and so dg = αᵀdμ + rᵀG⁻¹μ.
        """
        dS, dy = (jnp.where(self.weight[:, None] > 0, rows, 0) for rows in (dS, dy))
        drift = self.weight @ dS
        stretch = self.weight @ (self.a * dS) / found.unit
        da = (dS - drift) / found.unit - self.a * stretch
        moved = da @ found.alpha
        weighed = lambda rows: self.weight[:, None] * rows
        r = da.T @ weighed(self.error) + self.a.T @ weighed(dy - moved)
        means = drift / found.unit - found.centre / found.unit * stretch
        half = (self.a @ found.alpha).T @ weighed(moved) + (found.alpha - found.shrunk).T @ r
        return means @ found.alpha + found.tilt @ r, half + half.T


def ridge_for(dtype: Any) -> float:
    """The ridge in this precision."""
    return max(_RIDGE, 10 * float(jnp.finfo(dtype).eps))


def regress(S: Float[Array, "N F"], y: Float[Array, "N p"], real: Bool[Array, " N"]) -> Regression:
    """Least squares with an intercept, for the derivative of log Z, and a ridge on features of unit
    variance; rows that are not real are padding.
    """
    weight = real.astype(S.dtype) / jnp.sum(real)
    S = jnp.where(real[:, None], S, 0)
    centre, scores = weight @ S, weight @ jnp.where(real[:, None], y, 0)
    a, y = (jnp.where(real[:, None], rows, 0) for rows in (S - centre, y - scores))
    variance = weight @ a**2
    unit = jnp.sqrt(jnp.where(variance > 0, variance, 1))
    a = a / unit
    gram = a.T @ (weight[:, None] * a) + ridge_for(S.dtype) * jnp.eye(a.shape[1], dtype=a.dtype)
    mean = centre / unit
    factors = jax.scipy.linalg.lu_factor(gram)
    solve = lambda right: jax.scipy.linalg.lu_solve(factors, right)
    alpha, tilt = solve(a.T @ (weight[:, None] * y)), solve(mean)
    fitted = a @ alpha
    cov = fitted.T @ (weight[:, None] * fitted)
    leverage = weight * (1 + jnp.sum(a * solve(a.T).T, 1))
    left_out = jnp.sum(((y - fitted) / (1 - leverage)[:, None]) ** 2, 0)
    alone = jnp.sum((y / (1 - weight)[:, None]) ** 2, 0)
    return Regression(
        alpha,
        mean @ alpha,
        cov,
        1 - left_out / alone,
        centre,
        unit,
        scores,
        tilt,
        ridge_for(S.dtype) * solve(alpha),
    )
