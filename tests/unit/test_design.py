"""Designed discrepancies: the kernel of finite rank against pairs, the regression against theory, the checks, the hint.

Efficiencies against maximum likelihood are in test_design_simulation.py.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import minstein as ms
from minstein.data.in_memory import as_rows
from minstein.discrepancies.score_regression import Features, basis_on, features_at, learn, pilot_discrepancy
from minstein.discrepancies.support import support_of
from minstein.kernels.finite_rank import Checks


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
def designed():
    return ms.design(QUARTIC, X)


@pytest.fixture(scope="module")
def fit(designed):
    return ms.fit(QUARTIC, X, designed)


@pytest.fixture(scope="module")
def plain():
    return ms.fit(QUARTIC, X)


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


@pytest.mark.slow
def test_a_designed_discrepancy_is_a_dksd_like_any_other(designed, fit):
    x, slow = X[:16], as_function(designed)
    np.testing.assert_allclose(ms.sandwich(designed, fit.model, x), ms.sandwich(slow, fit.model, x), rtol=1e-8)
    few = [dataclasses.replace(fit, discrepancy=d, n=16, data="") for d in (designed, slow)]
    ours, theirs = (ms.influence(part, x, np.array([-3.0, 0.4])) for part in few)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.slow
def test_the_design_is_efficient_where_ksd_is_not(designed, fit, plain):
    """The bound is the inverse Fisher information by quadrature at the estimate; n = 256 leaves errors of some 9 %."""
    grid = np.linspace(-4, 4, 20001)
    T = np.stack([grid, grid**2])
    p = np.exp(fit.theta @ T - grid**4)
    bound = np.linalg.inv(np.cov(T, aweights=p / p.sum())) / 256
    assert designed.kernel.checks.accepted
    assert abs(np.sqrt(np.linalg.det(fit.cov) / np.linalg.det(bound)) - 1) < 0.15
    assert np.linalg.det(fit.cov) / np.linalg.det(plain.cov) < 0.5


@pytest.mark.slow
def test_the_intercept_is_the_derivative_of_log_z():
    """At the truth of a large sample, mean ∂ log p̃ less mean S[f] estimates ∂ log Z, which is E T."""
    x = quartic_sample(4000)[:, None]
    grid = np.linspace(-4, 4, 20001)
    p = np.exp(0.5 * grid + 1.5 * grid**2 - grid**4)
    expected = np.array([grid, grid**2]) @ p / p.sum()
    model = ms.params.with_theta(QUARTIC, np.array([0.5, 1.5]))
    with jax.enable_x64(True):
        sample = as_rows(x).sample()
        pilot = pilot_discrepancy(model, x, None)
        found = features_at(pilot, basis_on(x, pilot), model, sample, jnp.array([0.5, 1.5]))
        learned = learn(found)
        intercept = np.asarray(jnp.sum(found.scores, 0) / 4000 - learned.mean)
    r_squared = np.asarray(learned.r_squared)
    # the control variates leave the residual of the regression: 1 − R² of the variance of T
    error = np.sqrt((1 - r_squared) * np.array([x.var(), (x**2).var()]) / 4000)
    assert np.all(np.abs(intercept - expected) < 4 * error + 1e-3)
    assert np.all(r_squared > 0.98)


def test_leave_one_out_by_leaving_one_out():
    rng = np.random.default_rng(3)
    A, y = rng.standard_normal((30, 4)) * [1, 10, 0.1, 3], rng.normal([5, -1], 1.0, (30, 2))
    y[:, 0] += A[:, 1]
    found = learn(Features(A, y, np.zeros((4, 2)), np.eye(2), np.ones(30)))
    left = np.array([_predicted(np.delete(A, i, 0), np.delete(y, i, 0), A[i]) for i in range(30)])
    means = np.array([np.delete(y, i, 0).mean(0) for i in range(30)])
    expected = 1 - ((y - left) ** 2).sum(0) / ((y - means) ** 2).sum(0)
    np.testing.assert_allclose(found.r_squared, expected, atol=1e-5)


def _predicted(A, y, at):
    design = np.column_stack([np.ones(len(A)), A])
    return np.append(1, at) @ np.linalg.lstsq(design, y, rcond=None)[0]


def test_a_rejected_design_says_why():
    names, r_squared = ("theta[0]", "theta[1]"), np.array([0.99, 0.98])
    checks = Checks(names, 18, 256, np.asarray(True), r_squared, np.asarray(0.5), np.array([0.9, 1.1]))
    assert "accepted, 18 fields for 256 observations" in str(checks)
    for change, why in (
        ({"r_squared": np.array([0.9, 0.3])}, "too little of the Fisher score of theta[1]"),
        ({"distance": np.asarray(5.0)}, "5.0 standard errors of the pilot"),
        ({"identity": np.array([0.1, 1.0])}, "information identity fails"),
        ({"found": np.asarray(False)}, "found no minimum"),
        ({"r_squared": np.array([0.9, np.nan])}, "too little"),
    ):
        rejected = dataclasses.replace(checks, **change)
        assert not rejected.accepted
        assert why in str(rejected)


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


@pytest.mark.slow
def test_the_hint_names_what_a_design_would_cut(fit, plain):
    (note,) = [note for note in plain.notes if "ms.design" in note]
    cut = 1 - fit.bse["theta[0]"] / plain.bse["theta[0]"]
    assert "theta[0]" in note
    assert "accepted" in fit.summary().facts[1][1]
    assert abs(int(note.partition("estimated ")[2].partition(" ")[0]) / 100 - cut) < 0.05
    assert not any("ms.design" in note for note in fit.notes)


@pytest.mark.slow
def test_designs_are_saved_and_loaded(tmp_path, designed, fit):
    fit.save(tmp_path / "fit.json")
    again = ms.load(tmp_path / "fit.json", model=QUARTIC)
    assert str(again.discrepancy) == str(designed)
    np.testing.assert_allclose(again.discrepancy(fit.model, X), fit.loss, rtol=1e-12)


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


def test_checks_of_replications():
    many = Checks(("a",), 3, 9, np.array([True, True]), np.array([[0.9], [0.1]]), np.zeros(2), np.ones((2, 2)))
    assert many.accepted.tolist() == [True, False]
