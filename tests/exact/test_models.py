"""Every shipped family: its density, score, sampler, start and edges."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import minstein as ms

from ..truth import densities

Gaussian, StudentT = ms.models.Gaussian, ms.models.StudentT
SymmetricBessel, GeneralisedGamma = ms.models.SymmetricBessel, ms.models.GeneralisedGamma
ExponentialFamily, from_numpyro = ms.models.ExponentialFamily, ms.models.from_numpyro

ROOT = np.array([[1.2, 0.0], [-0.5, 0.7]])
LINE, PLANE, SPACE = np.array([0.3]), np.array([0.3, -1.0]), np.array([0.3, -1.0, 2.0])

CASES = {
    "Gaussian, line": (Gaussian(0.3, 1.7), densities.gaussian(LINE, np.diag([1.7]))),
    "Gaussian, scalar": (Gaussian(SPACE, 0.8), densities.gaussian(SPACE, 0.8 * np.eye(3))),
    "Gaussian, vector": (Gaussian(PLANE, [0.5, 2.0]), densities.gaussian(PLANE, np.diag([0.5, 2.0]))),
    "Gaussian, matrix": (Gaussian(PLANE, ROOT), densities.gaussian(PLANE, ROOT)),
    "StudentT, line": (StudentT(0.3, 10.0, 5.0), densities.student_t(LINE, np.diag([10.0]), 5.0)),
    "StudentT, Cauchy": (StudentT(0.3, 0.5, 1.0), densities.student_t(LINE, np.diag([0.5]), 1.0)),
    "StudentT, scalar": (StudentT(SPACE, 0.8, 12.0), densities.student_t(SPACE, 0.8 * np.eye(3), 12.0)),
    "StudentT, matrix": (StudentT(PLANE, ROOT, 9.0), densities.student_t(PLANE, ROOT, 9.0)),
    "Bessel, s = 1/2": (SymmetricBessel(0.3, 2.0, 0.5), densities.symmetric_bessel(LINE, np.diag([2.0]), 0.5)),
    "Bessel, s = 0.6": (SymmetricBessel(0.3, 2.0, 0.6), densities.symmetric_bessel(LINE, np.diag([2.0]), 0.6)),
    "Bessel, Laplace": (SymmetricBessel(0.3, 2.0, 1.0), densities.symmetric_bessel(LINE, np.diag([2.0]), 1.0)),
    "Bessel, s = 2": (SymmetricBessel(0.3, 2.0, 2.0), densities.symmetric_bessel(LINE, np.diag([2.0]), 2.0)),
    "Bessel, matrix": (SymmetricBessel(PLANE, ROOT, 3.3), densities.symmetric_bessel(PLANE, ROOT, 3.3)),
    "Bessel, vector": (
        SymmetricBessel(SPACE, [1.0, 2.0, 3.0], 1.5),
        densities.symmetric_bessel(SPACE, np.diag([1.0, 2.0, 3.0]), 1.5),
    ),
    "GeneralisedGamma, cusp": (GeneralisedGamma(0.3, 0.7), densities.generalised_gamma(LINE, 0.7)),
    "GeneralisedGamma, Laplace": (GeneralisedGamma(0.3, 1.0), densities.generalised_gamma(LINE, 1.0)),
    "GeneralisedGamma, line": (GeneralisedGamma(0.3, 5.0), densities.generalised_gamma(LINE, 5.0)),
    "GeneralisedGamma, plane": (GeneralisedGamma(PLANE, 1.5), densities.generalised_gamma(PLANE, 1.5)),
    "GeneralisedGamma, space": (GeneralisedGamma(SPACE, 3.0), densities.generalised_gamma(SPACE, 3.0)),
}


def cases(wanted=lambda model, law: True):
    return pytest.mark.parametrize("case", [name for name in CASES if wanted(*CASES[name])])


# ---------------------------------------------------------------------------------------------------- density and score


@eqx.filter_jit
def at_rows(model, x):
    """log p, ∇log p and Δlog p at each row."""
    score = jax.grad(lambda x: model(x))
    return jax.vmap(lambda x: (model(x), score(x), jnp.trace(jax.jacfwd(score)(x))))(x)


@cache
def at_points(case):
    """Six points from near the centre to far out, no two in the same direction; and the model there."""
    model, law = CASES[case]
    direction = np.random.default_rng(1).normal(size=(6, law.d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    x = law.mean + (np.array([0.01, 0.3, 1.0, 2.5, 8.0, 60.0])[:, None] * direction) @ law.factor.T
    with jax.enable_x64(True):
        return x, *map(np.asarray, at_rows(model, jnp.asarray(x)))


@cases()
def test_log_density_is_the_truth_up_to_a_constant(case):
    x, log_p, _, _ = at_points(case)
    exact = CASES[case][1].log_density(x)
    np.testing.assert_allclose(log_p - log_p[0], exact - exact[0], rtol=1e-12, atol=1e-12)


@cases()
def test_score_and_laplacian(case):
    x, _, score, laplacian = at_points(case)
    for i, (exact_score, exact_laplacian) in enumerate(map(CASES[case][1].score_and_laplacian, x)):
        size = np.linalg.norm(exact_score)
        np.testing.assert_allclose(score[i], exact_score, rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(laplacian[i], exact_laplacian, rtol=0, atol=1e-10 * (abs(exact_laplacian) + size**2))


# -------------------------------------------------------------------------------------------------------------- sampler

N = 20_000


@cache
def draws(case):
    return CASES[case][0].sample(jax.random.key(7), N)


@cases(lambda model, law: law.d == 1)
def test_sampler_has_the_true_distribution_function(case):
    assert draws(case).dtype == np.float64
    assert stats.kstest(draws(case)[:, 0], CASES[case][1].cdf).pvalue > 1e-3


@cases(lambda model, law: law.d > 1)
def test_sampler_has_the_true_radius_and_a_uniform_direction(case):
    law = CASES[case][1]
    assert stats.kstest(law.radius(draws(case)), law.radius_cdf).pvalue > 1e-3
    z = np.linalg.solve(law.factor, (draws(case) - law.mean).T)
    along = z.T @ np.arange(1.0, law.d + 1) / np.linalg.norm(z, axis=0)
    squared_cosine = along**2 / np.sum(np.arange(1.0, law.d + 1) ** 2)
    assert stats.kstest(squared_cosine, stats.beta(0.5, (law.d - 1) / 2).cdf).pvalue > 1e-3
    assert stats.binomtest(int(np.sum(along > 0)), N).pvalue > 1e-3


@cases(lambda model, law: np.isfinite(law.variance))
def test_sampler_has_the_true_mean_and_covariance(case):
    """Bessel: 2s·LLᵀ; Student: ν/(ν−2)·LLᵀ. Each average lies within five of its own standard errors."""
    law, centred = CASES[case][1], draws(case) - CASES[case][1].mean
    products = np.einsum("ni,nj->nij", centred, centred)
    for found, exact in [(centred, 0), (products, law.covariance)]:
        assert np.all(np.abs(found.mean(0) - exact) < 5 * found.std(0) / np.sqrt(N))


def test_sampler_repeats_itself_and_depends_on_the_key():
    model, _ = CASES["StudentT, matrix"]
    first, again, other = draws("StudentT, matrix"), *(model.sample(jax.random.key(key), N) for key in (7, 8))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


def test_sampler_within_a_transformation_gives_the_same_draws():
    model, _ = CASES["Gaussian, matrix"]
    with jax.enable_x64(True):
        compiled = jax.jit(lambda key: model.sample(key, N))(jax.random.key(7))
    np.testing.assert_allclose(compiled, draws("Gaussian, matrix"), rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------- start


def scale_ratio(model, law):
    """The estimated scale over the true one, coordinate by coordinate; ones for a family without a scale."""
    scale = getattr(model, "scale", np.eye(law.d))
    estimate = scale if np.ndim(scale) == 2 else np.diag(np.broadcast_to(scale, law.d))
    return np.sqrt(np.diag(estimate @ estimate.T) / np.diag(law.factor @ law.factor.T))


@cases()
def test_start_is_close_to_the_truth(case):
    """The median of n draws is within five standard errors, at most 2/√n in units of the true radius's median.

    The scale of normal and Student data is estimated consistently, and known for the others to a factor of two.
    """
    model, law = CASES[case]
    started = model.start(draws(case))
    unit = np.sqrt(np.diag(law.factor @ law.factor.T)) * np.median(law.radius(draws(case)))
    assert np.all(np.abs(started.loc - law.mean) < 5 * 2 / np.sqrt(N) * unit)
    ratio = scale_ratio(started, law)
    assert np.all(np.abs(np.log(ratio)) < (np.log(2) if isinstance(model, SymmetricBessel) else 5 * 2 / np.sqrt(N)))


@cases()
def test_start_resists_a_fifth_of_outliers(case):
    model, law = CASES[case]
    x = draws(case)[:2000].copy()
    x[::5] = 1e6 + np.arange(400.0)[:, None]
    started = model.start(x)
    unit = np.sqrt(np.diag(law.factor @ law.factor.T)) * np.median(law.radius(draws(case)))
    assert np.all(np.abs(started.loc - law.mean) < unit)
    assert np.all(np.abs(np.log(scale_ratio(started, law))) < np.log(2.5))


@pytest.mark.parametrize("model", [SymmetricBessel(0.0, 1.0, 1.0), GeneralisedGamma(0.0, 1.0)], ids=["Bessel", "gamma"])
def test_start_of_a_family_with_a_kink_is_a_median_between_the_data_also_where_these_are_rounded(model):
    """Nine tenths of the data take few values; the outliers, all different, must not count for more than they are."""
    random = np.random.default_rng(0)
    x = np.concatenate([np.round(random.laplace(3.0, 1.0, 900), 1), random.uniform(100, 200, 100)])[:, None]
    loc = model.start(x).loc
    assert np.mean(x < loc) == pytest.approx(0.5, abs=0.05)
    assert not np.any(x == loc)


def test_start_keeps_marks_and_what_is_fixed():
    x = np.random.default_rng(0).normal(5.0, 2.0, (200, 1))
    started = StudentT(ms.fixed(1.0), ms.positive(1.0), ms.positive(5.0)).start(x)
    assert ms.params.names(started) == ("scale", "df")
    np.testing.assert_array_equal(started.loc.value, 1.0)
    np.testing.assert_array_equal(started.df.value, 5.0)
    assert started.scale.value == pytest.approx(2.0, rel=0.3)


@cases()
def test_start_on_constant_data_is_a_proper_model(case):
    model, law = CASES[case]
    started = model.start(np.full((10, law.d), 4.0))
    off = 0.01  # a kinked family keeps off the observations by a hundredth of the scale, which is one here
    np.testing.assert_allclose(started.loc, np.full(np.shape(model.loc), 4.0), atol=1.01 * off)
    assert np.all(scale_ratio(started, law) > 0)


@pytest.mark.parametrize(
    "model",
    [Gaussian(ms.positive(1.0), 1.0), ExponentialFamily(lambda x: x[0], ms.positive(1.0), lambda x: -(x[0] ** 4))],
)
def test_start_keeps_what_a_mark_forbids(model):
    started = model.start(np.array([-3.0, -2.0, -1.0]))
    assert np.all(np.isfinite(ms.params.to_real(started)))


@pytest.mark.parametrize("model", [Gaussian(0.0, 1.0), SymmetricBessel(0.0, 1.0, 1.0), GeneralisedGamma(0.0, 3.0)])
def test_start_reads_a_vector_as_a_column(model):
    """As every discrepancy does."""
    x = np.array([1.0, 2.0, 4.0, 7.0, 11.0])
    assert eqx.tree_equal(model.start(x), model.start(x[:, None]))


# ------------------------------------------------------------------------------------------- observations at the centre

KSD = ms.KSD(ms.kernels.Gaussian(0.5), unbiased=False)


@pytest.mark.parametrize(
    "model",
    [
        Gaussian(0.3, 2.0),
        StudentT(0.3, 2.0, 5.0),
        *(GeneralisedGamma(0.3, power) for power in (1.0, 1.5, 2.0, 2.5, 3.0)),
        *(SymmetricBessel(0.3, 2.0, s) for s in (1.0, 1.3, 1.5, 1.8, 2.0)),
    ],
    ids=repr,
)
def test_score_at_the_centre_is_zero(model):
    """Then k⁰(x, x) = ∂ₓ∂ᵧk(x, x) = 1/ℓ²."""
    assert KSD(model, np.array([0.3])) == pytest.approx(4.0, rel=1e-12)


CURVED = [
    (StudentT(0.3, 2.0, 5.0), densities.student_t(LINE, np.diag([2.0]), 5.0), -(5 + 1) / (5 * 4)),
    (GeneralisedGamma(0.3, 2.0), densities.generalised_gamma(LINE, 2.0), -2.0),
    (GeneralisedGamma(0.3, 2.5), densities.generalised_gamma(LINE, 2.5), 0.0),
    (GeneralisedGamma(0.3, 3.0), densities.generalised_gamma(LINE, 3.0), 0.0),
    (SymmetricBessel(0.3, 2.0, 1.7), densities.symmetric_bessel(LINE, np.diag([2.0]), 1.7), -1 / (2 * 0.2 * 4)),
    (SymmetricBessel(0.3, 2.0, 2.0), densities.symmetric_bessel(LINE, np.diag([2.0]), 2.0), -1 / (2 * 0.5 * 4)),
    (SymmetricBessel(0.3, 2.0, 4.5), densities.symmetric_bessel(LINE, np.diag([2.0]), 4.5), -1 / (2 * 3.0 * 4)),
]
"""Models with their laws, and (log p)″ at the centre, where it exists."""
curved = pytest.mark.parametrize(("model", "law", "curvature"), CURVED, ids=[repr(case[0]) for case in CURVED])


@curved
def test_score_matching_at_the_centre(model, law, curvature):
    """Twice (log p)″."""
    assert ms.SM()(model, np.array([0.3])) == pytest.approx(2 * curvature, rel=1e-12)


@curved
def test_gradient_of_the_ksd_with_an_observation_at_the_centre(model, law, curvature):
    """Of (a² + b² + 2abk + 2(a − b)uk/ℓ² + …)/4 in μ, with scores a = 0 at the centre and b at the distance u = 1."""
    score, slope = law.score_and_laplacian(np.array([1.3]))
    b, db, da, k = score[0], -slope, -curvature, np.exp(-2.0)
    exact = (2 * b * db + 2 * da * b * k + 2 * (da - db) * -4 * k) / 4
    assert ms.value_and_grad(KSD, model, np.array([0.3, 1.3]))[1][0] == pytest.approx(exact, rel=1e-10)


def test_hessian_of_score_matching_of_a_family_with_a_kink():
    """Of the mean of 16z⁶ − 24z², z = x − θ, for p ∝ exp(−z⁴): derivatives of order four in the middle of a vmap."""
    x = np.array([1.0, -2.0, 0.5])
    found = ms.hessian(ms.SM(), GeneralisedGamma(0.0, 4.0), x)
    np.testing.assert_allclose(found, [[np.mean(480 * x**4 - 48)]], rtol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        GeneralisedGamma(0.3, 1.5),
        SymmetricBessel(0.3, 2.0, 1.3),
        GeneralisedGamma([0.3, 0.3], 1.0),
        SymmetricBessel([0.3, 0.3], 2.0, 1.5),
    ],
    ids=repr,
)
def test_infinite_curvature_at_the_centre_is_an_error(model):
    """The score is finite there, but score matching adds Δlog p = −∞; so for e^−r in the plane, not on the line."""
    with pytest.raises(ValueError, match="kink"):
        ms.SM()(model, np.array([1.0, 2.0, 0.3, 4.0])[:, None] * np.ones(np.size(model.loc)))


@pytest.mark.parametrize("discrepancy", [KSD, ms.SM()], ids=["KSD", "SM"])
@pytest.mark.parametrize(
    "model",
    [GeneralisedGamma(0.3, 0.5), SymmetricBessel(0.3, 2.0, 0.6), SymmetricBessel(0.3, 2.0, 0.5)],
    ids=repr,
)
def test_infinite_score_at_the_centre_is_an_error_that_names_the_row(discrepancy, model):
    assert np.isfinite(discrepancy(model, np.array([1.0, 2.0, 0.31, 4.0])))
    with pytest.raises(ValueError, match=r"1 of 4 rows \(row 2\).*singularity or kink"):
        discrepancy(model, np.array([1.0, 2.0, 0.3, 4.0]))


@pytest.mark.parametrize("s", [0.6, 1.0, 2.0])
def test_a_distant_observation_keeps_the_score_of_the_bessel_family(s):
    """|∇log p| tends to 1, so at x = ±10¹² the mean of k⁰ over the four pairs tends to 2(1 + 1/ℓ²)/4."""
    assert KSD(SymmetricBessel(0.0, 1.0, s), np.array([-1e12, 1e12])) == pytest.approx((1 + 4.0) / 2, rel=1e-9)


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("construct", "text"),
    [
        (lambda: Gaussian(0.0, 0.0), "Gaussian: scale must be positive, got 0"),
        (lambda: Gaussian(0.0, -1.0), "Gaussian: scale must be positive, got -1"),
        (lambda: Gaussian(0.0, np.nan), "scale must be positive"),
        (lambda: Gaussian(0.0, ms.fixed(-1.0)), "scale must be positive"),
        (lambda: Gaussian(PLANE, [1.0, -1.0]), "scale must be positive"),
        (lambda: Gaussian(PLANE, ROOT.T), "lower triangular"),
        (lambda: Gaussian(PLANE, -ROOT), "lower triangular with a positive diagonal"),
        (lambda: Gaussian(PLANE, np.diag([np.nan, 1.0])), "lower triangular with a positive diagonal"),
        (lambda: Gaussian(PLANE, ROOT[:1]), "square matrix"),
        (lambda: Gaussian.from_covariance(PLANE, [[1.0, 2.0], [2.0, 1.0]]), "positive.definite"),
        (lambda: Gaussian.from_covariance(PLANE, [[1.0, 0.9], [0.0, 1.0]]), "symmetric"),
        (lambda: StudentT(0.0, -1.0, 5.0), "StudentT: scale must be positive"),
        (lambda: StudentT(0.0, 1.0, 0.0), "StudentT: df must be positive, got 0"),
        (lambda: StudentT(0.0, 1.0, ms.fixed(-2.0)), "StudentT: df must be positive"),
        (lambda: SymmetricBessel(0.0, 1.0, 0.4), "smoothness must be at least d/2 = 0.5, got 0.4"),
        (lambda: SymmetricBessel(SPACE, 1.0, 1.4), "smoothness must be at least d/2 = 1.5"),
        (lambda: SymmetricBessel(PLANE, 1.0, ms.positive(0.9)), "smoothness must be at least d/2 = 1"),
        (lambda: SymmetricBessel(0.0, 1.0, -1.0), "smoothness must be positive"),
        (lambda: GeneralisedGamma(0.0, 0.0), "GeneralisedGamma: power must be positive"),
        (lambda: from_numpyro(dist.Normal, {"loc": 0.0, "scale": -1.0}), "invalid scale parameter"),
    ],
)
def test_constructors_refuse(construct, text):
    with pytest.raises(ValueError, match=text):
        construct()


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Gaussian(0.0, 1.0), r"x has 2 coordinates, but the model's loc has shape \(\).*shape \(2,\)"),
        (StudentT(SPACE, 1.0, 5.0), r"x has 2 coordinates, but the model's loc has shape \(3,\)"),
        (GeneralisedGamma(0.0, 3.0), "x has 2 coordinates"),
        (Gaussian(PLANE, [1.0, 2.0, 3.0]), r"x has 2 coordinates, but the model's scale has shape \(3,\)"),
        (Gaussian(PLANE, np.eye(3)), r"x has 2 coordinates, but the model's scale has shape \(3, 3\)"),
        (
            ExponentialFamily(lambda x: x, [1.0, 2.0, 3.0]),
            r"statistic\(x\) has shape \(2,\), but theta has shape \(3,\)",
        ),
        (ExponentialFamily(lambda x: x[0], [1.0]), r"statistic\(x\) has shape \(\), but theta has shape \(1,\)"),
    ],
    ids=repr,
)
def test_models_refuse_data_of_another_dimension(model, text):
    with pytest.raises(ValueError, match=text):
        ms.SM()(model, np.ones((4, 2)))


def test_from_covariance():
    covariance = np.array([[2.0, -0.6], [-0.6, 0.5]])
    model = Gaussian.from_covariance(PLANE, covariance)
    np.testing.assert_allclose(model.scale @ model.scale.T, covariance, rtol=1e-14)
    assert np.all(np.diag(model.scale) > 0)
    np.testing.assert_array_equal(model.loc, PLANE)


# ------------------------------------------------------------------------------------------------ exponential families


def test_exponential_family_starts_at_its_score_matching_estimate():
    """T = (x₀, x₀², x₀x₁) and b = −x₁²/2 − x₁⁴/4, with ∇T, ΔT and ∇b by hand."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    zero, one = np.zeros(50), np.ones(50)
    gradient = np.array([[one, zero], [2 * x[:, 0], zero], [x[:, 1], x[:, 0]]])
    laplacian = np.array([0.0, 2.0, 0.0])
    base = np.array([zero, -x[:, 1] - x[:, 1] ** 3])
    A = np.einsum("ikn,jkn->ij", gradient, gradient) / 50
    v = laplacian + np.einsum("ikn,kn->i", gradient, base) / 50
    statistic = lambda x: jnp.array([x[0], x[0] ** 2, x[0] * x[1]])
    model = ExponentialFamily(statistic, np.zeros(3), lambda x: -(x[1] ** 2) / 2 - x[1] ** 4 / 4)
    np.testing.assert_allclose(model.start(x).theta, np.linalg.solve(A, -v), rtol=1e-10)


def test_exponential_family_start_recovers_a_gaussian_from_its_moments():
    x = np.random.default_rng(0).normal(3.0, 2.0, (40, 1))
    model = ExponentialFamily(lambda x: jnp.array([x[0], -(x[0] ** 2) / 2]), [0.0, 1.0]).start(x)
    np.testing.assert_allclose(model.theta, [x.mean() / x.var(), 1 / x.var()], rtol=1e-10)


def test_exponential_family_with_one_statistic():
    x = np.array([[1.0], [2.0], [-3.0]])
    model = ExponentialFamily(lambda x: -(x[0] ** 2) / 2, 1.0)
    np.testing.assert_allclose(model.start(x).theta, 3 / 14, rtol=1e-12)
    held = ExponentialFamily(lambda x: -(x[0] ** 2) / 2, ms.fixed(1.0)).start(x)
    np.testing.assert_array_equal(held.theta.value, 1.0)


def test_exponential_family_density():
    model = ExponentialFamily(lambda x: jnp.array([x[0], x[1] ** 3]), [2.0, -0.5], lambda x: -x[0] * x[1])
    assert float(model(jnp.array([3.0, 2.0]))) == 2 * 3 - 0.5 * 8 - 6


@pytest.mark.slow
def test_nuts_draws_have_the_true_moments():
    """Thinned draws of a Gaussian are nearly independent: averages lie within five standard errors."""
    n = 500
    x = ms.models.nuts(Gaussian(PLANE, ROOT), jax.random.key(0), n, init=np.zeros(2))
    assert x.shape == (n, 2)
    centred = x - PLANE
    products = np.einsum("ni,nj->nij", centred, centred)
    for found, exact in [(centred, 0), (products, ROOT @ ROOT.T)]:
        assert np.all(np.abs(found.mean(0) - exact) < 5 * found.std(0) / np.sqrt(n))


@pytest.mark.slow
def test_exponential_family_sampler():
    """p ∝ exp(x − x²): mean 1/2, variance 1/2."""
    n = 500
    model = ExponentialFamily(lambda x: jnp.array([x[0], x[0] ** 2]), [1.0, -1.0])
    x = model.sample(jax.random.key(1), n, init=[0.0])
    assert stats.kstest(x[::2, 0], stats.norm(0.5, np.sqrt(0.5)).cdf).pvalue > 1e-3


# ------------------------------------------------------------------------------------------------------ other libraries


@pytest.mark.parametrize(
    ("distribution", "params", "exact"),
    [
        (dist.StudentT, {"df": 5.0, "loc": 0.4, "scale": 2.0}, stats.t(5.0, 0.4, 2.0)),
        (dist.Gamma, {"concentration": 3.0, "rate": 2.0}, stats.gamma(3.0, scale=0.5)),
        (dist.LogNormal, {"loc": 0.2, "scale": 0.5}, stats.lognorm(0.5, scale=np.exp(0.2))),
    ],
)
def test_from_numpyro_density(distribution, params, exact):
    model = from_numpyro(distribution, params)
    x = np.array([[0.3], [1.0], [2.5]])
    with jax.enable_x64(True):
        log_p = np.array([float(model(jnp.asarray(row))) for row in x])
    np.testing.assert_allclose(log_p - log_p[0], exact.logpdf(x[:, 0]) - exact.logpdf(x[0, 0]), rtol=1e-10, atol=1e-12)


def test_from_numpyro_sampler():
    model = from_numpyro(dist.LogNormal, {"loc": 0.2, "scale": 0.5})
    x = model.sample(jax.random.key(0), N)
    assert stats.kstest(x[:, 0], stats.lognorm(0.5, scale=np.exp(0.2)).cdf).pvalue > 1e-3


def test_from_numpyro_reads_a_batch_as_independent_coordinates():
    model = from_numpyro(dist.Normal, {"loc": PLANE, "scale": np.array([0.5, 2.0])})
    x = np.random.default_rng(0).normal(size=(20, 2))
    assert ms.SM()(model, x) == pytest.approx(ms.SM()(Gaussian(PLANE, [0.5, 2.0]), x), rel=1e-12)
    assert model.sample(jax.random.key(0), 3).shape == (3, 2)


@pytest.mark.parametrize(
    ("distribution", "params", "positive"),
    [
        (dist.StudentT, {"df": 5.0, "loc": 0.0, "scale": 2.0}, {"df", "scale"}),
        (dist.Normal, {"loc": 0, "scale": 1}, {"scale"}),
        (dist.Gamma, {"concentration": 3.0, "rate": 2.0}, {"concentration", "rate"}),
        (dist.Dirichlet, {"concentration": np.ones(3)}, {f"concentration[{i}]" for i in range(3)}),
    ],
)
def test_from_numpyro_leaves_every_parameter_free_and_marks_the_positive(distribution, params, positive):
    model = from_numpyro(distribution, params)
    names = ms.params.names(model)
    assert {name.partition("[")[0] for name in names} == set(params)
    with jax.enable_x64(True):
        moved = ms.params.theta(ms.params.from_real(model, jnp.full(len(names), -1.0)))
    np.testing.assert_allclose(moved, [np.exp(-1) if name in positive else -1 for name in names], rtol=1e-14)


def test_from_numpyro_reads_a_cholesky_factor_as_a_scale():
    model = from_numpyro(dist.MultivariateNormal, {"loc": PLANE, "scale_tril": ROOT})
    triangle = ("scale_tril[0,0]", "scale_tril[1,0]", "scale_tril[1,1]")
    assert ms.params.names(model) == ("loc[0]", "loc[1]", *triangle)


def test_from_numpyro_keeps_a_mark():
    model = from_numpyro(dist.StudentT, {"df": ms.fixed(5.0), "loc": 0.0, "scale": 1.0})
    assert ms.params.names(model) == ("loc", "scale")


@pytest.mark.parametrize(
    ("distribution", "params"),
    [
        (dist.Poisson, {"rate": 3.0}),
        (dist.DiscreteUniform, {"low": 0, "high": 3}),
        (dist.Bernoulli, {"probs": 0.3}),
        (dist.Binomial, {"total_count": 3, "probs": 0.3}),
        (dist.Categorical, {"probs": np.ones(3) / 3}),
    ],
)
def test_from_numpyro_refuses_a_discrete_distribution(distribution, params):
    with pytest.raises(TypeError, match=f"{distribution.__name__}.* is discrete"):
        from_numpyro(distribution, params)


def test_from_log_density_is_the_function():
    model = ms.models.from_log_density(
        lambda p, x: -((x[0] - p["mu"]) ** 2) / (2 * p["sigma"] ** 2), {"mu": 1.0, "sigma": ms.positive(2.0)}
    )
    x = np.array([0.5, 3.0, -1.0])
    assert float(model(jnp.array([5.0]))) == -2.0
    assert ms.SM()(model, x) == pytest.approx(np.mean((x - 1) ** 2) / 16 - 2 / 4, rel=1e-12)
