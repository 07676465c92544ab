"""Pair sums on the line in linear time: against sums written out in extended precision, and against the tiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.pairs import exponentials, lines
from minstein.pairs.forms import Features

RNG = np.random.default_rng(1970)


def imq(r, c, beta):
    v = c**2 + r**2
    return v**beta, 2 * beta * r * v ** (beta - 1), 2 * beta * v ** (beta - 2) * (v + 2 * (beta - 1) * r**2)


def rational_quadratic(r, scale, alpha):
    factor = np.longdouble(2 * alpha * scale**2) ** alpha
    return tuple(factor * part for part in imq(r, np.sqrt(np.longdouble(2 * alpha)) * scale, -alpha))


def gaussian(r, scale):
    k = np.exp(-(r**2) / (2 * scale**2))
    return k, -r / scale**2 * k, (r**2 / scale**4 - 1 / scale**2) * k


def matern52(r, scale):
    a = np.sqrt(np.longdouble(5)) / scale
    e = np.exp(-a * r)
    return (
        (1 + a * r + (a * r) ** 2 / 3) * e,
        -(a**2) / 3 * r * (1 + a * r) * e,
        a**2 / 3 * ((a * r) ** 2 - a * r - 1) * e,
    )


def matern72(r, scale):
    a = np.sqrt(np.longdouble(7)) / scale
    s, e = a * r, np.exp(-a * r)
    k, slope = 1 + s + 2 * s**2 / 5 + s**3 / 15, -s / 5 - s**2 / 5 - s**3 / 15
    return k * e, a * slope * e, a**2 * (-1 - s + s**3 / 3) / 5 * e


KERNELS = {
    "matern": (ms.kernels.Matern(1.3), lambda r: matern52(r, 1.3)),
    "imq": (ms.kernels.IMQ(0.7), lambda r: imq(r, 0.7, -0.5)),
    "gaussian": (ms.kernels.Gaussian(1.3), lambda r: gaussian(r, 1.3)),
    "rational quadratic": (ms.kernels.RationalQuadratic(1.1, 1.7), lambda r: rational_quadratic(r, 1.1, 1.7)),
    "sum": (
        ms.kernels.Matern(0.8, 7 / 2) + 2.0 * ms.kernels.IMQ(1.5, -0.3),
        lambda r: tuple(a + 2 * b for a, b in zip(matern72(r, 0.8), imq(r, 1.5, -0.3), strict=True)),
    ),
}
QUICK = [name if name in ("matern", "imq") else pytest.param(name, marks=pytest.mark.slow) for name in KERNELS]


def written_out(profile, x, t, m):
    """F = Σ k tⱼ − ∂ₓk mⱼ and J = Σ ∂ₓk tⱼ − ∂ₓ²k mⱼ over j ≠ i, every pair, in extended precision."""
    D = x[:, None].astype(np.longdouble) - x
    k, slope, curvature = (np.where(np.eye(len(x), dtype=bool), 0, part) for part in profile(np.abs(D)))
    slope = np.sign(D) * slope
    return k @ t - slope @ m, slope @ t - curvature @ m


def rows():
    """A dense cluster, a spread of others, ties, a gap, and outliers 1e5 and 1e9 away."""
    dense, spread = 3 + RNG.uniform(0, 0.1, 320), RNG.standard_t(3, 128)
    x = np.concatenate([dense, spread, np.repeat(RNG.standard_normal(8), 4), 1e5 + RNG.standard_normal(28), [-1e9] * 4])
    return RNG.permutation(x)


APPLY = jax.jit(lambda line, phis: line.apply(phis))


def fields(kernel, x, t, m):
    with jax.enable_x64(True):
        (term,) = kernel.terms()
        line = lines.Line(jnp.asarray(x), jnp.argsort(jnp.asarray(x)), term.profile)
        F, J = APPLY(line, Features(jnp.asarray(t)[None, :, None], jnp.asarray(m)[None]))
        return np.asarray(F[0, :, 0]), np.asarray(J[0])


@pytest.mark.parametrize("name", QUICK)
def test_fields_are_those_of_every_pair(name):
    kernel, profile = KERNELS[name]
    x = rows()
    t, m = -x / (1 + x**2 / 5), 1 + np.minimum(np.abs(x), 1e5) ** 2 / 5
    F, J = fields(kernel, x, t, m)
    exact = written_out(profile, x, t, m)
    near = np.abs(x) < 1e4
    for ours, theirs in zip((F, J), exact, strict=True):
        np.testing.assert_allclose(
            ours[near], theirs[near].astype(float), rtol=0, atol=1e-11 * np.abs(theirs[near]).max()
        )
        np.testing.assert_allclose(ours, theirs.astype(float), rtol=0, atol=1e-11 * np.abs(theirs).max())


def test_a_far_point_with_a_large_feature_of_its_own_loses_no_digits():
    """What it receives from the others is sixteen orders below what it would give itself: nothing is subtracted."""
    x = np.concatenate([RNG.standard_normal(511), [3e5]])
    t, m = np.append(RNG.uniform(1, 2, 511), 1.0), np.append(np.ones(511), 1e10)
    kernel, profile = KERNELS["imq"]
    F, J = fields(kernel, x, t, m)
    exact = written_out(profile, x, t, m)
    np.testing.assert_allclose([F[-1], J[-1]], [float(exact[0][-1]), float(exact[1][-1])], rtol=1e-11)
    assert abs(J[-1]) < 1e-15 * m[-1]


@pytest.mark.parametrize("beta", [-0.05, -0.5, -4.0])
def test_a_power_is_a_sum_of_exponentials_at_any_distance(beta):
    sums = exponentials.power(beta)
    assert sums is not None
    for tail in (1, 6, 12):
        poles = np.concatenate([sums.poles[: sums.near + tail].ravel(), sums.end_poles[tail - 1]])
        weights = np.concatenate([sums.weights[: sums.near + tail].reshape(-1, 3), sums.end_weights[tail - 1]])
        r = np.append(0, np.geomspace(1e-4, 4 / sums.poles[sums.near + tail - 1, -1].real, 500))
        values, exact = (np.exp(-np.outer(r, poles)) @ weights).real.T, imq(r, 1.0, beta)
        for ours, theirs in zip(values, exact, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())
        if beta > -1:
            far = r > 300
            np.testing.assert_allclose(values[0][far], exact[0][far], rtol=1e-11)
            np.testing.assert_allclose(values[1][far], exact[1][far], rtol=1e-10)


def test_powers_too_steep_are_left_to_the_tiles():
    assert exponentials.power(-30.0) is None
    assert not lines.supports(ms.kernels.RationalQuadratic(1.0, 30.0))


MOVING = ms.diffusions.of_model(lambda model, x: 1 + ((x[0] - model.loc) / model.scale) ** 2 / model.df, moving=True)


def both(kernel, m, **options):
    return (ms.DKSD(kernel, m, backend=backend, **options) for backend in ("lines", "tiles"))


def same(evaluate, discrepancies, model, x):
    ours, theirs = (jax.tree.leaves(evaluate(discrepancy, model, x)) for discrepancy in discrepancies)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12 * np.abs(b).max())


def test_the_sandwich_is_that_of_the_tiles():
    """On 300 rows, padded to 512: the Hessian, and the share of each row in the gradient."""
    kernel = ms.kernels.Elliptical([[-1.7]], ms.kernels.Matern(1.0))
    same(ms.sandwich, both(kernel, None), ms.models.Gaussian(0.1, ms.fixed(1.2)), RNG.standard_t(5, 300))


@pytest.mark.slow
def test_value_gradient_and_sandwich_are_those_of_the_tiles():
    x, model = RNG.standard_t(5, 300), ms.models.StudentT(0.1, 1.2, 5.0)
    tilted = ms.kernels.Tilted(ms.kernels.IMQ(1.0), ms.diffusions.decay(2.0))
    same(ms.sandwich, both(tilted, None), model, x)
    same(ms.value_and_grad, both(ms.kernels.Matern(1.0), MOVING), model, x)


@pytest.mark.slow
def test_vmap_over_samples_and_normal_equations():
    samples = RNG.standard_normal((3, 200))
    fast, tiled = both(ms.kernels.Gaussian(1.0), None, unbiased=False)
    loss = lambda ksd: jax.vmap(lambda a, x: ksd(ms.models.Gaussian(a, 1.0), x))
    with jax.enable_x64(True):
        a = jnp.array([0.1, 0.2, -0.3])
        np.testing.assert_allclose(
            loss(fast)(a, jnp.asarray(samples)), loss(tiled)(a, jnp.asarray(samples)), rtol=1e-10
        )
    family = ms.models.ExponentialFamily(lambda x: jnp.array([x[0], -(x[0] ** 2) / 2]), [0.0, 1.0])
    for ours, theirs in zip(*(ms.quadratic(ksd, family, samples[0]) for ksd in (fast, tiled)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_a_large_fit_is_that_of_the_tiles():
    """By the tiles, a step of Newton leads nowhere from the estimate, and the standard errors are the same."""
    x, model = 25 + 10 * RNG.standard_t(5, 15_000), ms.models.StudentT(20.0, 5.0, 5.0)
    fit = ms.fit(model, x, "ksd")
    assert any("linear time" in note for note in fit.notes)
    tiles = ms.DKSD(fit.discrepancy.kernel, fit.discrepancy.diffusion, unbiased=False, backend="tiles")
    step = np.linalg.solve(ms.hessian(tiles, fit.model, x), ms.value_and_grad(tiles, fit.model, x)[1])
    np.testing.assert_allclose(step, 0, atol=1e-7)
    np.testing.assert_allclose(ms.sandwich(tiles, fit.model, x), fit.cov, rtol=1e-7)


def test_the_choice():
    ksd = ms.KSD(ms.kernels.IMQ(1.0))
    assert ksd.pairing(1000, 1) == "stored"
    assert ksd.pairing(10**6, 1) == "lines"
    assert ksd.pairing(10**6, 2) == "stored"
    assert ksd.pairing(10**6, 1, np.float32) == "stored"
    assert ms.KSD(ms.kernels.IMQ(1.0), backend="tiles").pairing(10**6, 1) == "tiles"
    assert ms.KSD(ms.kernels.Gaussian(1.0) * ms.kernels.IMQ(1.0)).pairing(10**6, 1) == "stored"


def test_a_wrong_choice_is_refused():
    x = RNG.standard_normal((20, 2))
    with pytest.raises(ValueError, match=r'backend must be one of "tiles", "stored", "lines", .*, or None'):
        ms.KSD(ms.kernels.IMQ(1.0), backend="fast")
    with pytest.raises(ValueError, match="the data have 2 coordinates"):
        ms.KSD(ms.kernels.IMQ(1.0), backend="lines")(ms.models.Gaussian([0.0, 0.0], 1.0), x)
    with pytest.raises(ValueError, match="the kernel RadialProduct has no such sum"):
        ms.KSD(ms.kernels.Gaussian(1.0) * ms.kernels.IMQ(1.0), backend="lines")(ms.models.Gaussian(0.0, 1.0), x[:, 0])
    with pytest.raises(ValueError, match="Leave backend out"):
        ms.KSD(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)), backend="tiles")(ms.models.Gaussian(0.0, 1.0), x[:, 0])
