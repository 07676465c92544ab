"""Coverage of 95 % intervals at n = 300 over 1000 simulated samples. Tolerances are three Monte-Carlo errors."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

N, REPLICATIONS = 300, 1000
BOUND = 3 * np.sqrt(0.95 * 0.05 / REPLICATIONS)


def natural(theta, x):
    return theta[0] * x[0] - theta[1] * x[0] ** 2 / 2


def natural_sample(key, n):
    return 0.7 + jnp.sqrt(1.5) * jax.random.normal(key, (n, 1))


def chain(theta, x):
    """Five variables in a row, each tied to the next, with one common precision."""
    return jnp.sum(theta[:4] * x[:-1] * x[1:]) - theta[4] * jnp.sum(x**2) / 2


TIES = np.array([0.5, -0.3, 0.4, 0.2, 1.5])
PRECISION = TIES[4] * np.eye(5) - np.diag(TIES[:4], 1) - np.diag(TIES[:4], -1)


def chain_sample(key, n):
    return jax.random.normal(key, (n, 5)) @ jnp.linalg.cholesky(jnp.asarray(np.linalg.inv(PRECISION))).T


def growing(model, x):
    return 1 + ((x[0] - model.loc) / model.scale) ** 2 / model.df


GAUSSIAN = ms.kernels.Gaussian(1.0)
NORMAL, T5, BESSEL = (
    ms.models.Gaussian(0.0, 1.0),
    ms.models.StudentT(25.0, 10.0, 5.0),
    ms.models.SymmetricBessel(0.0, 1.0, 2.0),
)
LOCATION = ms.models.Gaussian(0.5, ms.fixed(1.0))
T_START = ms.models.StudentT(20.0, 8.0, 5.0)
CHAIN = ms.models.from_log_density(chain, np.array([0.1, 0.0, 0.0, 0.0, 1.0]))
ROBUST = ms.DSM(lambda x: 1 / jnp.sqrt(1 + x[0] ** 2))
HELD = ms.DKSD(ms.kernels.IMQ(10.0), ms.diffusions.of_model(growing))
DECAY = ms.DKSD(GAUSSIAN, ms.diffusions.decay(2.0))

STUDIES = {
    "KSD, normal location": (NORMAL.sample, [0.0], LOCATION, ms.KSD(GAUSSIAN)),
    "DKSD that decays, normal location": (NORMAL.sample, [0.0], LOCATION, DECAY),
    "DSM, natural normal": (
        natural_sample,
        [0.7 / 1.5, 1 / 1.5],
        ms.models.from_log_density(natural, np.array([0.3, 0.8])),
        ROBUST,
    ),
    "KSD, Student-t": (T5.sample, [25.0, 10.0], T_START, ms.KSD(ms.kernels.IMQ(10.0))),
    "KSD by name, Student-t": (T5.sample, [25.0, 10.0], T_START, "ksd"),
    "by default, Student-t": (T5.sample, [25.0, 10.0], T_START, None),
    "DKSD held, Student-t": (T5.sample, [25.0, 10.0], T_START, HELD),
    "KSD, symmetric Bessel": (BESSEL.sample, [0.0, 1.0], ms.models.SymmetricBessel(0.3, 1.5, 2.0), "ksd"),
    "SM, five variables": (chain_sample, TIES, CHAIN, ms.SM()),
}
"""A sampler, the true parameters, the model where a fit begins, and the discrepancy."""


def replicated(draw, model, discrepancy, replications=REPLICATIONS):
    one = lambda key: ms.fit(model, draw(key, N), discrepancy, throw=False)
    with jax.enable_x64(True):
        return jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(5), replications))


def coverage(fits, truth):
    ends = zip(fits.conf_int().values(), truth, strict=True)
    return np.array([np.mean((low <= t) & (t <= high)) for (low, high), t in ends])


@cache
def fits_of(name):
    draw, _, model, discrepancy = STUDIES[name]
    return replicated(draw, model, discrepancy)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_intervals_cover_as_often_as_they_say(name):
    fits, truth = fits_of(name), STUDIES[name][1]
    assert np.mean(fits.converged) > 0.995
    np.testing.assert_allclose(coverage(fits, truth), 0.95, atol=BOUND)


@pytest.mark.slow
def test_the_printed_covariance_of_dsm_covers_always():
    """E1: four times the covariance is twice the length."""
    name = "DSM, natural normal"
    fits, truth = fits_of(name), STUDIES[name][1]
    errors = 2 * np.sqrt(np.diagonal(np.asarray(fits.cov), axis1=1, axis2=2))
    printed = np.mean(np.abs(np.asarray(fits.theta) - truth) < 1.96 * errors, axis=0)
    assert (printed > 0.995).all()


@pytest.mark.slow
def test_ksd_of_five_variables():
    """As a U-statistic its intervals are too long at this n, never too short; as a V-statistic it is biased."""
    u = replicated(chain_sample, CHAIN, ms.KSD(ms.kernels.IMQ(3.0)))
    assert (coverage(u, TIES) > 0.95 - BOUND).all()
    v = replicated(chain_sample, CHAIN, ms.KSD(ms.kernels.IMQ(3.0), unbiased=False), 400)
    thetas = np.asarray(u.theta), np.asarray(v.theta)
    biases = [np.mean(theta - TIES, axis=0) / np.std(theta, axis=0) for theta in thetas]
    assert np.abs(biases[0]).max() < 0.5
    assert np.abs(biases[1]).max() > 1.5
