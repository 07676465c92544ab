"""Designed discrepancies against maximum likelihood on simulated samples. The whole study is in studies/design.

Tolerances are Monte-Carlo errors: of a ratio of efficiencies by the jackknife, of coverage √(p(1 − p)/R).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import minstein as ms
from studies.design import efficiency, likelihood, robust

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["quartic", "gamma"])
def test_a_design_is_as_efficient_as_maximum_likelihood(name):
    """On the line and on a half-line, n = 300: within 6 % of the likelihood; 95 % intervals cover 92 to 97 %."""
    setting = efficiency.settings()[name]
    found = efficiency.study(setting, 300, 400, methods=("MLE", "designed"))
    ratio, error = efficiency.jackknife(setting, 300, found.eta["designed"], found.eta["MLE"])
    assert abs(ratio - 1) < 0.06 + 3 * error
    assert found.accepted.mean() > 0.97
    coverage = efficiency.coverage(found.fits["designed"], setting.truth)
    slack = 3 * np.sqrt(0.95 * 0.05 / 400)
    assert np.all((0.92 - slack < coverage) & (coverage < 0.97 + slack))


CORNERS = {
    "many couplings and few observations": (lambda: likelihood.chain(5, True), 100, 0.85, (0.92, 0.98)),
    "a pole at the edge": (lambda: likelihood.gamma(0.8), 300, 0.95, (0.93, 0.97)),
    "poles at both edges": (lambda: likelihood.beta(0.7, 1.2), 300, 0.95, (0.93, 0.97)),
}
"""A model, n, the least efficiency, and between which shares 95 % intervals must cover."""


@pytest.mark.parametrize(("make", "n", "least", "between"), CORNERS.values(), ids=CORNERS)
def test_the_default_in_the_corners(make, n, least, between):
    """The mean squared error of maximum likelihood over that of the default, and the coverage of every parameter."""
    model, many = make(), 400

    def one(key):
        x = model.draw(key, n)
        fit = ms.fit(model.start, x, throw=False)
        return fit.theta, jnp.sqrt(jnp.diagonal(fit.cov)), fit.status, model.likelihood(x)

    with jax.enable_x64(True):
        compiled = jax.jit(lambda keys: jax.lax.map(one, keys))
        theta, errors, status, likely = map(np.asarray, compiled(jax.random.split(jax.random.key(3), many)))
    assert np.mean(status == 0) > 0.97  # under jit there is no second pilot
    theta, errors, likely = (part[status == 0] for part in (theta, errors, likely))
    ratio = np.mean((likely - model.truth) ** 2, 0) / np.mean((theta - model.truth) ** 2, 0)
    assert ratio.mean() > least
    covers = np.abs(theta - model.truth) < stats.t.ppf(0.975, n - theta.shape[1]) * errors
    slack = 3 * np.sqrt(0.05 * 0.95 / many)
    assert np.all((between[0] - slack < covers.mean(0)) & (covers.mean(0) < between[1] + slack))


@pytest.mark.parametrize("name", ["quartic", "mixture means"])
def test_small_samples_are_no_worse_than_the_pilot(name):
    """n = 60: the quartic family, where designs without checks run away, and the model that gains least."""
    setting = efficiency.settings()[name]
    found = efficiency.study(setting, 60, 200, methods=("KSD", "designed"))
    ratio, error = efficiency.jackknife(setting, 60, found.eta["designed"], found.eta["KSD"])
    assert ratio > 1 - 3 * error


def test_a_robust_design_beside_huber_and_tukey():
    found = {name: np.abs(values) for name, values in robust.biases().items()}
    huber = found["Huber"].max(1)
    assert np.all(found["robust design"].max(1)[:2] <= huber[:2] + 0.03)
    np.testing.assert_allclose(huber[:2], [0.09, 0.20], atol=0.01)
    assert found["robust design"][2, -1] < 1e-3


def test_a_robust_design_is_efficient_at_the_normal_distribution():
    """By the sandwich on the quantiles of a normal sample; the bounds are σ²/n and σ²/2n."""
    n = 1000
    x = stats.norm.ppf((np.arange(n) + 0.5) / n)
    model = ms.models.Gaussian(0.0, 1.0)
    fit = ms.fit(model, x, ms.design(model, x, "robust"))
    bound = np.array([1, 0.5]) * fit.params["scale"] ** 2 / n
    assert bound[0] / fit.cov[0, 0] >= 0.94
    assert np.sqrt(np.prod(bound) / np.linalg.det(fit.cov)) >= 0.88


def mixture(p, x):
    first = jnp.log(p["weights"][0]) - (x[0] + 3) ** 2 / 2
    return jnp.logaddexp(first, jnp.log(p["weights"][1]) - (x[0] - 3) ** 2 / 2)


def test_separated_modes_are_always_rejected():
    model = ms.models.from_log_density(mixture, {"weights": ms.simplex(np.array([0.5, 0.5]))})

    def one(key):
        side, noise = jax.random.split(key)
        left = jax.random.uniform(side, (300, 1)) < 0.4
        x = jax.random.normal(noise, (300, 1)) + jnp.where(left, -3.0, 3.0)
        return efficiency.fit_both(model, x)[2]

    with jax.enable_x64(True):
        accepted = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(0), 50))
    assert not np.asarray(accepted).any()
