"""log K_ν and log r^ν K_ν with their derivatives, in 40-digit arithmetic. Nothing of the package is used."""

import mpmath as mp

DIGITS = 40


def log_k(nu: float, z: float) -> tuple[float, float, float, float]:
    """log K_ν(z), ∂_z, ∂²_z and ∂_ν of it."""
    with mp.workdps(DIGITS):
        nu, z, h = mp.mpf(nu), mp.mpf(z), mp.mpf(10) ** -10
        k = mp.besselk(nu, z)
        slope = -mp.besselk(nu - 1, z) / k - nu / z
        curvature = 1 + (nu / z) ** 2 - slope / z - slope**2  # from z²K″ + zK′ = (z² + ν²)K
        in_order = mp.log(mp.besselk(nu + h, z) / mp.besselk(nu - h, z)) / (2 * h)
        return float(mp.log(k)), float(slope), float(curvature), float(in_order)


def log_profile(nu: float, r: float) -> tuple[float, float, float, float]:
    """log r^ν K_ν(r), ∂_r, ∂²_r and ∂_ν of it."""
    with mp.workdps(DIGITS):
        nu, r, h = mp.mpf(nu), mp.mpf(r), mp.mpf(10) ** -10
        k = mp.besselk(nu, r)
        ratio = mp.besselk(nu - 1, r) / k
        curvature = 1 - (2 * nu - 1) / r * ratio - ratio**2
        in_order = mp.log(r) + mp.log(mp.besselk(nu + h, r) / mp.besselk(nu - h, r)) / (2 * h)
        return float(nu * mp.log(r) + mp.log(k)), float(-ratio), float(curvature), float(in_order)
