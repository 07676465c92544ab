"""What a user trusts in inference: efficiency at the fitted model, and intervals with many parameters."""

import dataclasses
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import minstein as ms
from minstein.inference.draws import box_of, draws_of
from minstein.solvers.sandwich import parameters_used

NEWCOMB = ms.datasets.load("newcomb").x
NORMAL = ms.models.Gaussian(0.0, 1.0)


@pytest.fixture(scope="module")
def robust():
    return ms.fit(NORMAL, NEWCOMB, ms.design(NORMAL, NEWCOMB, "robust"))


@pytest.fixture(scope="module")
def comparison():
    return ms.compare(NORMAL, NEWCOMB)


# Efficiency at the fitted model


def by_quadrature(m, slope, kernel, loc, scale):
    """Efficiency, and sensitivities of location and scale, of DKSD at a normal distribution, on a grid of 801 nodes.

    G(z) = 2E m(Y) ∂_θs(Y) (b(z) k(z, Y) + m(z) ∂_z k(z, Y)) with b = ms + m′, because E S[k(z, ·)] = 0.
    """
    y = loc + scale * np.linspace(-10, 10, 801)
    weights = stats.norm.pdf(y, loc, scale) * (y[1] - y[0])
    by_theta = np.stack([np.full_like(y, 1 / scale**2), 2 * (y - loc) / scale**3], 1)

    def contributions(z):
        k, dk = kernel(z[:, None] - y)
        b = -m(z) * (z - loc) / scale**2 + slope(z)
        return 2 * (b[:, None] * k + m(z)[:, None] * dk) @ ((weights * m(y))[:, None] * by_theta)

    S = np.stack([(y - loc) / scale**2, ((y - loc) ** 2 / scale**2 - 1) / scale], 1)
    G = contributions(y)
    fisher, cross, own = ((a.T * weights) @ b for a, b in ((S, S), (G, S), (G, G)))
    used = cross.T @ np.linalg.solve(own, cross)
    far = contributions(loc + scale * np.linspace(-30, 30, 3001))
    influence = np.abs(np.linalg.solve(cross, far.T)).max(1)
    joint = np.sqrt(np.linalg.det(used) / np.linalg.det(fisher))
    return joint, influence / np.sqrt(np.diag(np.linalg.inv(fisher)))


def of_robust_design(loc, scale):
    s, centre, a = 1.4826 * np.median(np.abs(NEWCOMB - np.median(NEWCOMB))), np.median(NEWCOMB), 2.5
    m = lambda z: s * np.exp(-(((z - centre) / s) ** 2) / (2 * a**2))
    slope = lambda z: -m(z) * (z - centre) / (a * s) ** 2
    return by_quadrature(m, slope, imq(4, s), loc, scale)


def imq(widening, s):
    pairs = np.abs(NEWCOMB - NEWCOMB.T)[np.triu_indices(len(NEWCOMB), 1)] / s
    c = widening * np.median(pairs[pairs > 0])
    return lambda r: ((c**2 + (r / s) ** 2) ** -0.5, -((c**2 + (r / s) ** 2) ** -1.5) * r / s**2)


@pytest.mark.slow
def test_the_efficiency_of_the_robust_design_is_that_of_the_fitted_model_and_not_of_contaminated_data(robust):
    joint, sensitivity = of_robust_design(**robust.params)
    found = ms.efficiency(robust.discrepancy, NORMAL, NEWCOMB)
    np.testing.assert_allclose(joint, 0.8863, atol=1e-4)
    np.testing.assert_allclose(found.joint, joint, rtol=1e-3)  # 4096 quantiles in place of an integral
    np.testing.assert_allclose(list(found.sensitivity.values()), sensitivity, rtol=1e-3)
    assert found.draws == "4096 quantiles of the fitted model"


@pytest.mark.slow
def test_a_comparison_is_at_one_fitted_model(robust, comparison):
    s = 1.4826 * np.median(np.abs(NEWCOMB - np.median(NEWCOMB)))
    constant = lambda z: np.full_like(z, s)
    joint, sensitivity = by_quadrature(constant, np.zeros_like, imq(1, s), **robust.params)
    np.testing.assert_allclose(comparison.rows["KSD"].joint, joint, rtol=1e-3)
    np.testing.assert_allclose(list(comparison.rows["KSD"].sensitivity.values()), sensitivity, rtol=1e-3)
    np.testing.assert_allclose(comparison.rows["robust"].joint, of_robust_design(**robust.params)[0], rtol=1e-3)


@pytest.mark.slow
def test_score_matching_of_a_normal_distribution_is_maximum_likelihood(comparison):
    for name in ("score matching", "maximum likelihood"):
        np.testing.assert_allclose([comparison.rows[name].joint, *comparison.rows[name].each.values()], 1, rtol=1e-6)
        assert np.isinf(comparison.rows[name].largest)


@pytest.mark.slow
def test_the_efficient_equations_of_a_normal_distribution_are_those_of_the_likelihood(comparison):
    np.testing.assert_allclose(comparison.rows["efficient"].joint, 1, rtol=1e-3)
    assert np.isinf(comparison.rows["efficient"].largest)


@pytest.mark.slow
def test_a_comparison_fits_once(monkeypatch, robust):
    calls = []
    monkeypatch.setattr(sys.modules["minstein.inference.efficiency"], "fit", lambda *_, **__: calls.append(1) or robust)
    given = {"robust": robust.discrepancy}
    assert ms.compare(NORMAL, NEWCOMB, given, at=robust) == ms.compare(NORMAL, NEWCOMB, given)
    assert len(calls) == 1


@pytest.mark.slow
@pytest.mark.optimised
def test_a_report_names_observations_without_weight_and_says_what_efficiency_is_of(robust):
    """The two gross errors of Newcomb are 6.5 and 16 robust units out: weights exp(−r²/12.5) of 3 % and nothing."""
    page = ms.report(robust, NEWCOMB, comparison=ms.compare(NORMAL, NEWCOMB, at=robust))
    assert NEWCOMB[[5, 9], 0].tolist() == [-44, -2]
    assert "Rows 5, 9 have less than 5\N{NO-BREAK SPACE}% of the weight" in page
    assert "Averages are over 4096 quantiles of the fitted model, not over the data" in page
    assert "<td>0.89</td><td>3.05</td>" in page


@pytest.mark.slow
def test_score_matching_of_student_t():
    """Quadrature with s = −6z/(5 + z²): location and scale are orthogonal, so each has its own efficiency."""
    t = np.linspace(-9, 9, 4001)
    z = np.sinh(t)
    w = stats.t.pdf(z, 5) * np.cosh(t) * (t[1] - t[0])
    score = -6 * z / (5 + z**2)
    slope = -6 * (5 - z**2) / (5 + z**2) ** 2
    bend = 12 * z * (15 - z**2) / (5 + z**2) ** 3
    own = {"loc": -2 * score * slope - 2 * bend, "scale": -2 * score * (score + z * slope) - 2 * (2 * slope + z * bend)}
    fisher = {"loc": -score, "scale": -1 - z * score}
    x = stats.t.ppf((np.arange(200) + 0.5) / 200, 5)
    found = ms.efficiency(ms.SM(), ms.models.StudentT(0.0, 1.0, 5.0), x)
    for name, G in own.items():
        S = fisher[name]
        np.testing.assert_allclose(found.each[name], (w @ (G * S)) ** 2 / (w @ G**2) / (w @ S**2), rtol=2e-3)


@pytest.mark.slow
def test_on_a_half_line():
    """Exponential data, m = x: G = 2λx² − 4x and S = 1/λ − x; with λ = 1 moments of the exponential give 16/32."""
    model = ms.models.from_log_density(lambda rate, x: -rate * x[0], ms.positive(1.0))
    x = stats.expon.ppf((np.arange(200) + 0.5) / 200)
    found = ms.efficiency(ms.DSM(ms.diffusions.bounded(low=0.0)), model, x, support=(0.0, np.inf))
    np.testing.assert_allclose(found.joint, 0.5, rtol=1e-3)
    assert np.isinf(found.largest)


@pytest.mark.slow
def test_draws_of_a_model_with_a_sampler():
    model = ms.models.Gaussian(np.zeros(2), 1.0)
    x = np.random.default_rng(0).normal(size=(50, 2))
    found = ms.efficiency(ms.SM(), model, x)
    np.testing.assert_allclose(found.joint, 1, atol=1e-9)
    assert found.draws == "4096 draws from the fitted model"


@pytest.mark.slow
@pytest.mark.optimised
def test_chains_stand_for_a_model_without_a_sampler():
    """A correlated normal pair, and exponential beside normal: as close to the law as 4096 independent draws."""
    precision = np.array([[2.0, 1.2], [1.2, 1.5]])
    pair = ms.models.from_log_density(lambda t, x: -t * x @ precision @ x / 2, ms.positive(1.0))
    cov = np.linalg.inv(precision)
    x = np.random.default_rng(1).multivariate_normal([0, 0], cov, 300)
    x[0] = [40.0, -40.0]
    found = draws_of(pair, x, box_of(pair, x, None))
    assert "Langevin chains" in found.how
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 4096)
    np.testing.assert_array_less(np.abs(np.cov(found.x.T) - cov), 4 * error)
    half = ms.models.from_log_density(lambda t, x: -t * x[0] - x[1] ** 2 / 2, ms.positive(1.0))
    x = np.abs(np.random.default_rng(2).normal(size=(300, 2)))
    z = draws_of(half, x, box_of(half, x, ([0, -np.inf], np.inf))).x
    for column, law in zip(z.T, (stats.expon, stats.norm), strict=True):
        assert stats.kstest(column, law.cdf).pvalue > 1e-3


def test_estimating_functions_that_determine_nothing_are_said_to():
    flat = ms.DSM(lambda x: jnp.zeros(()) * x[0])
    found = ms.compare(NORMAL, NEWCOMB, {"flat": flat}, at=ms.fit(NORMAL, NEWCOMB))
    assert list(found.rows) == ["maximum likelihood"]
    assert found.notes[0].startswith("Without flat: at the fitted model its estimating functions")


# Intervals and Wald tests with many parameters

SMALL = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.0, 0.1, -0.7])


@pytest.fixture(scope="module")
def mean():
    return ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), SMALL, ms.SM())


@pytest.mark.parametrize("value", [-0.9, 0.0, 1.3])
def test_the_wald_test_of_a_normal_mean_is_the_t_test(mean, value):
    np.testing.assert_allclose(mean.wald_test([1], value).p, stats.ttest_1samp(SMALL, value).pvalue, rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.5])
def test_a_value_is_rejected_exactly_if_it_is_outside_the_interval(mean, alpha):
    for end, outwards in zip(mean.conf_int(alpha)["loc"], (-1, 1), strict=True):
        np.testing.assert_allclose(mean.wald_test([1], end).p, alpha, rtol=1e-10)
        assert mean.wald_test([1], end + 1e-6 * outwards).p < alpha < mean.wald_test([1], end - 1e-6 * outwards).p


def test_several_means_together_have_the_reference_of_hotelling():
    """T²(n − q)/((n − 1)q) has the F distribution with q and n − q degrees of freedom."""
    n, q = 15, 3
    x = np.random.default_rng(3).normal(size=(n, q))
    fit = ms.fit(ms.models.Gaussian(np.zeros(q), ms.fixed(1.0)), x, ms.SM())
    fit = dataclasses.replace(fit, used=np.ones(q))
    squared = n * x.mean(0) @ np.linalg.solve(np.cov(x.T), x.mean(0))
    expected = stats.f.sf(squared * (n - q) / ((n - 1) * q), q, n - q)
    np.testing.assert_allclose(fit.wald_test(np.eye(q)).p, expected, rtol=1e-8)


def test_what_an_equation_uses_is_counted_in_its_row_of_the_hessian():
    hessian = np.array([[2.0, 0.1, 0, 0], [0.1, 1.0, 0.3, 0], [0, 0.3, 4.0, 1e-17], [0, 0, 1e-17, 1.0]])
    assert parameters_used(hessian).tolist() == [2, 3, 2, 2]
    assert parameters_used(jnp.ones((1, 1))).tolist() == [1]
    assert parameters_used(jnp.ones((5, 5))).tolist() == [5] * 5


def test_a_coupling_uses_the_parameters_of_its_two_sites():
    """Those of a site are its field and d − 1 couplings; two sites share one."""
    d = 5
    rng = np.random.default_rng(0)
    x, model = np.sign(rng.normal(size=(40, d))), ms.models.Ising(rng.normal(size=d), rng.normal(size=d * (d - 1) // 2))
    hessian = ms.hessian(ms.PseudoLikelihood(), model, x)
    assert parameters_used(hessian).tolist() == [d] * d + [2 * d - 1] * (d * (d - 1) // 2)


MANY = ms.models.Gaussian(np.zeros(20), ms.fixed(1.0))


def knowing(fit, x):
    """The fit with what its equations use."""
    if fit.used is not None:
        return fit
    return dataclasses.replace(fit, used=parameters_used(ms.hessian(fit.discrepancy, fit.model, x)))


def test_intervals_of_many_means_are_as_long_as_those_of_few():
    x = np.random.default_rng(0).normal(size=(50, 20))
    fit = knowing(ms.fit(MANY, x, ms.SM()), x)
    half = stats.t.ppf(0.975, 48) * x.std(0) / np.sqrt(48)
    found = np.array(list(fit.conf_int().values()))
    np.testing.assert_allclose(found, np.stack([x.mean(0) - half, x.mean(0) + half], 1), rtol=1e-10)


def test_a_fit_knows_what_its_equations_use():
    x = np.random.default_rng(0).normal(size=(50, 20))
    assert ms.fit(MANY, x, ms.SM()).used.tolist() == [2] * 20


def test_more_parameters_than_observations():
    """Where equations are apart, intervals are as for few; where they are not, there are none, and this is said."""
    x = np.random.default_rng(0).normal(size=(15, 20))
    fit = ms.fit(MANY, x, ms.SM())
    assert np.isfinite(list(knowing(fit, x).conf_int().values())).all()
    assert "No intervals" not in str(knowing(fit, x).summary())
    together = dataclasses.replace(fit, used=np.full(20, 20.0))
    assert np.isnan(list(together.conf_int().values())).all()
    assert np.isnan(together.wald_test(np.eye(20)[0]).p)
    said = "No intervals for 20 of 20 parameters (loc[0], loc[1], loc[2], loc[3], loc[4], …): their equations involve"
    assert any(note.startswith(said) for note in together.summary().notes)


def test_a_file_of_an_earlier_version_counts_all_parameters(tmp_path, robust):
    path = tmp_path / "fit.json"
    dataclasses.replace(robust, used=np.array([1.0, 1.0])).save(path)
    written = json.loads(path.read_text())
    del written["content"]["fields"]["used"], written["sha256"]
    path.write_text(json.dumps(written))
    half = stats.t.ppf(0.975, 64) * np.sqrt(66 / 64) * robust.bse["loc"]
    found = ms.load(path).conf_int()["loc"]
    np.testing.assert_allclose(found, [robust.params["loc"] - half, robust.params["loc"] + half], rtol=1e-10)


BLOCKS, SITES = 5, 4
PAIRS = np.stack(np.triu_indices(SITES, 1), 1)
FIELD, COUPLING = np.array([0.3, -0.2, 0.1, 0.0]), np.array([0.2, -0.1, 0.3, 0.15, -0.25, 0.1])
STATES = np.array(np.meshgrid(*[[-1.0, 1.0]] * SITES)).reshape(SITES, -1).T
MASS = jax.nn.softmax(jax.vmap(ms.models.Ising(FIELD, COUPLING, PAIRS))(jnp.asarray(STATES)))
ISING = ms.models.Ising(
    np.zeros(BLOCKS * SITES),
    np.zeros(BLOCKS * len(PAIRS)),
    (PAIRS + SITES * np.arange(BLOCKS)[:, None, None]).reshape(-1, 2),
)


def spins(rng, n):
    mass = np.asarray(MASS, np.float64)
    rows = rng.choice(len(STATES), (BLOCKS, n), p=mass / mass.sum())
    return np.concatenate(STATES[rows], axis=1)


STUDIES = {
    "means by score matching": (MANY, ms.SM(), lambda rng, n: rng.normal(size=(n, 20)), np.zeros(20)),
    "blocks of spins by pseudo-likelihood": (
        ISING,
        ms.PseudoLikelihood(),
        spins,
        np.concatenate([np.tile(FIELD, BLOCKS), np.tile(COUPLING, BLOCKS)]),
    ),
}


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("name", STUDIES)
def test_intervals_of_many_parameters_cover(name, share):
    """60 samples of 20 or 50 parameters, p/n as given: the Monte-Carlo error of their mean coverage is below 0.007."""
    model, discrepancy, draw, truth = STUDIES[name]
    n, covered = round(len(truth) / share), []
    for seed in range(60):
        x = draw(np.random.default_rng(seed), n)
        ends = np.array(list(knowing(ms.fit(model, x, discrepancy), x).conf_int().values()))
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert 0.93 < np.mean(covered) < 0.97
