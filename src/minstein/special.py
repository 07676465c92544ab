"""Special functions with the derivatives that models need: log K_ν, log r^ν K_ν and ‖v‖^p."""

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln, logsumexp
from jaxtyping import Float

from ._types import Array, Point, Scalar

_NODES = 128
_CUT = 42.0
"""Terms below e^−42 of the largest do not change a float64 sum."""


def log_bessel_k(nu: Float[Array, ""] | float, z: Float[Array, ""] | float) -> Scalar:
    """log K_ν(z) for real ν and z > 0, differentiable any number of times in both arguments.

    The trapezoidal rule on `K_ν(z) = e^{−z} ∫₀^∞ e^{−z(cosh t − 1)} cosh(νt) dt`, which converges geometrically because
    the integrand is even in t and falls doubly exponentially.

    >>> round(float(ms.special.log_bessel_k(0.5, 2.0)), 6)   # √(π/4)·e⁻²
    -2.120782
    """
    z = jnp.asarray(z, jnp.result_type(float))
    nu = jnp.asarray(nu, z.dtype)
    t, log_step = _nodes(jax.lax.stop_gradient(jnp.abs(nu)), jax.lax.stop_gradient(z))
    log_cosh = jnp.logaddexp(nu * t, -nu * t) - jnp.log(2.0)
    ends = jnp.ones(_NODES, z.dtype).at[jnp.array([0, -1])].set(0.5)
    return logsumexp(log_cosh - 2 * z * jnp.sinh(t / 2) ** 2, b=ends) + log_step - z


def _nodes(nu: Scalar, z: Scalar) -> tuple[Float[Array, " nodes"], Scalar]:
    """Equally spaced t over the stretch where the integrand matters, and the logarithm of their distance."""
    peak = jnp.arcsinh(nu / z)
    height = nu * peak - 2 * z * jnp.sinh(peak / 2) ** 2
    low = jnp.maximum(0.0, (height - _CUT) / jnp.maximum(nu, 1e-300))
    high = jnp.arccosh(1 + _CUT / z)
    for _ in range(6):
        high = jnp.arccosh(1 + (_CUT + jnp.maximum(nu * high - height, 0.0)) / z)
    return jnp.linspace(low, high, _NODES), jnp.log((high - low) / (_NODES - 1))


@jax.custom_jvp
def log_bessel_profile(v: Point, nu: Scalar) -> Scalar:
    """log r^ν K_ν(r) at r = ‖v‖, for any real ν; at v = 0 its limit, which is infinite for ν ≤ 0.

    Closed under differentiation, `∇ = −v·exp(profile(ν−1) − profile(ν))`, so no digits are lost near the origin. At
    v = 0 the gradient is zero for ν ≥ 1/2 (the mean of its one-sided limits) and NaN for ν < 1/2, where it is infinite.
    """
    r = jnp.linalg.norm(v)
    safe = jnp.where(r > 0, r, 1)
    at_zero = jnp.where(nu > 0, (nu - 1) * jnp.log(2.0) + gammaln(jnp.where(nu > 0, nu, 1)), jnp.inf)
    return jnp.where(r > 0, nu * jnp.log(safe) + log_bessel_k(nu, safe), at_zero)


@log_bessel_profile.defjvp
def _log_bessel_profile_jvp(primals, tangents):
    (v, nu), (dv, dnu) = primals, tangents
    value = log_bessel_profile(v, nu)
    kink = jnp.all(v == 0) & (nu <= 1)
    w = jnp.where(kink, 1, v)
    slope = jnp.exp(log_bessel_profile(w, nu - 1) - log_bessel_profile(w, nu))
    slope = jnp.where(kink, jnp.where(nu >= 0.5, 0, jnp.nan), slope)
    return value, -slope * jnp.vdot(v, dv) + _profile_slope_in_order(v, nu) * dnu


def _profile_slope_in_order(v: Point, nu: Scalar) -> Scalar:
    """∂_ν log r^ν K_ν(r)."""
    r = jnp.linalg.norm(v)
    safe = jnp.where(r > 0, r, 1)
    at_zero = jnp.log(2.0) + digamma(jnp.where(nu > 0, nu, 1))
    return jnp.where(r > 0, jnp.log(safe) + jax.grad(log_bessel_k)(nu, safe), at_zero)


@jax.custom_jvp
def norm_power(v: Point, p: Scalar) -> Scalar:
    """‖v‖^p, closed under differentiation: `∇ = p‖v‖^(p−2) v`.

    At v = 0 the gradient is zero for p ≥ 1 (the mean of its one-sided limits) and NaN for p < 1, where it is infinite.
    """
    u = jnp.vdot(v, v)
    at_zero = jnp.where(p > 0, 0, jnp.where(p == 0, 1, jnp.inf))
    return jnp.where(u > 0, jnp.where(u > 0, u, 1) ** (p / 2), at_zero)


@norm_power.defjvp
def _norm_power_jvp(primals, tangents):
    (v, p), (dv, dp) = primals, tangents
    value = norm_power(v, p)
    u = jnp.vdot(v, v)
    kink = (u == 0) & (p < 2)
    w = jnp.where(kink, 1, v)
    slope = jnp.where(kink, jnp.where((p >= 1) | (p == 0), 0, jnp.nan), p * norm_power(w, p - 2))
    log_norm = jnp.where(u > 0, 0.5 * jnp.log(jnp.where(u > 0, u, 1)), 0)
    return value, slope * jnp.vdot(v, dv) + value * log_norm * dp
