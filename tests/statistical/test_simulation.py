"""Simulation studies: estimates scatter as the asymptotic theory says. Tolerances are four Monte-Carlo errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

N, REPLICATIONS = 300, 400
TRUTH = ms.models.StudentT(25.0, 10.0, 5.0)


def z(model, x):
    return (x[0] - model.loc) / model.scale


LOCATION = ms.models.StudentT(20.0, ms.fixed(10.0), 5.0)
SCALE = ms.models.StudentT(ms.fixed(25.0), 8.0, 5.0)
STUDIES = {
    "KSD, location": (LOCATION, None, 195.632),
    "m = 1 + z²/ν, location": (LOCATION, lambda model, x: 1 + z(model, x) ** 2 / 5, 160.693),
    "m = z(1 + z²/ν), scale": (SCALE, lambda model, x: z(model, x) * (1 + z(model, x) ** 2 / 5), 93.643),
}
"""Student-t with ν = 5, IMQ(1), U-statistic: n times the asymptotic variance, by quadrature."""


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_student_t_scatters_as_predicted(name):
    """A diffusion that depends on θ, held at a pilot fit, has the efficiency that the theory promises it (E19)."""
    model, m, variance = STUDIES[name]
    diffusion = None if m is None else ms.diffusions.of_model(m)
    dksd = ms.DKSD(ms.kernels.IMQ(1.0), diffusion)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(6), REPLICATIONS)
        study = jax.jit(lambda keys: jax.lax.map(lambda key: _estimate(model, dksd, key), keys))
        theta, errors, converged = map(np.asarray, study(keys))
    truth = 25.0 if model is LOCATION else 10.0
    assert converged.mean() > 0.99
    theta, errors = theta[converged], errors[converged]
    rmse = np.sqrt(np.mean((theta - truth) ** 2))
    expected = np.sqrt(variance / N)
    np.testing.assert_allclose(rmse, expected, rtol=4 / np.sqrt(2 * REPLICATIONS))
    covered = np.mean(np.abs(theta - truth) < 1.96 * errors)
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / REPLICATIONS)


def _estimate(model, discrepancy, key):
    fit = ms.fit(model, TRUTH.sample(key, N), discrepancy, throw=False)
    return fit.theta[0], jnp.sqrt(fit.cov[0, 0]), fit.converged


@pytest.mark.slow
def test_a_moving_diffusion_does_not():
    """As printed, with m = z(1 + z²/ν) moving with the scale: every search runs to the boundary."""
    moving = ms.diffusions.of_model(STUDIES["m = z(1 + z²/ν), scale"][1], moving=True)
    dksd = ms.DKSD(ms.kernels.IMQ(1.0), moving, unbiased=False)
    with jax.enable_x64(True):
        xs = jnp.stack([TRUTH.sample(key, N) for key in jax.random.split(jax.random.key(6), 20)])
        fits = jax.lax.map(lambda x: ms.fit(SCALE, x, dksd, throw=False), xs)
        assert not np.asarray(fits.converged).any()
        assert np.isnan(np.asarray(fits.cov)).all()
