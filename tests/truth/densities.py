"""The distributions behind the shipped families, from SciPy, mpmath and quadrature. Nothing of the package is used.

Each is elliptical: X = μ + L Z, where ‖Z‖ has a known law and the direction of Z is uniform on the sphere.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
from scipy import integrate, interpolate, special, stats

from . import bessel


@dataclass(frozen=True)
class Law:
    """An elliptical distribution on ℝᵈ.

    Attributes:
        mean: μ.
        factor: L, a d × d matrix.
        log_density: rows of x ↦ log p(x), up to one constant.
        profile: the logarithm of the density of Z at ‖z‖ = r, up to a constant, in mpmath.
        radius_cdf: the distribution function of ‖Z‖.
        variance: the variance of each coordinate of Z; infinite if there is none.
    """

    mean: np.ndarray
    factor: np.ndarray
    log_density: Callable
    profile: Callable
    radius_cdf: Callable
    variance: float

    @property
    def d(self) -> int:
        return len(self.mean)

    @property
    def covariance(self) -> np.ndarray:
        return self.variance * self.factor @ self.factor.T

    def radius(self, x):
        """‖L⁻¹(x − μ)‖ for each row."""
        return np.linalg.norm(np.linalg.solve(self.factor, (x - self.mean).T), axis=0)

    def cdf(self, x):
        """The distribution function, in one dimension."""
        z = (np.ravel(x) - self.mean) / self.factor[0, 0]
        return 0.5 + 0.5 * np.sign(z) * self.radius_cdf(np.abs(z))

    def score_and_laplacian(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """∇log p and Δlog p at one point, from the derivatives of the profile in 40-digit arithmetic."""
        inverse = np.linalg.inv(self.factor)
        z = inverse @ (x - self.mean)
        r = np.linalg.norm(z)
        with mp.workdps(40):
            slope, curvature = (float(mp.diff(self.profile, mp.mpf(r), order)) for order in (1, 2))
        normal = inverse.T @ (z / r)
        return slope * normal, (curvature - slope / r) * normal @ normal + slope / r * np.sum(inverse**2)


def gaussian(mean, factor) -> Law:
    return Law(
        mean,
        factor,
        stats.multivariate_normal(mean, factor @ factor.T).logpdf,
        lambda r: -(r**2) / 2,
        stats.chi(len(mean)).cdf,
        1.0,
    )


def student_t(mean, factor, df) -> Law:
    d = len(mean)
    return Law(
        mean,
        factor,
        stats.multivariate_t(mean, factor @ factor.T, df).logpdf,
        lambda r: -(mp.mpf(df) + d) / 2 * mp.log(1 + r**2 / mp.mpf(df)),
        lambda r: stats.f(d, df).cdf(r**2 / d),
        df / (df - 2) if df > 2 else np.inf,
    )


def generalised_gamma(mean, power) -> Law:
    """p ∝ exp(−‖x − μ‖^power): ‖Z‖^power is Gamma(d/power)."""
    d = len(mean)
    line = stats.gennorm(power, loc=mean[0])
    plane = lambda x: -(np.linalg.norm(np.atleast_2d(x) - mean, axis=1) ** power)
    return Law(
        mean,
        np.eye(d),
        (lambda x: line.logpdf(np.ravel(x))) if d == 1 else plane,
        lambda r: -(r ** mp.mpf(power)),
        lambda r: special.gammainc(d / power, r**power),
        special.gamma((d + 2) / power) / (d * special.gamma(d / power)),
    )


def symmetric_bessel(mean, factor, smoothness) -> Law:
    """p ∝ r^ν K_ν(r) with ν = s − d/2; the characteristic function of Z is (1 + ‖t‖²)^−s, so its variance is 2s."""
    d = len(mean)
    nu = smoothness - d / 2

    def log_density(x):
        r = np.linalg.norm(np.linalg.solve(factor, (np.atleast_2d(x) - mean).T), axis=0)
        return np.array([bessel.log_profile(nu, a)[0] for a in r])

    return Law(
        mean,
        factor,
        log_density,
        lambda r: mp.mpf(nu) * mp.log(r) + mp.log(mp.besselk(mp.mpf(nu), r)),
        _bessel_radius_cdf(nu, d),
        2.0 * smoothness,
    )


def _bessel_radius_cdf(nu: float, d: int) -> Callable:
    """∫₀^r t^(d−1+ν) K_ν(t) dt, normalised, by quadrature in u = √t, where nothing is singular."""
    density = lambda u: 2 * u ** (2 * (d + nu) - 1) * special.kv(nu, u**2)
    knots = np.linspace(0, 12, 400)
    pieces = [integrate.quad(density, a, b)[0] for a, b in itertools.pairwise(knots)]
    cumulated = np.concatenate([[0], np.cumsum(pieces)])
    interpolant = interpolate.PchipInterpolator(knots, cumulated / cumulated[-1])
    return lambda r: interpolant(np.minimum(np.sqrt(r), knots[-1]))
