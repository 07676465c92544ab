"""The special functions against 40-digit arithmetic, and at the origin against their limits."""

import itertools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import sympy
from scipy.special import digamma, gammaln

import minstein as ms

from ..truth import bessel


@pytest.fixture(autouse=True, scope="module")
def _double_precision():
    with jax.enable_x64(True):
        yield


# ---------------------------------------------------------------------------------------------------------- log K_ν(z)

ORDERS = [0, 1e-3, 0.1, 0.5, 1, 1.5, 2, 3.7, 10, 20.25, 29.9, 30]
ARGUMENTS = [*10.0 ** np.arange(-8, 5), 0.3, 2, 5, 30, 700, 3333]


@pytest.fixture(scope="module")
def points():
    """(ν, z): a grid with every corner of [0, 30] × [1e-8, 1e4], and 60 points anywhere within."""
    random = np.random.default_rng(0)
    anywhere = np.stack([random.uniform(0, 30, 60), 10 ** random.uniform(-8, 4, 60)], axis=1)
    return np.concatenate([np.array(list(itertools.product(ORDERS, ARGUMENTS)), float), anywhere])


@jax.jit
@jax.vmap
def log_k_and_derivatives(nu, z):
    log_k = ms.special.log_bessel_k
    slope = jax.grad(log_k, argnums=1)
    return log_k(nu, z), slope(nu, z), jax.grad(slope, argnums=1)(nu, z), jax.grad(log_k)(nu, z)


@pytest.fixture(scope="module")
def log_k(points):
    return np.stack(log_k_and_derivatives(*jnp.asarray(points).T), axis=1)


@pytest.fixture(scope="module")
def exact_log_k(points):
    return np.array([bessel.log_k(nu, z) for nu, z in points])


@pytest.mark.parametrize(("column", "floor"), [(0, 0), (1, 0), (2, 0), (3, 1e-3)], ids=["value", "∂z", "∂²z", "∂ν"])
def test_log_bessel_k_to_twelve_digits(log_k, exact_log_k, column, floor):
    """∂ν is zero at ν = 0, so its error is relative to at least 1e-3."""
    exact = exact_log_k[:, column]
    error = np.abs(log_k[:, column] - exact) / np.maximum(np.abs(exact), floor)
    assert np.nanmax(error) < 1e-12
    assert not np.isnan(error).any()


def test_log_bessel_k_is_even_in_the_order(points, log_k):
    mirrored = np.stack(log_k_and_derivatives(*jnp.asarray(points * [-1, 1]).T), axis=1)
    np.testing.assert_allclose(mirrored, log_k * [1, 1, 1, -1], rtol=1e-13)


def test_log_bessel_k_in_single_precision():
    with jax.enable_x64(False):
        z = jnp.asarray(np.logspace(-6, 3, 10), jnp.float32)
        log_k = jax.jit(jax.vmap(ms.special.log_bessel_k, in_axes=(None, 0)))
        for nu in (0.0, 0.5, 7.25):
            values = log_k(jnp.float32(nu), z)
            assert values.dtype == jnp.float32
            np.testing.assert_allclose(values, [bessel.log_k(nu, float(a))[0] for a in z], rtol=2e-6, atol=1e-5)


# ------------------------------------------------------------------------------------------------------- log r^ν K_ν(r)

U = np.array([0.6, -0.8])
RADII = [1e-8, 1e-4, 0.1, 1.0, 30.0, 1e4]
PROFILE_ORDERS = [-0.3, 0.0, 0.1, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 2.3, 7.0, 29.5]
FAR = [(nu, r) for nu in (0.5, 1.5, 4.2) for r in (1e6, 1e9, 1e12)]


@jax.jit
@jax.vmap
def profile_and_derivatives(v, nu):
    profile = ms.special.log_bessel_profile
    return (
        profile(v, nu),
        jax.grad(profile)(v, nu),
        jax.hessian(profile)(v, nu),
        jax.grad(profile, argnums=1)(v, nu),
        jax.jacfwd(jax.grad(profile), argnums=1)(v, nu),
    )


def at(pairs):
    """The profile at v = rU for pairs (ν, r)."""
    nu, r = np.array(list(pairs)).T
    size = len(PROFILE_ORDERS) * len(RADII)  # one compilation for every test
    pad = lambda a: np.concatenate([a, np.broadcast_to(a[:1], (size - len(a), *a.shape[1:]))])
    return [np.asarray(a)[: len(r)] for a in profile_and_derivatives(pad(r[:, None] * U), pad(nu))]


def test_log_bessel_profile_away_from_the_origin():
    pairs = list(itertools.product(PROFILE_ORDERS, RADII))
    value, gradient, hessian, in_order, _ = at(pairs)
    for i, (nu, r) in enumerate(pairs):
        f, df, ddf, dnu = bessel.log_profile(nu, r)
        across = np.eye(2) - np.outer(U, U)
        case = f"ν = {nu}, r = {r}"
        np.testing.assert_allclose(value[i], f, rtol=1e-12, atol=1e-12, err_msg=case)
        np.testing.assert_allclose(gradient[i], df * U, rtol=2e-12, err_msg=case)
        size = max(abs(ddf), abs(df / r), df**2)  # f″ = 1 − … − f′² cancels far out
        exact = ddf * np.outer(U, U) + df / r * across
        np.testing.assert_allclose(hessian[i] / size, exact / size, atol=1e-11, err_msg=case)
        np.testing.assert_allclose(in_order[i], dnu, rtol=1e-11, atol=1e-12, err_msg=case)


def test_log_bessel_profile_mixed_derivative():
    """∂_ν of the gradient, against the difference quotient of the exact gradient."""
    pairs, h = [(0.3, 0.1), (0.7, 2.0), (1.2, 1e-3), (2.3, 10.0)], 1e-5
    _, _, _, _, mixed = at(pairs)
    for i, (nu, r) in enumerate(pairs):
        quotient = (bessel.log_profile(nu + h, r)[1] - bessel.log_profile(nu - h, r)[1]) / (2 * h)
        np.testing.assert_allclose(mixed[i], quotient * U, rtol=1e-7)


def test_log_bessel_profile_far_out():
    """The gradient tends to a unit vector, whatever the order: an outlier must not make it noise."""
    _, gradient, hessian, _, _ = at(FAR)
    exact = np.array([bessel.log_profile(nu, r)[1] for nu, r in FAR])
    np.testing.assert_allclose(gradient, exact[:, None] * U, rtol=1e-11)
    np.testing.assert_allclose(hessian, np.zeros_like(hessian), atol=2e-6)


def test_log_bessel_profile_at_the_origin_is_its_limit():
    """log Γ(ν) 2^(ν−1), and for ν > 1 the curvature −1/(2(ν−1)) in every direction."""
    orders = np.array([1.05, 1.2, 1.49, 1.5, 1.7, 2.0, 2.3, 5.0, 29.5])
    value, gradient, hessian, in_order, mixed = at((nu, 0.0) for nu in orders)
    np.testing.assert_allclose(value, (orders - 1) * np.log(2) + gammaln(orders), rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(gradient, 0)
    np.testing.assert_allclose(hessian, -np.eye(2) / (2 * (orders - 1))[:, None, None], rtol=1e-12)
    np.testing.assert_allclose(in_order, np.log(2) + digamma(orders), rtol=1e-13)
    np.testing.assert_array_equal(mixed, 0)


def test_log_bessel_profile_third_derivative_on_the_line():
    """Odd, so zero at the origin wherever it exists, from ν > 3/2 on."""
    third = lambda x, nu: jax.grad(jax.grad(jax.grad(lambda x: ms.special.log_bessel_profile(x[None], nu))))(x)
    orders, places = np.array([1.55, 1.7, 2.0, 2.3, 5.0]), np.array([0.0, 1e-3, 0.4, 3.0])
    nu, x = (a.ravel() for a in np.meshgrid(orders, places))
    found = np.asarray(jax.jit(jax.vmap(third))(x, nu))
    np.testing.assert_array_equal(found[x == 0], 0)
    with mp.workdps(bessel.DIGITS):
        profile = lambda nu: lambda r: mp.mpf(nu) * mp.log(r) + mp.log(mp.besselk(mp.mpf(nu), r))
        exact = [float(mp.diff(profile(b), mp.mpf(a), 3)) if a else 0.0 for a, b in zip(x, nu, strict=True)]
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)


def test_log_bessel_profile_at_the_origin_has_a_kink_up_to_order_one():
    """Zero, the mean of the one-sided limits, from ν = 1/2 on; NaN where these are infinite."""
    _, gradient, _, _, _ = at((nu, 0.0) for nu in (0.5, 0.7, 1.0))
    np.testing.assert_array_equal(gradient, 0)
    value, gradient, _, _, _ = at((nu, 0.0) for nu in (-0.3, 0.0, 0.1, 0.49))
    assert np.isnan(gradient).all()
    np.testing.assert_array_equal(np.isinf(value), [True, True, False, False])


# ------------------------------------------------------------------------------------------------------------- ‖v‖^p

POWERS = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]


@jax.jit
@jax.vmap
def norm_power_and_derivatives(v, p):
    f = ms.special.norm_power
    orders = [f]
    for _ in range(3):
        orders.append(jax.jacfwd(orders[-1]))
    return [g(v, p) for g in orders] + [jax.grad(f, argnums=1)(v, p), jax.jacfwd(jax.grad(f), argnums=1)(v, p)]


def symbolic_norm_power():
    """‖v‖^p in the plane, its derivatives of order 0 to 3, ∂_p and ∂_p∇, from SymPy and in 40 digits."""
    x, y, p = sympy.symbols("x y p", real=True)
    f = sympy.sqrt(x**2 + y**2) ** p
    orders = [sympy.Array(f)]
    for _ in range(3):
        orders.append(sympy.derive_by_array(orders[-1], [x, y]))
    orders += [sympy.Array(sympy.diff(f, p)), sympy.derive_by_array(sympy.diff(f, p), [x, y])]
    functions = [[sympy.lambdify((x, y, p), entry, "mpmath") for entry in sympy.flatten(order)] for order in orders]

    def evaluate(*point):
        with mp.workdps(40):
            return [[float(entry(*map(mp.mpf, point))) for entry in order] for order in functions]

    return evaluate


@pytest.mark.parametrize("v", [(0.3, -0.4), (3.0, 4.0), (1e-6, 2e-6)], ids=str)
def test_norm_power_away_from_the_origin(v):
    exact = symbolic_norm_power()
    found = norm_power_and_derivatives(np.broadcast_to(v, (len(POWERS), 2)).copy(), np.array(POWERS))
    for i, p in enumerate(POWERS):
        for order, mine, theirs in zip([0, 1, 2, 3, 0, 1], found, exact(*v, p), strict=True):
            cancelled = 1e-13 * np.linalg.norm(v) ** (p - order)
            np.testing.assert_allclose(np.ravel(mine[i]), theirs, rtol=1e-12, atol=cancelled)


@pytest.mark.parametrize("d", [1, 2])
def test_norm_power_at_the_origin_is_exact_where_the_derivative_exists(d):
    f, *derivatives, in_power, mixed = norm_power_and_derivatives(np.zeros((len(POWERS), d)), np.array(POWERS))
    np.testing.assert_array_equal(f, 0)
    np.testing.assert_array_equal(in_power, 0)
    for i, p in enumerate(POWERS):
        for order, derivative in enumerate(derivatives, start=1):
            if p == 2:
                np.testing.assert_array_equal(derivative[i], 2 * np.eye(d) if order == 2 else np.zeros((d,) * order))
            elif p > order:
                np.testing.assert_array_equal(derivative[i], 0, err_msg=f"p = {p}, order {order}")
        if p > 1:
            np.testing.assert_array_equal(mixed[i], 0, err_msg=f"p = {p}")


def test_norm_power_at_the_origin_has_a_kink_at_one_and_a_cusp_below():
    """Zero, the mean of the one-sided limits, at p = 1; NaN where these are infinite."""
    _, gradient, *_ = norm_power_and_derivatives(np.zeros((len(POWERS), 2)), np.array(POWERS))
    np.testing.assert_array_equal(gradient[POWERS.index(1.0)], 0)
    assert np.isnan(gradient[POWERS.index(0.5)]).all()
