"""Designed discrepancies: the kernel of finite rank against pairs; learned fields against theory and brute force.

Efficiencies against maximum likelihood are in test_design_simulation.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import minstein as ms
from minstein.data.in_memory import as_rows
from minstein.data.robust import centre_and_factor
from minstein.discrepancies.default import default_discrepancy
from minstein.discrepancies.efficient import Efficient
from minstein.discrepancies.score_regression import Rows, basis_on, regress, regressors
from minstein.discrepancies.support import support_of


def quadratic_and_linear(x):
    return jnp.array([x[0], x[0] ** 2])


def quartic_base(x):
    return -(x[0] ** 4)


QUARTIC = ms.models.ExponentialFamily(quadratic_and_linear, [0.0, 0.0], quartic_base)


def quartic_sample(n, theta=(0.5, 1.5), seed=0):
    grid = np.linspace(-4, 4, 20001)
    p = np.exp(theta[0] * grid + theta[1] * grid**2 - grid**4)
    return np.interp(np.random.default_rng(seed).random(n), np.cumsum(p) / p.sum(), grid)


X = quartic_sample(256)


@pytest.fixture(scope="module")
def fit():
    return ms.fit(QUARTIC, X)


@pytest.fixture(scope="module")
def plain():
    return ms.fit(QUARTIC, X, "ksd")


def as_function(discrepancy):
    """The same discrepancy, its kernel a plain function of two points, so that pairs are summed by autodiff."""
    return ms.DKSD(lambda x, y: discrepancy.kernel(x, y), discrepancy.diffusion, unbiased=discrepancy.unbiased)


def fields(x):
    return jnp.array([1.0, x[0], x[0] * x[1], jnp.sin(x[1])])


@pytest.mark.parametrize(
    ("m", "unbiased"),
    [
        (lambda x: 1 / (1 + x**2), False),
        pytest.param(lambda x: jnp.eye(2) + jnp.outer(jnp.sin(x), x) / 9, True, marks=pytest.mark.slow),
    ],
)
def test_a_kernel_of_finite_rank_is_summed_without_pairs(m, unbiased):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 2))
    kernel = ms.kernels.FiniteRank(fields, rng.standard_normal((4, 2, 3))) + 0.1 * ms.kernels.IMQ(1.0)
    fast = ms.DKSD(kernel, m, unbiased=unbiased)
    model = ms.models.Gaussian([0.3, 0.1], [1.2, 0.8])
    value, gradient = ms.value_and_grad(fast, model, x)
    slow, slope = ms.value_and_grad(as_function(fast), model, x)
    np.testing.assert_allclose(value, slow, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10)


def fisher(theta, n):
    """The inverse Fisher information over n, by quadrature."""
    grid = np.linspace(-4, 4, 20001)
    T = np.stack([grid, grid**2])
    p = np.exp(theta @ T - grid**4)
    return np.linalg.inv(np.cov(T, aweights=p / p.sum())) / n


def test_the_default_solves_the_likelihood_equations(fit, plain):
    """The mean of (x, x²) under the fitted model, by quadrature, is that of the data; errors reach the bound."""
    grid = np.linspace(-4, 4, 20001)
    T = np.stack([grid, grid**2])
    p = np.exp(fit.theta @ T - grid**4)
    error = np.sqrt(np.diag(np.cov(T, aweights=p / p.sum())) / 256)
    np.testing.assert_allclose(T @ p / p.sum(), [X.mean(), (X**2).mean()], atol=0.05 * error.min())
    bound = fisher(fit.theta, 256)
    assert abs(np.sqrt(np.linalg.det(fit.cov) / np.linalg.det(bound)) - 1) < 0.15
    assert np.linalg.det(fit.cov) / np.linalg.det(plain.cov) < 0.5
    assert fit.discrepancy.r_squared.min() > 0.98
    assert fit.loss * 256 < 1e-9


def test_a_gaussian_is_fitted_by_maximum_likelihood():
    """The fields 1 and x span its score: mean and covariance, and the sandwich of the likelihood."""
    x = np.random.default_rng(5).standard_normal((80, 2)) @ np.array([[2.0, 0.5], [0.0, 1.0]]) + [3, -1]
    fit = ms.fit(ms.models.Gaussian([0.0, 0.0], np.eye(2)), x)
    error = 0.005 * min(fit.bse.values())  # what the ridge costs
    np.testing.assert_allclose(fit.model.loc, x.mean(0), atol=error)
    np.testing.assert_allclose(fit.model.scale, np.linalg.cholesky(np.cov(x.T, bias=True)), atol=error)
    np.testing.assert_allclose(fit.bse["loc[0]"], x[:, 0].std() / np.sqrt(80), rtol=1e-2)


def test_the_influence_of_a_distant_observation_is_that_of_the_likelihood():
    """For a normal model z − mean and ((z − mean)² − variance)/2σ, with gross errors in the data as well."""
    x = ms.datasets.load("newcomb").x
    fit = ms.fit(ms.models.Gaussian(0.0, 1.0), x)
    z = np.array([-90.0, 0.0, 30.0, 80.0])
    loc, scale = fit.theta
    expected = np.stack([z - loc, ((z - loc) ** 2 - scale**2) / (2 * scale)], 1)
    np.testing.assert_allclose(ms.influence(fit, x, z), expected, rtol=0.01, atol=0.05)


def test_a_wrong_model_has_the_target_of_the_likelihood():
    """Exponential data under a normal model: mean, standard deviation, and errors that know the fourth moment."""
    x = np.random.default_rng(6).exponential(size=400)
    with pytest.warns(ms.BoundaryWarning, match="there are none"):
        fit = ms.fit(ms.models.Gaussian(0.0, 1.0), x)
    z = (x - x.mean()) / x.std()
    np.testing.assert_allclose(fit.theta, [x.mean(), x.std()], rtol=1e-3)
    expected = x.std() * np.sqrt([1, (np.mean(z**4) - 1) / 4]) / 20
    np.testing.assert_allclose(list(fit.bse.values()), expected, rtol=0.01)
    assert any("does not seem to fit" in note for note in fit.notes)


def some_rows(n=60):
    rng = np.random.default_rng(7)
    return rng.standard_normal((n, 9)) * rng.uniform(0.1, 9, 9) + rng.normal(size=9), rng.normal([5, -1], 1.0, (n, 2))


def test_the_share_of_an_observation_by_counting_it_once_more():
    """A row that is counted n·k + 1 times among n·k changes the equations by its share over n·k + 1."""
    with jax.enable_x64(True):
        S, y = (jnp.asarray(rows) for rows in some_rows())
        found = regress(S, y, jnp.ones(60, bool))
        many = np.append(np.repeat(np.arange(60), 3000), 7)
        more = regress(S[many], y[many], jnp.ones(many.size, bool))
        share = np.asarray(found.shares(S[7:8], y[7:8]))[0]
        change = np.asarray(more.mean) - np.asarray(found.mean)
    np.testing.assert_allclose(change * many.size, share, rtol=1e-4)


def test_the_slope_of_the_equations_by_automatic_differentiation():
    """With padding, and a ridge that matters because two features are collinear."""
    with jax.enable_x64(True):
        S, y = (jnp.asarray(rows).at[50:].set(jnp.nan) for rows in some_rows())
        S, real = S.at[:, 3].set(2 * S[:, 1]), jnp.arange(60) < 50
        dS, dy = (jnp.asarray(rows[::-1]) for rows in some_rows())
        both = lambda S, y: regress(S, y, real)[1:3]
        _, expected = jax.jvp(both, (S, y), (dS, dy))
        found = regress(S, y, real)
        slope = Rows.of(found, S, y, real).slope(found, dS, dy)
    for one, other in zip(slope, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_leave_one_out_by_leaving_one_out():
    A, y = some_rows()
    y[:, 0] += A[:, 1]
    with jax.enable_x64(True):
        found = regress(jnp.asarray(A), jnp.asarray(y), jnp.ones(60, bool)).r_squared
    left = np.array([_predicted(np.delete(A, i, 0), np.delete(y, i, 0), A[i]) for i in range(60)])
    means = np.array([np.delete(y, i, 0).mean(0) for i in range(60)])
    expected = 1 - ((y - left) ** 2).sum(0) / ((y - means) ** 2).sum(0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def _predicted(A, y, at):
    design = np.column_stack([np.ones(len(A)), A])
    return np.append(1, at) @ np.linalg.lstsq(design, y, rcond=None)[0]


def test_the_fields_that_a_model_suggests_obey_the_stein_identity():
    """Their mean under the model vanishes: d = 2, draws of the model, within Monte-Carlo error."""
    model = ms.models.StudentT([0.5, -1.0], [[1.0, 0.0], [0.4, 2.0]], 5.0)
    with jax.enable_x64(True):
        x = model.sample(jax.random.key(0), 20000)
        at = lambda vector: ms.params.unwrap(ms.params.with_theta(model, vector))
        basis = basis_on(x[:200], None, 5, jnp.array([[1.0, 0.2], [0.2, 0.7]]))
        S, _ = regressors(basis, ms.diffusions.identity, at, jnp.asarray(ms.params.theta(model)), x)
    S = np.asarray(S)
    assert S.shape[1] == basis.count(5)
    with np.errstate(invalid="ignore"):  # a field that the model suggests may vanish
        z = S.mean(0) / (S.std(0) / np.sqrt(len(S)))
    assert np.abs(z[np.isfinite(z)]).max() < 4.5


def test_fields_that_jump_are_not_used():
    """E S[f] = 0 holds for continuous fields; ∇∂ log p of a density with a kink jumps."""
    x = as_rows(np.random.default_rng(0).standard_normal((60, 2)))
    kinked = lambda p, x: -p["a"] * jnp.sum(jnp.abs(x)) - jnp.sum(x**2)
    smooth = lambda p, x: -p["a"] * jnp.sum(jnp.sqrt(1 + x**2)) - jnp.sum(x**2)
    place = lambda log_p: Efficient().after_pilot(ms.models.from_log_density(log_p, {"a": 1.0}), x)
    assert place(kinked).basis.whitening is None
    assert place(smooth).basis.whitening is not None


def test_a_chain_needs_fields_in_proportion_to_its_parameters():
    """d = 8, n = 120: d + d² fields would be too many, and those of the model are enough."""
    d, rng = 8, np.random.default_rng(2)
    P = 2 * np.eye(d) - 0.6 * (np.eye(d, k=1) + np.eye(d, k=-1))
    x = rng.multivariate_normal(np.zeros(d), np.linalg.inv(P), 120)
    pairs = lambda x: jnp.append(-0.5 * x @ x, -x[:-1] @ x[1:])
    model = ms.models.ExponentialFamily(pairs, np.array([1.0, 0.0]))
    fit = ms.fit(model, x)
    bound = np.linalg.inv(_information(P)) / 120
    np.testing.assert_allclose(list(fit.bse.values()), np.sqrt(np.diag(bound)), rtol=0.2)
    assert fit.discrepancy.r_squared.min() > 0.95


def _information(P):
    """Of log p = −θ₀ xᵀx/2 − θ₁ Σ xᵢxᵢ₊₁: half the trace of Σ Eⱼ Σ Eₖ."""
    d, V = len(P), np.linalg.inv(P)
    E = [np.eye(d), np.eye(d, k=1) + np.eye(d, k=-1)]
    return np.array([[np.trace(V @ a @ V @ b) / 2 for b in E] for a in E])


def separated(p, x):
    first = jnp.log(p["weights"][0]) - (x[0] + 4) ** 2 / 2
    return jnp.logaddexp(first, jnp.log(p["weights"][1]) - (x[0] - 4) ** 2 / 2)


def test_fields_that_miss_the_score_are_not_used():
    """Weights of modes far apart: no field carries their information."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300) + np.where(rng.random(300) < 0.4, -4, 4)
    model = ms.models.from_log_density(separated, {"weights": ms.simplex(np.array([0.5, 0.5]))})
    fit = ms.fit(model, x, throw=False)
    assert fit.discrepancy.designed_at is None
    assert any("not used, because" in note for note in fit.notes)


def test_edges_of_the_support_are_found():
    x = np.random.default_rng(0).beta(2, 3, (50, 2)) * [1, 4] + [2, 0]
    log_p = lambda a, x: (a - 1) * (jnp.log(x[0] - 2) + jnp.log(3 - x[0]) + jnp.log(x[1]) + jnp.log(4 - x[1]))
    low, high = support_of(ms.models.from_log_density(log_p, 2.0), x)
    np.testing.assert_allclose(low, [2, 0], atol=1e-8)
    np.testing.assert_allclose(high, [3, 4], atol=1e-8)
    assert support_of(ms.models.Gaussian([0.0, 0.0], 1.0), x) is None
    steep = ms.models.from_log_density(lambda a, x: -a * jnp.sum(jnp.exp(-x) + x), 1.0)
    assert support_of(steep, x) is None


def test_a_bounded_diffusion_on_a_half_line():
    """k⁰ of the constant kernel is b(x) b(y), with b = x s + 1 = 1 − x for p = e^(−x) and m = x."""
    x = np.array([0.2, 0.7, 1.9])
    one = ms.kernels.FiniteRank(lambda x: jnp.ones(1), np.ones((1, 1, 1)))
    model = ms.models.from_log_density(lambda rate, x: -rate * x[0], 1.0)
    loss = ms.DKSD(one, ms.diffusions.bounded(low=0.0), unbiased=False)(model, x)
    np.testing.assert_allclose(loss, np.mean(1 - x) ** 2, rtol=1e-12)


def test_robust_designs_leave_heavy_tails_alone():
    x = np.random.default_rng(0).standard_normal(64)
    normal = ms.design(ms.models.Gaussian(0.0, 1.0), x, "robust")
    heavy = ms.design(ms.models.StudentT(0.0, 1.0, 3.0), x, "robust")
    assert float(normal.diffusion.field.a) == 2.5
    assert "the score already redescends" in repr(heavy)
    alone = ms.design(ms.models.Gaussian(ms.fixed(0.0), 1.0), x, "robust")
    np.testing.assert_allclose(normal.kernel.kernel.c, 4 * alone.kernel.kernel.c)


def with_cluster(d, n=400):
    """Correlated normal data whose first tenth is a cluster at a Mahalanobis distance of 4√(d/2)."""
    rng = np.random.default_rng(8)
    z = rng.standard_normal((n, d))
    z[: n // 10] = np.eye(d)[0] * 4 * np.sqrt(d / 2) + 0.3 * z[: n // 10]
    return z @ (np.eye(d) + 0.9 * np.tril(np.ones((d, d)), -1)).T * np.geomspace(1, 100, d)


@pytest.mark.parametrize("d", [2, 5])
def test_the_centre_and_scatter_of_the_bulk_are_those_of_its_inner_rows(d):
    """A fixed point: the moments of the rows within the 97.5 % ellipse, none of which is in the cluster."""
    x = with_cluster(d)
    centre, factor = centre_and_factor(x)
    squares = np.sum(np.linalg.solve(factor, (x - centre).T) ** 2, 0)
    inner = squares < stats.chi2.ppf(0.975, d)
    assert not inner[:40].any()
    assert 0.94 < inner[40:].mean() < 1
    scale = 0.975 / stats.chi2.cdf(stats.chi2.ppf(0.975, d), d + 2)
    np.testing.assert_allclose(centre, x[inner].mean(0), atol=0.02 * x.std(0).max())
    np.testing.assert_allclose(factor @ factor.T, scale * np.cov(x[inner].T, bias=True), rtol=0.1)


def test_without_correlations_the_bulk_is_described_by_medians():
    x = with_cluster(2)[::20]
    for rows in (x[:8], np.repeat(x[:, :1], 2, 1), x[:, :1]):  # few rows, rows on a line, one dimension
        centre, factor = centre_and_factor(rows)
        np.testing.assert_allclose(centre, np.median(rows, 0))
        np.testing.assert_allclose(factor, np.diag(1.4826 * np.median(np.abs(rows - centre), 0)))


@pytest.mark.parametrize("d", [2, 5])
def test_a_cluster_at_a_moderate_distance_does_not_move_a_robust_fit(d):
    """Within half a standard error of the same fit to the data without it, so that intervals still cover 92 %."""
    x = with_cluster(d)
    model = ms.models.Gaussian(np.zeros(d), np.eye(d))
    with_it, without = (ms.fit(model, rows, goal="robust") for rows in (x, x[40:]))
    off = (with_it.theta - without.theta) / np.array(list(without.bse.values()))
    assert np.abs(off).max() < 0.5


def test_gross_errors_on_a_half_line_do_not_move_a_robust_fit():
    x = np.random.default_rng(9).gamma(5.0, 0.5, 300)
    log_p = lambda p, x: (p["shape"] - 1) * jnp.log(x[0]) - p["rate"] * x[0]
    start = {"shape": ms.positive(1.0), "rate": ms.positive(1.0)}
    model = ms.models.from_log_density(log_p, start, support=(0.0, np.inf))
    without = ms.fit(model, x[15:], goal="robust")
    x[:15] = 20.0
    with_it = ms.fit(model, x, goal="robust")
    errors = np.array(list(without.bse.values()))
    assert np.abs(with_it.theta - without.theta).max() < 0.3 * errors.min()
    np.testing.assert_array_less(np.abs(without.theta - [2.0, 5.0]), 3 * errors)


def test_designs_are_saved_and_loaded(tmp_path, fit):
    fit.save(tmp_path / "fit.json")
    again = ms.load(tmp_path / "fit.json", model=QUARTIC)
    assert str(again.discrepancy) == str(fit.discrepancy)
    np.testing.assert_allclose(again.discrepancy(fit.model, X), fit.loss, atol=1e-12)


def test_a_goal_by_name():
    robust = ms.fit(QUARTIC, X, goal="robust")
    assert robust.discrepancy.kind == ms.design(QUARTIC, X, "robust").kind
    with pytest.raises(TypeError, match="not both"):
        ms.fit(QUARTIC, X, "sm", goal="robust")
    with pytest.raises(ValueError, match="not a known name"):
        ms.fit(QUARTIC, X, goal="best")


def test_refusals():
    with pytest.raises(ValueError, match='"efficient" or "robust"'):
        ms.design(QUARTIC, X, "best")
    spins = ms.models.from_log_density(lambda h, x: h * x[0], 0.1, space=ms.spaces.SPINS)
    for of in (lambda: ms.design(spins, np.ones((3, 1))), lambda: ms.efficiency(None, spins, np.ones((3, 1)))):
        with pytest.raises(TypeError, match="differentiates log p"):
            of()


@pytest.mark.slow
def test_the_efficiency_of_score_matching_at_student_t():
    """Quadrature gives 0.651 jointly for location and scale; the sample is t's own quantiles."""
    x = stats.t.ppf((np.arange(1000) + 0.5) / 1000, 5)
    model = ms.models.StudentT(0.0, 1.0, 5.0)
    found = ms.efficiency(ms.SM(), model, x)
    assert abs(found.joint - 0.651) < 0.03
    assert np.isfinite(found.largest)


@pytest.mark.parametrize(("shape", "kind"), [((19, 1), "KSD"), ((20, 1), "Efficient"), ((3_000_000, 1), "KSD")])
def test_the_default_by_the_size_of_the_sample(shape, kind):
    x = as_rows(np.broadcast_to(np.linspace(-1, 1, shape[0])[:, None], shape))
    found = default_discrepancy(ms.models.Gaussian(0.0, 1.0), x)
    assert (type(found) is ms.Efficient) == (kind == "Efficient")
