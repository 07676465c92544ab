"""Mistakes that people make, one by one: each gets an error that says what to write, or is understood."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import minstein as ms

RNG = np.random.default_rng(3)
X = np.random.default_rng(0).standard_normal(40)
X2 = np.random.default_rng(1).standard_normal((40, 2))
SPINS = np.sign(X2)
GAUSSIAN = ms.models.Gaussian(0.0, 1.0)
LOCATION = ms.models.Gaussian(0.0, ms.fixed(1.0))
PLANE = ms.models.Gaussian([0.0, 0.0], 1.0)


@pytest.fixture(scope="module")
def fitted():
    return ms.fit(LOCATION, X, ms.SM())


def with_nan(x):
    x = x.copy()
    x[3] = np.nan
    return x


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([[1.0, 2.0], [3.0]], ValueError, "rows have different lengths, 1, 2"),
        (None, TypeError, "x is None"),
        (3.0, ValueError, r"shape \(n, d\) or \(n,\), got \(\)"),
        (3, ValueError, r"got \(\)"),
        ("data.csv", TypeError, "the text 'data.csv'.*read that first"),
        ({"a": 1.0}, TypeError, r"array of shape \(n, d\) or \(n,\), got dict"),
        ([1.0, None], TypeError, "the entry in row 1 is None"),
        (X + 1j, TypeError, r"got complex128.*x\.real"),
        (pd.DataFrame({"a": X, "b": ["q"] * 40}), TypeError, r"'b' do not hold numbers.*select_dtypes\(\"number\"\)"),
        (pd.DataFrame({"a": np.arange(40), "b": np.arange(40)}), TypeError, r"floating point, got int64"),
        (with_nan(X), ValueError, r"row 3\).*with x\[np\.isfinite\(x\)\]\."),
        (with_nan(X2), ValueError, r"with x\[np\.isfinite\(x\)\.all\(axis=1\)\]\."),
        (np.ones(20), ValueError, "column 0 is 1 in all 20 rows"),
        (np.column_stack([X, np.full(40, 3.0)]), ValueError, "column 1 is 3 in all 40 rows.*Leave such columns out"),
        (X[:1], ValueError, "x does not vary: column 0 is .* in the only row"),
        (X[:2], ValueError, r"2 observations and the model 2 parameters.*covariance=False"),
    ],
)
def test_data(x, error, message):
    model = PLANE if getattr(x, "ndim", 1) == 2 else GAUSSIAN
    with pytest.raises(error, match=message):
        ms.fit(model, x, ms.SM())


def test_the_advice_about_nan_runs():
    x = with_nan(X)
    assert ms.fit(LOCATION, x[np.isfinite(x)], ms.SM()).params["loc"] == pytest.approx(np.delete(X, 3).mean())


def test_a_frame_with_a_column_of_integers_is_read():
    frame = pd.DataFrame({"a": X, "b": np.arange(40)})
    separate = ms.models.Gaussian([0.0, 0.0], [1.0, 1.0])
    assert ms.fit(separate, frame, ms.SM(), covariance=False).params["loc[1]"] == pytest.approx(19.5)


def test_two_observations_and_two_parameters_without_standard_errors():
    """Score matching of a normal distribution has mean and standard deviation as its minimum."""
    fit = ms.fit(GAUSSIAN, X[:2], ms.SM(), covariance=False)
    assert fit.converged
    np.testing.assert_allclose(fit.theta, [X[:2].mean(), X[:2].std()], rtol=1e-7)


def _nothing(p, x):
    return None


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda p, x: 1, "got an integer"),
        (lambda p, x: 1j * p * x[0], "got a number .complex"),
        (_nothing, "got None"),
        (lambda p, x: (p, x[0]), "got tuple"),
        (lambda p, x: "likely", "got str"),
        (lambda p, x: p * x, "must return a scalar"),
    ],
)
@pytest.mark.parametrize(("x", "space"), [(X2, ms.spaces.REALS), (SPINS, ms.spaces.SPINS)])
def test_models_that_do_not_return_a_number(fn, message, x, space):
    with pytest.raises((TypeError, ValueError), match=message):
        ms.fit(ms.models.from_log_density(fn, 1.0, space=space), x)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ms.models.Gaussian, "must be an instance, got the class Gaussian"),
        ("gaussian", "got 'gaussian'"),
        (None, "got None"),
        (3.0, "got 3.0"),
    ],
)
def test_what_is_not_a_model(model, message):
    with pytest.raises(TypeError, match=message):
        ms.fit(model, X)


def test_a_plain_function_has_no_parameters():
    with pytest.raises(ValueError, match="from_log_density"):
        ms.fit(lambda x: -(x[0] ** 2), X)


@pytest.mark.parametrize(
    ("name", "discrepancy"),
    [
        ("sm", ms.SM()),
        ("SM", ms.SM()),
        ("efficient", None),
        ("robust", "robust"),
        pytest.param("Efficient", "efficient", marks=pytest.mark.slow),
    ],
)
def test_discrepancies_by_name(name, discrepancy):
    wanted = ms.design(LOCATION, X, discrepancy) if isinstance(discrepancy, str) else discrepancy
    np.testing.assert_array_equal(ms.fit(LOCATION, X, name).theta, ms.fit(LOCATION, X, wanted).theta)


@pytest.mark.parametrize(
    ("names", "discrepancy"),
    [
        (["mpf"], ms.MPF()),
        pytest.param(["dfd"], ms.DFD(), marks=pytest.mark.slow),
        (["pseudo-likelihood", "PseudoLikelihood"], ms.PseudoLikelihood()),
        pytest.param(["discrete_ksd"], ms.DiscreteKSD(), marks=pytest.mark.slow),
    ],
    ids=["mpf", "dfd", "pseudo-likelihood", "discrete_ksd"],
)
def test_discrepancies_of_discrete_models_by_name(names, discrepancy):
    model = ms.models.from_log_density(lambda p, x: p * jnp.sum(x), 0.1, space=ms.spaces.SPINS)
    by_object, *by_name = (ms.fit(model, SPINS, d, covariance=False).theta for d in (discrepancy, *names))
    for found in by_name:
        np.testing.assert_array_equal(found, by_object)


LONGER = [pytest.param(name, marks=pytest.mark.slow) for name in ("lbfgs", "L-BFGS", "direct_search")]


@pytest.mark.parametrize("name", ["gauss-newton", "GaussNewton", "closed form", *LONGER])
def test_solvers_by_name(name):
    fit = ms.fit(LOCATION, X, "sm", solver=name, covariance=False)
    assert fit.params["loc"] == pytest.approx(X.mean(), abs=1e-5)


@pytest.mark.parametrize(
    ("discrepancy", "error", "message"),
    [
        ("sn", ValueError, "'sn' is not a known name. The known names are: ksd, sm, .*efficient, robust"),
        (ms.MPF, TypeError, r"got the class MPF\. Call it: MPF\(\.\.\.\)"),
        (ms.SM, TypeError, r"got the function SM\. Call it"),
        (3.0, TypeError, "got the value 3.0"),
        (ms.kernels.IMQ(1.0), TypeError, r"must be an object such as ms\.SM\(\).*got the value IMQ"),
    ],
)
def test_what_is_not_a_discrepancy(discrepancy, error, message):
    with pytest.raises(error, match=message):
        ms.fit(GAUSSIAN, X, discrepancy)


@pytest.mark.parametrize(
    ("solver", "error", "message"),
    [
        ("newton", ValueError, "'newton' is not a known name. The known names are: gauss-newton, lbfgs"),
        (ms.LBFGS, TypeError, r"got the class LBFGS\. Call it"),
        (3, TypeError, "got the value 3"),
    ],
)
def test_what_is_not_a_solver(fitted, solver, error, message):
    with pytest.raises(error, match=message):
        ms.fit(GAUSSIAN, X, ms.SM(), solver=solver)
    with pytest.raises(error, match=message):
        ms.bootstrap(fitted, X, 0, solver=solver)


class TestIntegersAsKeys:
    KEY = jax.random.key(7)

    def test_fit(self):
        solver = ms.SGD(steps=5, batch=10)
        fits = [ms.fit(LOCATION, X, ms.SM(), solver=solver, key=key, throw=False) for key in (7, self.KEY)]
        np.testing.assert_array_equal(fits[0].theta, fits[1].theta)

    def test_bootstrap(self, fitted):
        found = [ms.bootstrap(fitted, X, key, replications=4).theta for key in (np.int64(7), self.KEY)]
        np.testing.assert_array_equal(found[0], found[1])

    def test_influence(self, fitted):
        found = [ms.influence(fitted, None, X[:3], key=key, draws=50) for key in (7, self.KEY)]
        np.testing.assert_array_equal(found[0], found[1])

    def test_discrepancies(self):
        model = ms.models.from_log_density(lambda p, x: p * jnp.sum(x), 0.1, space=ms.spaces.SPINS)
        cd = ms.CD(ms.markov.Gibbs())
        assert cd(model, SPINS, key=7) == cd(model, SPINS, key=self.KEY)
        sliced = [ms.SM(divergence=ms.Sliced(key))(PLANE, X2) for key in (7, self.KEY)]
        assert sliced[0] == sliced[1]

    def test_draws(self):
        np.testing.assert_array_equal(GAUSSIAN.sample(7, 3), GAUSSIAN.sample(self.KEY, 3))

    def test_a_seed_of_more_than_64_bits(self):
        with pytest.raises(ValueError, match="must fit into 64 bits"):
            ms.fit(GAUSSIAN, X, ms.SM(), key=2**70)

    @pytest.mark.parametrize("key", ["seed", 1.5, True])
    def test_what_is_not_a_key(self, key):
        with pytest.raises(TypeError, match=r"an integer or a JAX key, such as jax\.random\.key\(0\)"):
            ms.fit(GAUSSIAN, X, ms.SM(), key=key)


def test_levels_of_intervals(fitted):
    boot = ms.bootstrap(fitted, X, 0, replications=4)
    for call in (fitted.conf_int, fitted.summary, boot.conf_int):
        with pytest.raises(TypeError, match=r"a number between 0 and 1, such as 0\.05.*got 'loc'"):
            call("loc")
        with pytest.raises(ValueError, match="between 0 and 1, got 95"):
            call(95)


class TestConstantsInSinglePrecision:
    ROUNDED = jnp.array([0.1, 0.25])

    def fit(self, model):
        return ms.fit(model, X, ms.SM(), covariance=False)

    @pytest.mark.slow
    def test_a_function_that_refers_to_one(self):
        for at in (lambda x: x[0] - self.ROUNDED[0], jax.jit(lambda x: x[0] - self.ROUNDED[0])):
            model = ms.models.from_log_density(lambda p, x, at=at: -p * at(x) ** 2, ms.positive(1.0))
            with pytest.warns(ms.PrecisionWarning, match=r"array of shape \(2,\).*is float32.*np\.array instead"):
                self.fit(model)

    def test_a_model_that_holds_one(self):
        with pytest.warns(ms.PrecisionWarning, match="the model's loc is float32"):
            self.fit(ms.models.Gaussian(ms.fixed(self.ROUNDED[0]), 1.0))

    def test_no_warning_where_nothing_is_lost(self):
        """Numbers that single precision has exactly, starts, and float32 data."""
        self.fit(ms.models.Gaussian(ms.fixed(jnp.array(0.25)), 1.0))
        self.fit(ms.models.Gaussian(self.ROUNDED[0], ms.fixed(1.0)))
        ms.fit(ms.models.Gaussian(ms.fixed(self.ROUNDED[0]), 1.0), X.astype(np.float32), ms.SM(), covariance=False)
