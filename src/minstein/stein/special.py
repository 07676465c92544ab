"""Special functions with the derivatives that models need: log K_ν, log r^ν K_ν, ‖v‖^p."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logsumexp
from jaxtyping import Float

from .._types import Array, Point, Scalar, is_symbolic_zero

__all__ = ["log_bessel_k", "log_bessel_profile", "norm_power"]


_NODES = 128
"""Nodes of the trapezoidal rule: enough for twelve digits of log K_ν (tests/test_special.py)."""

_CUT = 42.0
"""Terms below e^(−42) = 6e-19 of the largest do not change a float64 sum."""


def log_bessel_k(nu: Float[Array, ""] | float, z: Float[Array, ""] | float) -> Scalar:
    """log K_ν(z) for real ν and z > 0, differentiable any number of times in both arguments.

    It uses the trapezoidal rule on `K_ν(z) = e^{−z} ∫₀^∞ e^{−z(cosh t − 1)} cosh(νt) dt`, which
    converges geometrically because the integrand is even in t and decays doubly exponentially.

    >>> round(float(ms.special.log_bessel_k(0.5, 2.0)), 6)   # √(π/4)·e⁻²
    -2.120782
    """
    z = jnp.asarray(z, jnp.result_type(float))
    return _log_scaled_k(jnp.asarray(nu, z.dtype), z) - z


def _log_scaled_k(nu: Scalar, z: Scalar) -> Scalar:
    """log e^z K_ν(z), which does not decay exponentially in z."""
    t, log_step = _nodes(jax.lax.stop_gradient(jnp.abs(nu)), jax.lax.stop_gradient(z))
    log_cosh = jnp.logaddexp(nu * t, -nu * t) - jnp.log(2.0)
    ends = jnp.ones(_NODES, z.dtype).at[jnp.array([0, -1])].set(0.5)
    return logsumexp(log_cosh - 2 * z * jnp.sinh(t / 2) ** 2, b=ends) + log_step


def _nodes(nu: Scalar, z: Scalar) -> tuple[Float[Array, " nodes"], Scalar]:
    """Equally spaced t over the range in which the integrand is not negligible, and the logarithm
    of their spacing.
    """
    peak = jnp.arcsinh(nu / z)
    height = nu * peak - 2 * z * jnp.sinh(peak / 2) ** 2
    low = jnp.maximum(0.0, (height - _CUT) / jnp.maximum(nu, 1e-300))  # 1e-300 avoids 0/0
    high = jnp.arccosh(1 + _CUT / z)
    # six steps of a fixed-point iteration for the upper end, which need not be exact
    for _ in range(6):
        high = jnp.arccosh(1 + (_CUT + jnp.maximum(nu * high - height, 0.0)) / z)
    return jnp.linspace(low, high, _NODES), jnp.log((high - low) / (_NODES - 1))


def log_bessel_profile(v: Point, nu: Scalar) -> Scalar:
    """log r^ν K_ν(r) at r = ‖v‖ for any real ν, with its derivatives at v = 0 if they exist.

    At v = 0 the value is the limit, which is infinite for ν ≤ 0. A derivative that jumps there is
    zero, the mean of its one-sided limits; one that is infinite is NaN: the gradient for ν < 1/2,
    the curvature for 1/2 < ν ≤ 1.

    >>> value = ms.special.log_bessel_profile(jnp.array([2.0]), jnp.array(0.5))
    >>> bool(np.isclose(value, np.log(np.sqrt(np.pi / 2)) - 2, rtol=1e-5))               # √r K_½(r) = √(π/2) e^(−r)
    True
    """
    centre = jnp.all(v == 0)
    value = jnp.where(
        centre, _profile_at_centre(v, nu), _profile_off_centre(jnp.where(centre, 1, v), nu)
    )
    return value + _cusp(0, v, _first_infinite(2 * nu, v, even=2 * nu))


def _profile_at_centre(v: Point, nu: Scalar) -> Scalar:
    """The even part of the profile's series at the origin: log 2^(ν−1)Γ(ν) + a₁r² + a₂r⁴."""
    u, safe = jnp.vdot(v, v), jnp.where(nu > 0, nu, 1)
    a1 = jnp.where(nu > 1, -0.25 / jnp.where(nu > 1, nu - 1, 1), 0)
    smooth = (nu > 1) & (nu != 2)
    a2 = jnp.where(smooth, -a1 / (8 * jnp.where(smooth, nu - 2, 1)) - a1**2 / 2, 0)
    return jnp.where(nu > 0, (nu - 1) * jnp.log(2.0) + gammaln(safe) + a1 * u + a2 * u**2, jnp.inf)


@jax.custom_jvp
def _profile_off_centre(v: Point, nu: Scalar) -> Scalar:
    r = jnp.linalg.norm(v)
    return nu * jnp.log(r) + _log_scaled_k(nu, r) - r


@partial(_profile_off_centre.defjvp, symbolic_zeros=True)
def _profile_off_centre_jvp(primals, tangents):
    (v, nu), (dv, dnu) = primals, tangents
    in_v = lambda: -_profile_slope(v, nu) * jnp.vdot(v, dv)
    in_order = lambda: _profile_in_order(v, nu) * dnu
    return _profile_off_centre(v, nu), _tangent(v, (dv, in_v), (dnu, in_order))


@jax.custom_jvp
def _profile_slope(v: Point, nu: Scalar) -> Scalar:
    """K_(ν−1)(r) / r K_ν(r): minus the gradient of the profile in units of v."""
    r = jnp.linalg.norm(v)
    return jnp.exp(_log_scaled_k(nu - 1, r) - _log_scaled_k(nu, r)) / r


@partial(_profile_slope.defjvp, symbolic_zeros=True)
def _profile_slope_jvp(primals, tangents):
    (v, nu), (dv, dnu) = primals, tangents
    slope = _profile_slope(v, nu)
    in_v = lambda: slope * (slope - _profile_slope(v, nu - 1)) * jnp.vdot(v, dv)
    in_order = lambda: slope * (_profile_in_order(v, nu - 1) - _profile_in_order(v, nu)) * dnu
    return slope, _tangent(v, (dv, in_v), (dnu, in_order))


def _tangent(v: Point, *parts: tuple[Any, Callable[[], Scalar]]) -> Scalar:
    """Return the sum of the parts whose tangent is not zero; others would be expensive to compile."""
    return sum(
        (part() for tangent, part in parts if not is_symbolic_zero(tangent)),
        jnp.zeros((), v.dtype),
    )


def _profile_in_order(v: Point, nu: Scalar) -> Scalar:
    """∂_ν of the profile."""
    r = jnp.linalg.norm(v)
    return jnp.log(r) + jax.grad(_log_scaled_k)(nu, r)


def norm_power(v: Point, p: Scalar) -> Scalar:
    """‖v‖^p for p > 0, with its derivatives at v = 0 if they exist.

    A derivative that jumps there is zero, the mean of its one-sided limits; one that is infinite is
    NaN: the gradient for p < 1, the curvature for 1 < p < 2.

    >>> float(ms.special.norm_power(jnp.array([3.0, 4.0]), jnp.array(2.0)))
    25.0
    """
    u = jnp.vdot(v, v)
    centre = u == 0
    off = jnp.where(centre, 1, u) ** (p / 2)
    even = jnp.where(p == 2, u, jnp.where(p == 4, u**2, jnp.where(p == 0, 1, 0)))
    return jnp.where(centre, even, off) + _cusp(0, v, _first_infinite(p, v, even=jnp.inf))


def _first_infinite(q: Scalar, v: Point, *, even: Scalar | float) -> Scalar:
    """The lowest order of an infinite derivative at the origin of a function that behaves like r^q.

    In one dimension, odd integers q give derivatives that jump but are never infinite; for even
    integers the answer depends on the function and is passed as `even`.
    """
    odd = jnp.inf if v.shape[0] == 1 else q + 1
    order = jnp.where(q == jnp.round(q), jnp.where(jnp.round(q) % 2 == 1, odd, even), jnp.ceil(q))
    return jax.lax.stop_gradient(order)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _cusp(order: int, v: Point, infinite: Scalar) -> Scalar:
    """Zero, except that its derivatives of order `infinite` and above are NaN at v = 0."""
    # A function of v, because a constant zero would not be batched with v.
    return jnp.sum(jnp.where(v == 0, 0.0, 0.0).astype(v.dtype))


@_cusp.defjvp
def _cusp_jvp(order, primals, tangents):
    (v, infinite), (dv, _) = primals, tangents
    at_cusp = jnp.all(v == 0) & (order + 1 >= infinite)
    slope = jnp.where(at_cusp, jnp.nan, 0) + _cusp(order + 1, v, infinite)
    return _cusp(order, v, infinite), slope * jnp.sum(dv)
