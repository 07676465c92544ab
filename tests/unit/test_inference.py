"""Intervals, Wald tests, summaries, influence: against algebra, against refitting, and for what they print."""

import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import minstein as ms

RNG = np.random.default_rng(4)
T5 = ms.models.StudentT(25.0, 10.0, 5.0)
XT = T5.sample(jax.random.key(1), 100)


@pytest.fixture(scope="module")
def fit():
    return ms.fit(T5, XT, "ksd")


class TestIntervals:
    def test_a_location_is_symmetric(self, fit):
        low, high = fit.conf_int()["loc"]
        half = stats.t.ppf(0.975, 98) * np.sqrt(100 / 98) * fit.bse["loc"]
        np.testing.assert_allclose([low, high], [fit.params["loc"] - half, fit.params["loc"] + half], rtol=1e-12)

    def test_a_scale_is_symmetric_in_its_logarithm_and_positive(self, fit):
        low, high = fit.conf_int(1e-9)["scale"]
        assert 0 < low < fit.params["scale"] < high
        np.testing.assert_allclose(low * high, fit.params["scale"] ** 2, rtol=1e-10)

    def test_a_normal_mean_has_students_interval(self):
        x = RNG.standard_normal(12)
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
        exact = stats.ttest_1samp(x, 0).confidence_interval(0.95)
        np.testing.assert_allclose(fit.conf_int()["loc"], exact, rtol=1e-9)

    @pytest.mark.slow
    def test_weights_stay_between_zero_and_one(self):
        def log_p(p, x):
            return jnp.log(p[0] * jnp.exp(-((x[0] - 1) ** 2) / 2) + p[1] * jnp.exp(-((x[0] + 1) ** 2) / 2))

        model = ms.models.from_log_density(log_p, ms.simplex([0.5, 0.5]))
        x = np.where(RNG.random(60) < 0.9, 1.0, -1.0) + RNG.standard_normal(60)
        low, high = ms.fit(model, x).conf_int(1e-6)["theta[0]"]
        assert 0 < low < high < 1

    def test_nonsense(self, fit):
        with pytest.raises(ValueError, match="between 0 and 1, got 95"):
            fit.conf_int(95)
        with pytest.raises(ValueError, match="covariance=False"):
            ms.fit(T5, XT, covariance=False).cov_params()

    def test_without_convergence_there_is_none(self):
        failed = ms.fit(ms.models.StudentT(9.0, 1.0, 5.0), XT, solver=ms.GaussNewton(max_steps=1), throw=False)
        assert np.isnan(failed.conf_int()["scale"]).all()
        with pytest.raises(ValueError, match="needs one fit that converged"):
            failed.wald_test([[1, 0]])


class TestWald:
    def test_one_parameter_is_the_square_of_z(self, fit):
        test = fit.wald_test([1, 0], 24.0)
        z = (fit.params["loc"] - 24) / fit.bse["loc"]
        p = 2 * stats.t.sf(abs(z) * np.sqrt((fit.n - 2) / fit.n), fit.n - 2)
        np.testing.assert_allclose([test.statistic, test.p], [z**2, p], rtol=1e-10)

    def test_two_together(self, fit):
        gap = fit.theta - [25, 10]
        test = fit.wald_test(np.eye(2), [25, 10])
        np.testing.assert_allclose(test.statistic, gap @ np.linalg.inv(fit.cov) @ gap, rtol=1e-10)
        assert test.df == 2

    def test_a_smaller_model(self, fit):
        """The same as testing the value that the smaller model holds; nothing else is nested."""
        held = ms.fit(ms.models.StudentT(25.0, ms.fixed(9.0), 5.0), XT)
        test = fit.wald_test(held)
        z = (fit.params["scale"] - 9) / fit.bse["scale"]
        np.testing.assert_allclose([test.statistic, test.df], [z**2, 1], rtol=1e-10)
        with pytest.raises(ValueError, match="not nested"):
            held.wald_test(fit)
        with pytest.raises(ValueError, match="not nested"):
            fit.wald_test(fit)

    def test_nonsense(self, fit):
        with pytest.raises(ValueError, match="each of the 2 parameters, got shape"):
            fit.wald_test([1, 0, 0])
        with pytest.raises(ValueError, match="linearly dependent"):
            fit.wald_test([[1, 0], [2, 0]])


class TestSummary:
    def test_text(self, fit):
        lines = str(fit.summary()).splitlines()
        assert lines[0] == "StudentT, 100 observations"
        row = next(line for line in lines if line.startswith("scale")).split()
        low, high = fit.conf_int()["scale"]
        expected = [fit.params["scale"], fit.bse["scale"], low, high]
        np.testing.assert_allclose([float(cell) for cell in row[1:]], expected, rtol=1e-3)
        text = str(fit.summary())
        for word in ("V-statistic", "IMQ", "GaussNewton", "The fit converged.", "Condition", "sandwich", "95 % from"):
            assert word in text
        assert "likelihood" not in text
        assert repr(fit) == text

    def test_markdown(self, fit):
        table = [line for line in fit.summary().to_markdown().splitlines() if line.startswith("|")]
        assert len(table) == 4
        assert {line.count("|") for line in table} == {6}

    def test_latex(self, fit):
        text = fit.summary().to_latex()
        assert text.startswith(r"\begin{tabular}{lrrrr}")
        assert text.endswith(r"\end{tabular}")
        assert "95 \\% from" in text
        assert "_" not in text.replace(r"\_", "")

    def test_html_escapes_what_came_from_the_user(self):
        model = ms.models.from_log_density(lambda p, x: -((x[0] - p["<b>&"]) ** 2), {"<b>&": 0.0})
        page = ms.fit(model, XT / 10, ms.SM()).summary().to_html()
        assert "<b>" not in page
        assert "&lt;b&gt;&amp;" in page

    def test_frame(self, fit, monkeypatch):
        """pandas is asked for a frame with a row for each parameter; where it is missing, that is what one is told."""
        pandas = SimpleNamespace(DataFrame=lambda values, index, columns: (values, index, columns))
        monkeypatch.setitem(sys.modules, "pandas", pandas)
        values, index, columns = fit.summary().to_frame()
        assert index == ["loc", "scale"]
        assert columns[:2] == ["estimate", "std. error"]
        np.testing.assert_allclose([row[0] for row in values], fit.theta)
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match="pip install pandas"):
            fit.summary().to_frame()


NORMAL_SCORES = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
"""A sample that is as normal as one of its size can be."""


class TestInfluence:
    def test_score_matching_of_a_location(self):
        """z − mean; the paper prints the opposite sign for its general formula (E3)."""
        x = RNG.gamma(2.0, size=50)
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
        z = np.array([-3.0, 0.0, 40.0])
        np.testing.assert_allclose(ms.influence(fit, x, z)[:, 0], z - x.mean(), rtol=1e-9)
        np.testing.assert_allclose(ms.influence(fit, x)[:, 0], x - x.mean(), rtol=1e-9)

    @pytest.mark.parametrize("unbiased", [pytest.param(True, marks=pytest.mark.slow), False])
    def test_ksd_of_a_normal_location(self, unbiased):
        """z((u+2)/(u+1))^(3/2) exp(−z²/2(u+1)) with u = ℓ² = 1: bounded, unlike that of score matching."""
        ksd = ms.KSD(ms.kernels.Gaussian(1.0), unbiased=unbiased)
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), NORMAL_SCORES, ksd)
        z = np.array([-4.0, -1.0, 0.3, 1.5, 6.0])
        exact = z * 1.5**1.5 * np.exp(-(z**2) / 4)
        np.testing.assert_allclose(ms.influence(fit, NORMAL_SCORES, z)[:, 0], exact, atol=0.01)
        assert abs(ms.influence(fit, NORMAL_SCORES, np.array([1.5]))[0, 0] - 1.570137) < 0.01

    @pytest.mark.slow
    def test_in_the_population(self):
        """Draws from the model instead of data: the closed form to Monte-Carlo error, which is 1/√draws."""
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), NORMAL_SCORES, ms.KSD(ms.kernels.Gaussian(1.0)))
        z = np.array([-4.0, -1.0, 0.3, 1.5, 6.0])
        found = ms.influence(fit, None, z, key=jax.random.key(8), draws=2000)[:, 0]
        np.testing.assert_allclose(found, z * 1.5**1.5 * np.exp(-(z**2) / 4), atol=4 * 1.3 / np.sqrt(2000))
        with pytest.raises(ValueError, match=r"key=jax.random.key\(0\)"):
            ms.influence(fit, None, z)

    @pytest.mark.slow
    def test_contaminating_and_refitting(self):
        """One more observation among n moves the estimate by influence/n, up to terms in 1/n²."""
        x, ksd = T5.sample(jax.random.key(2), 250), ms.KSD(ms.kernels.IMQ(10.0), unbiased=False)
        fit = ms.fit(T5, x, ksd)
        for z in (10.0, 60.0):
            moved = ms.fit(T5, np.vstack([x, [[z]]]), ksd)
            expected = ms.influence(fit, x, np.array([z]))[0] / 251
            size = np.sqrt(np.diag(fit.cov)) / np.sqrt(250)
            np.testing.assert_allclose((moved.theta - fit.theta) / size, expected / size, atol=0.05)

    @pytest.mark.slow
    def test_leaving_one_out(self):
        x = T5.sample(jax.random.key(3), 50)
        ksd = ms.KSD(ms.kernels.IMQ(10.0))
        fit = ms.fit(T5, x, ksd)
        approximate = ms.dfbeta(fit, x)
        exact = np.array([fit.theta - ms.fit(T5, np.delete(x, i, 0), ksd).theta for i in range(50)])
        exact, scale = exact - exact.mean(0), np.abs(exact).max(0)  # their mean is the bias of order 1/n²
        np.testing.assert_allclose(approximate / scale, exact / scale, atol=0.1)
        assert min(np.corrcoef(approximate[:, j], exact[:, j])[0, 1] for j in (0, 1)) > 0.995

    @pytest.mark.slow
    def test_a_kernel_written_as_a_function(self):
        x, z = RNG.standard_normal((20, 2)), RNG.standard_normal((3, 2))
        model = ms.models.Gaussian([0.0, 0.0], 1.0)
        written = ms.KSD(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2) / 2), unbiased=False)
        a, b = (ms.fit(model, x, ksd) for ksd in (written, ms.KSD(ms.kernels.Gaussian(1.0), unbiased=False)))
        np.testing.assert_allclose(ms.influence(a, x, z), ms.influence(b, x, z), rtol=1e-6, atol=1e-8)

    def test_nonsense(self, fit):
        with pytest.raises(ValueError, match="pass the same x again"):
            ms.influence(fit, XT[:50])
        with pytest.raises(ValueError, match="z has 2 coordinates, but x has 1"):
            ms.influence(fit, XT, np.zeros((3, 2)))


class TestRobustness:
    def test_score_matching_is_not(self):
        """The influence of z on a mean is z − mean: rate 1."""
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), NORMAL_SCORES[::10], ms.SM())
        found = ms.robustness(fit, NORMAL_SCORES[::10])
        assert not found.bounded
        assert found.sensitivity["loc"] == np.inf
        np.testing.assert_allclose(found.rates["loc"], 1, atol=0.01)
        assert found.cluster_rate is None

    @pytest.mark.slow
    def test_ksd_of_a_normal_location_is_bounded_but_minds_clusters(self):
        """The largest influence is at z = √(u+1); k⁰(z, z) = z² + 1 grows with the square."""
        x = NORMAL_SCORES[::2]
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.KSD(ms.kernels.Gaussian(1.0), unbiased=False))
        found = ms.robustness(fit, x)
        assert found.bounded
        np.testing.assert_allclose(found.sensitivity["loc"], np.sqrt(2) * 1.5**1.5 * np.exp(-0.5), rtol=0.02)
        np.testing.assert_allclose(found.cluster_rate, 2, atol=0.01)
        assert "many in one place" in found.message

    @pytest.mark.slow
    def test_an_influence_that_tends_to_a_constant_is_bounded(self):
        """By KSD the influence on a normal scale is c + O(1/z): |c| from below on one ray, from above on another."""
        x = np.random.default_rng(0).normal(size=100)
        fit = ms.fit(ms.models.Gaussian(0.0, 1.0), x, "ksd")
        far = np.abs(ms.influence(fit, x, np.array([-1e5, -1e4, 1e4, 1e5]))[:, 1])
        np.testing.assert_allclose(far[[0, 3]], far[[1, 2]], rtol=0.01)
        assert ms.robustness(fit, x).bounded

    @pytest.mark.slow
    def test_sensitivity_over_a_box(self):
        """Score matching of a mean: |z − mean| at the farther corner. KSD: the maximum inside, or at the edge."""
        x = NORMAL_SCORES[::10]
        location = ms.models.Gaussian(0.0, ms.fixed(1.0))
        linear = ms.fit(location, x, ms.SM())
        np.testing.assert_allclose(ms.sensitivity(linear, x, -3.0, 2.0)["loc"], 3 + x.mean(), rtol=1e-9)
        ksd = ms.fit(location, x, ms.KSD(ms.kernels.Gaussian(1.0), unbiased=False))
        z = np.linspace(0, 9, 2001)
        curve = np.abs(ms.influence(ksd, x, z)[:, 0])
        np.testing.assert_allclose(ms.sensitivity(ksd, x, 0.0, 9.0)["loc"], curve.max(), rtol=1e-5)
        np.testing.assert_allclose(ms.sensitivity(ksd, x, 2.0, 9.0)["loc"], curve[z >= 2.0][0], rtol=1e-2)
        with pytest.raises(ValueError, match="low must be below high"):
            ms.sensitivity(ksd, x, 2.0, 2.0)

    @pytest.mark.slow
    def test_a_heavy_tailed_model_is_robust(self, fit):
        found = ms.robustness(fit, XT)
        assert found.bounded
        assert found.message.startswith("Robust")
        assert "rate" in repr(found)


class TestBootstrap:
    @pytest.mark.slow
    def test_it_agrees_with_the_sandwich(self, fit):
        """Both estimate the same standard errors; that of a bootstrap has a Monte-Carlo error of 1/√(2R)."""
        boot = ms.bootstrap(fit, XT, jax.random.key(0), replications=400)
        assert boot.converged.mean() > 0.98
        for name in fit.names:
            assert abs(boot.bse[name] / fit.bse[name] - 1) < 4 / np.sqrt(800) + 2 / np.sqrt(100)
            low, high = boot.conf_int()[name]
            assert low < fit.params[name] < high

    def test_it_wants_the_rows_in_one_place(self, fit):
        with pytest.raises(TypeError, match="The bootstrap is not computed on rows that are spread over devices"):
            ms.bootstrap(fit, ms.shard(XT), jax.random.key(0), replications=2)

    def test_of_a_mean(self):
        """Score matching of a location: the bootstrap variance of a mean is s²/n."""
        x = RNG.gamma(2.0, size=50)
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
        boot = ms.bootstrap(fit, x, jax.random.key(1), replications=1000)
        np.testing.assert_allclose(boot.cov[0, 0], x.var() / 50, rtol=4 * np.sqrt(2 / 1000))

    def test_nonsense(self, fit):
        with pytest.raises(ValueError, match="pass the same x again"):
            ms.bootstrap(fit, XT[:9], jax.random.key(0))
        with pytest.raises(ValueError, match="at least 2 replications"):
            ms.bootstrap(fit, XT, jax.random.key(0), replications=1)


class TestE1:
    def test_the_printed_covariance_of_score_matching_is_four_times_too_large(self):
        """g⁻¹Σg⁻¹ with Σ the second moment of ∇F; the mean has variance s²/n."""
        x = RNG.standard_normal(100)
        model = ms.models.Gaussian(0.0, ms.fixed(1.0))
        fit = ms.fit(model, x, ms.SM())
        at = lambda loc: np.array([float(ms.SM()(ms.models.Gaussian(loc, ms.fixed(1.0)), row[None])) for row in x])
        loc, h = fit.params["loc"], 1e-4
        gradients = (at(loc + h) - at(loc - h)) / (2 * h)
        g = ms.information(ms.SM(), fit.model, x)[0, 0]
        printed = np.mean(gradients**2) / g**2 / 100
        np.testing.assert_allclose(printed, 4 * x.var() / 100, rtol=1e-5)
        np.testing.assert_allclose(fit.cov[0, 0], x.var() / 100, rtol=1e-9)
