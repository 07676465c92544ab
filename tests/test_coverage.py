"""Coverage of 95 % intervals at n = 300 over 1000 simulated samples. Tolerances are three Monte-Carlo errors."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

REPLICATIONS = 1000
BOUND = 3 * np.sqrt(0.95 * 0.05 / REPLICATIONS)


class Study(NamedTuple):
    """Data are drawn from `truth`; `model` is where the fit begins, with what is held held at its true value."""

    truth: Any
    model: Any
    discrepancy: Any


def natural(theta, x):
    return theta[0] * x[0] - theta[1] * x[0] ** 2 / 2


def chain(theta, x):
    """Five variables in a row, each tied to the next, with one common precision."""
    return jnp.sum(theta[:4] * x[:-1] * x[1:]) - theta[4] * jnp.sum(x**2) / 2


def in_natural_parameters(key, n):
    return 0.7 + jnp.sqrt(1.5) * jax.random.normal(key, (n, 1))


TIES = np.array([0.5, -0.3, 0.4, 0.2, 1.5])
PRECISION = TIES[4] * np.eye(5) - np.diag(TIES[:4], 1) - np.diag(TIES[:4], -1)


def on_a_chain(key, n):
    return jax.random.normal(key, (n, 5)) @ jnp.linalg.cholesky(jnp.asarray(np.linalg.inv(PRECISION))).T


def growing(model, x):
    return 1 + ((x[0] - model.loc) / model.scale) ** 2 / model.df


NORMAL, T5, BESSEL = ms.models.Gaussian(0.0, 1.0), ms.models.StudentT(25.0, 10.0, 5.0), ms.models.SymmetricBessel(0.0, 1.0, 2.0)
LOCATION, T_START = ms.models.Gaussian(0.5, ms.fixed(1.0)), ms.models.StudentT(20.0, 8.0, 5.0)
ROBUST = ms.DSM(lambda x: 1 / jnp.sqrt(1 + x[0] ** 2))

STUDIES = {
    "KSD, normal location": (NORMAL.sample, LOCATION, ms.KSD(ms.kernels.Gaussian(1.0)), [0.0]),
    "DKSD that decays, normal location": (
        NORMAL.sample, LOCATION, ms.DKSD(ms.kernels.Gaussian(1.0), ms.diffusions.decay(2.0)), [0.0],
    ),
    "DSM, natural normal": (
        in_natural_parameters, ms.models.from_log_density(natural, np.array([0.3, 0.8])), ROBUST, [0.7 / 1.5, 1 / 1.5],
    ),
    "KSD, Student-t": (T5.sample, T_START, ms.KSD(ms.kernels.IMQ(10.0)), [25.0, 10.0]),
    "KSD by default, Student-t": (T5.sample, T_START, None, [25.0, 10.0]),
    "DKSD held, Student-t": (
        T5.sample, T_START, ms.DKSD(ms.kernels.IMQ(10.0), ms.diffusions.of_model(growing)), [25.0, 10.0],
    ),
    "KSD, symmetric Bessel": (BESSEL.sample, ms.models.SymmetricBessel(0.3, 1.5, 2.0), None, [0.0, 1.0]),
    "KSD, five variables": (on_a_chain, ms.models.from_log_density(chain, np.array([0.1, 0, 0, 0, 1.0])), None, TIES),
}
