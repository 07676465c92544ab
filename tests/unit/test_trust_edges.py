"""No estimate leaves without a warning at the edges of the support, beyond them, or for correlated columns."""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import minstein as ms
from minstein.data.robust import scatter_factor
from minstein.discrepancies.support import support_of

RNG = np.random.default_rng(17)
GAMMA = ms.models.from_numpyro(dist.Gamma, {"concentration": 1.0, "rate": 1.0})
BETA = ms.models.from_numpyro(dist.Beta, {"concentration1": 1.0, "concentration0": 1.0})
GAMMA_FORMULA = ms.models.from_log_density(
    lambda p, x: (p["a"] - 1) * jnp.log(x[0]) - p["b"] * x[0], {"a": ms.positive(1.0), "b": ms.positive(1.0)}
)
NORMAL_FORMULA = ms.models.from_log_density(lambda mu, x: -((x[0] - mu) ** 2) / 2, 0.0)


def truncated_normal(n, loc=1.0):
    return stats.truncnorm.rvs(-loc, np.inf, loc, size=n, random_state=RNG)


def z(fit, name, truth):
    return (fit.params[name] - truth) / fit.bse[name]


class TestSupport:
    def test_numpyro_says_it(self):
        assert GAMMA.space == ms.spaces.Box(low=0.0)
        assert BETA.space == ms.spaces.Box(0.0, 1.0)
        assert ms.models.from_numpyro(dist.Normal, {"loc": 0.0, "scale": 1.0}).space == ms.spaces.REALS
        cut = ms.models.from_numpyro(dist.TruncatedNormal, {"loc": 0.0, "scale": 1.0, "low": ms.fixed(0.1)})
        assert cut.space == ms.spaces.Box(low=0.1)

    @pytest.mark.parametrize("params", [{"scale": 1.0, "alpha": 2.0}, {"scale": ms.positive(1.0), "alpha": 2.0}])
    def test_an_edge_that_would_be_fitted_is_refused(self, params):
        with pytest.raises(ValueError, match=r"The support of Pareto depends on scale.*ms\.fixed"):
            ms.models.from_numpyro(dist.Pareto, params)

    def test_a_support_that_is_not_a_box_is_refused(self):
        model = ms.models.from_numpyro(dist.Dirichlet, {"concentration": np.ones(3)})
        with pytest.raises(TypeError, match=r"Dirichlet lives on Simplex.*not a box"):
            ms.fit(model, RNG.dirichlet(np.ones(3), 20))

    def test_a_formula_shows_it(self):
        x = RNG.gamma(0.8, size=50)
        low, high = support_of(GAMMA_FORMULA, x[:, None])
        assert abs(low[0]) < 1e-7
        assert np.isinf(high[0])

    def test_an_overflow_is_not_an_edge(self):
        """log(1 + eˣ) is infinite from 710 on, where the density is still e^(−0.7)."""
        flat = ms.models.from_log_density(lambda a, x: a * x[0] - jnp.log(1 + jnp.exp(x[0])), ms.positive(0.999))
        x = RNG.logistic(size=(100, 1))
        assert support_of(flat, x) is None
        assert not any(np.isfinite(edge.at) for edge in ms.stein_class(ms.SM(), flat, x).edges)

    def test_a_box_refuses_what_is_outside(self):
        with pytest.raises(ValueError, match=r"outside the support of the model in 1 of 4 rows \(row 2\)"):
            ms.fit(GAMMA, np.array([0.1, 0.2, -0.5, 1.0]))
        with pytest.raises(ValueError, match="1 of 3 rows"):
            ms.fit(NORMAL_FORMULA, np.array([0.1, 0.2, 7.0]), support=(0, 5))
        with pytest.raises(ValueError, match=r"support must be a pair \(low, high\)"):
            ms.fit(NORMAL_FORMULA, np.array([0.1, 0.2, 7.0]), support=3)
        with pytest.raises(ValueError, match="low must be below high"):
            ms.spaces.Box(1.0, 0.0)


class TestDefault:
    @pytest.mark.slow
    def test_it_is_right_at_an_edge_and_says_so(self):
        x = RNG.gamma(0.8, size=500)
        fit = ms.fit(GAMMA, x)
        assert abs(z(fit, "concentration", 0.8)) < 4
        assert "The support has edges (low = 0)" in str(fit)
        other = ms.fit(GAMMA_FORMULA, x)
        np.testing.assert_allclose(other.theta, fit.theta, rtol=1e-6)

    def test_score_matching_by_name_is_right_there_too(self):
        """SM() itself gives about 2 here."""
        fit = ms.fit(GAMMA, RNG.gamma(0.8, size=500), "sm")
        assert abs(z(fit, "concentration", 0.8)) < 4
        assert "The support has edges (low = 0)" in str(fit)

    def test_a_robust_fit_is_right_there_too(self):
        fit = ms.fit(GAMMA, RNG.gamma(0.8, size=500), goal="robust")
        assert abs(z(fit, "concentration", 0.8)) < 4
        assert "The support has edges (low = 0)" in str(fit)

    @pytest.mark.slow
    def test_a_support_that_is_given(self):
        """KSD of the plain formula gives about 1.15 here, with a standard error of 0.04."""
        x = truncated_normal(500)
        fit = ms.fit(NORMAL_FORMULA, x, support=(0, np.inf))
        assert abs(z(fit, "theta", 1.0)) < 4
        same = ms.models.from_log_density(NORMAL_FORMULA.fn, 0.0, support=(0, np.inf))
        np.testing.assert_allclose(ms.fit(same, x).theta, fit.theta, rtol=1e-9)

    def test_data_that_end_before_the_model_does(self):
        """By SciPy's distribution function, how many of 500 a normal distribution would have below the smallest."""
        x = truncated_normal(500)
        with pytest.warns(ms.BoundaryWarning, match=r"x\[0\] below .* the smallest, and there are none"):
            fit = ms.fit(NORMAL_FORMULA, x)
        (found,) = ms.stein_class(fit.discrepancy, fit.model, x).overhangs
        np.testing.assert_allclose(found.expected, 500 * stats.norm.cdf(x.min() - fit.params["theta"]), rtol=0.05)
        assert any("there are none" in note for note in fit.notes)

    @pytest.mark.parametrize("df", [1.0, 1e6], ids=["Cauchy", "normal"])
    @pytest.mark.parametrize("d", [1, 3])
    def test_no_false_alarm(self, df, d):
        model = ms.models.StudentT(np.zeros(d), np.ones(d), df)
        x = RNG.standard_normal((200, d)) / np.sqrt(RNG.chisquare(df, (200, 1)) / df)
        assert ms.stein_class(ms.KSD(ms.kernels.IMQ(1.0)), model, x).holds

    @pytest.mark.slow
    def test_a_variance_that_is_infinite(self):
        """For a shape between 1 and 2 the Stein identity holds, but the score has no second moment."""
        x = RNG.gamma(1.5, size=300)
        with pytest.warns(ms.BoundaryWarning, match="no finite variance.*the support ends at x.0. = 0"):
            ms.fit(GAMMA, x, ms.KSD(ms.kernels.IMQ(1.0), unbiased=False))

    @pytest.mark.slow
    def test_what_is_drawn_and_reported_stays_inside(self):
        x = RNG.beta(1.5, 1.5, 200)
        fit = ms.fit(BETA, x)
        assert ms.robustness(fit, x).bounded
        line = ms.plot.influence(fit, x).lines[0]
        assert line.get_xdata().min() > 0
        assert line.get_xdata().max() < 1
        assert "The support has edges" in ms.report(fit, x)


class TestDensity:
    """log p is looked at where the observations are, because a score may be finite where log p is not."""

    @pytest.mark.parametrize(
        ("model", "x", "rows"),
        [
            (GAMMA_FORMULA, np.array([0.5, -1.0, 2.0, 0.7]), r"1 of 4 rows \(row 1\)"),
            (
                ms.models.from_log_density(lambda p, x: p * jnp.log(1 - x[0] ** 2), ms.positive(1.0)),
                np.array([0.5, -0.4, 1.7, 0.2]),
                r"1 of 4 rows \(row 2\)",
            ),
            (ms.models.from_log_density(lambda p, x: p * x[0] + jnp.nan, 1.0), np.array([1.0, 2.0]), "2 of 2 rows"),
        ],
        ids=["a logarithm of negative numbers", "beyond both ends", "nowhere"],
    )
    def test_impossible_observations_are_named(self, model, x, rows):
        with pytest.raises(ValueError, match=f"log p is not finite at {rows}"):
            ms.fit(model, x, ms.SM())

    def test_a_fit_that_makes_observations_impossible_has_failed(self):
        """A uniform part is cut off by θ: the score does not see the cut, so score matching moves it over the data."""
        log_p = lambda t, x: jnp.where(x[0] < 5 + t, -((x[0] - t) ** 2) / 2, jnp.nan)
        model = ms.models.from_log_density(log_p, 10.0)
        x = np.append(np.zeros(50) + np.linspace(-1, 1, 50), 8.0)
        fit = ms.fit(model, x, ms.SM(), solver=ms.GaussNewton(), throw=False)
        assert not fit.converged
        assert "impossible" in fit.message
        assert any("row 50" in note for note in fit.notes)
        with pytest.raises(ms.NotConverged, match="impossible"):
            ms.fit(model, x, ms.SM(), solver=ms.GaussNewton())

    @pytest.mark.parametrize("make", [ms.DSM, lambda m: ms.DKSD(ms.kernels.IMQ(1.0), m)], ids=["DSM", "DKSD"])
    def test_a_diffusion_knows_its_box(self, make):
        with pytest.raises(ValueError, match="observations lie beyond them: x runs from 3 to 7, and the box has low=5"):
            ms.fit(NORMAL_FORMULA, np.array([3.0, 6.0, 7.0]), make(ms.diffusions.bounded(low=5.0)))


class TestScatter:
    def test_it_is_that_of_normal_data(self):
        cov = np.array([[4.0, 1.5], [1.5, 1.0]])
        x = RNG.multivariate_normal([3.0, -1.0], cov, 10_000)
        L = scatter_factor(x)
        np.testing.assert_allclose(L @ L.T, cov, rtol=0.1)  # 4 standard errors of a robust variance, √(2.7 · 2/n)

    def test_it_follows_linear_maps(self):
        x, A = RNG.standard_t(2, (150, 3)), np.array([[1.0, 2.0, 0.0], [0.3, -1.0, 1e3], [5.0, 0.0, 1.0]])
        L, M = scatter_factor(x), scatter_factor(x @ A.T + [1e3, 0.0, -5.0])
        np.testing.assert_allclose(M @ M.T, A @ L @ L.T @ A.T, rtol=1e-7)

    def test_outliers_hardly_count(self):
        x = RNG.standard_normal((500, 2))
        x[:25] = [1e6, -1e6]
        L = scatter_factor(x)
        assert np.linalg.norm(L @ L.T - np.eye(2)) < 0.5

    @pytest.mark.parametrize("x", [np.ones((30, 2)) * np.arange(30)[:, None], RNG.standard_normal((8, 3))])
    def test_it_is_diagonal_for_singular_data_and_for_few(self, x):
        assert np.array_equal(scatter_factor(x), np.diag(np.diag(scatter_factor(x))))

    @pytest.mark.slow
    def test_nearly_collinear_columns(self):
        """The residual scale of the second column given the first is 0.001; its standard error is 0.001/√(2n)."""
        z = RNG.standard_normal((64, 2))
        fit = ms.fit(ms.models.Gaussian([0.0, 0.0], np.eye(2)), np.stack([z[:, 0], z[:, 0] + 0.001 * z[:, 1]], 1))
        assert 0.0007 < fit.params["scale[1,1]"] < 0.0013
        assert 0.5 < fit.bse["scale[1,1]"] / (0.001 / np.sqrt(128)) < 2

    @pytest.mark.slow
    @pytest.mark.parametrize("A", [np.array([[1.0, 2.0], [0.3, -1.0]]), np.array([[1e4, 0.0], [0.0, 1e-4]])])
    def test_the_default_follows_linear_maps(self, A):
        x, model = RNG.standard_t(5, (100, 2)), ms.models.Gaussian([0.0, 0.0], np.eye(2))
        here, there = ms.fit(model, x).model, ms.fit(model, x @ A.T + [100.0, 3.0]).model
        np.testing.assert_allclose(there.loc - [100.0, 3.0], A @ here.loc, rtol=1e-5, atol=1e-6 * np.abs(A).max())
        np.testing.assert_allclose(there.scale @ there.scale.T, A @ here.scale @ here.scale.T @ A.T, rtol=1e-5)


CASES = {
    "gamma 0.8": (GAMMA, lambda n: RNG.gamma(0.8, size=n), {"concentration": 0.8, "rate": 1.0}),
    "gamma 1.2": (GAMMA, lambda n: RNG.gamma(1.2, size=n), {"concentration": 1.2, "rate": 1.0}),
    "gamma 1.5": (GAMMA_FORMULA, lambda n: RNG.gamma(1.5, size=n), {"a": 1.5, "b": 1.0}),
    "beta 1.5": (BETA, lambda n: RNG.beta(1.5, 1.5, n), {"concentration1": 1.5, "concentration0": 1.5}),
    "beta 0.9": (BETA, lambda n: RNG.beta(0.9, 1.2, n), {"concentration1": 0.9, "concentration0": 1.2}),
    "truncated normal": (
        ms.models.from_log_density(NORMAL_FORMULA.fn, 0.0, support=(0, np.inf)),
        truncated_normal,
        {"theta": 1.0},
    ),
}


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize("name", CASES)
def test_intervals_at_an_edge_cover(name):
    """Of 80 intervals of 95 %, fewer than 68 would cover with probability 0.0002."""
    model, draw, truth = CASES[name]
    covered = dict.fromkeys(truth, 0)
    for _ in range(80):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ends = ms.fit(model, draw(500)).conf_int()
        for parameter, value in truth.items():
            covered[parameter] += ends[parameter][0] < value < ends[parameter][1]
    assert min(covered.values()) >= 68, covered
