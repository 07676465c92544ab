"""`fit` against estimates known in closed form, against brute force, and against itself by other routes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize

import minstein as ms
from minstein.solvers import status

RNG = np.random.default_rng(11)
X = 2 + 3 * RNG.standard_normal(100)
T5 = ms.models.StudentT(25.0, 10.0, 5.0)
XT = T5.sample(jax.random.key(1), 100)


def two_moments(x):
    return jnp.array([x[0], -(x[0] ** 2) / 2])


NATURAL = ms.models.ExponentialFamily(two_moments, [0.0, 1.0])


class TestClosedForms:
    def test_score_matching_of_a_gaussian_gives_the_moments(self):
        fit = ms.fit(ms.models.Gaussian(0.0, 1.0), X, ms.SM())
        np.testing.assert_allclose(fit.theta, [X.mean(), X.std()], rtol=1e-8)

    @pytest.mark.slow
    def test_in_several_dimensions(self):
        x = RNG.standard_normal((80, 3)) @ np.array([[2.0, 0, 0], [1, 1, 0], [-1, 0.5, 3]]).T + [1.0, -2.0, 30.0]
        fit = ms.fit(ms.models.Gaussian(np.zeros(3), np.eye(3)), x, ms.SM())
        np.testing.assert_allclose(fit.model.loc, x.mean(0), rtol=1e-8)
        np.testing.assert_allclose(fit.model.scale @ fit.model.scale.T, np.cov(x.T, bias=True), rtol=1e-7)

    def test_diffusion_score_matching_of_a_location(self):
        """θ = (Σm²x − Σ(m²)′)/Σm² for N(θ, 1); the paper prints a plus."""
        fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), X, ms.DSM(lambda x: (1 + x[0] ** 2) ** -0.5))
        weight, slope = 1 / (1 + X**2), -2 * X / (1 + X**2) ** 2
        np.testing.assert_allclose(fit.params["loc"], (weight @ X - slope.sum()) / weight.sum(), rtol=1e-12)
        assert fit.solver == "ClosedForm()"

    @pytest.mark.parametrize("d", [1, 3])
    def test_ksd_of_a_gaussian_location(self, d):
        """θ = Σ_{i≠j} k_ij X_i / Σ_{i≠j} k_ij for the Gaussian kernel."""
        x = 1.5 * RNG.standard_normal((60, d)) + 4
        fit = ms.fit(ms.models.Gaussian(np.zeros(d), ms.fixed(1.5)), x, ms.KSD(ms.kernels.Gaussian(0.8)))
        k = np.exp(-((x[:, None] - x) ** 2).sum(-1) / (2 * 0.8**2)) - np.eye(60)
        np.testing.assert_allclose(fit.theta, (k @ x).sum(0) / k.sum(), rtol=1e-11)

    def test_normal_equations_assembled_by_hand(self):
        """U-statistic of T = (x, −x²/2) with the Gaussian kernel of lengthscale one: φ = (1, −x), b = 0, m = 1."""
        x, D = X / 3, (X[:, None] - X) / 3
        k = np.exp(-(D**2) / 2) - np.eye(len(x))
        phi = np.stack([np.ones_like(x), -x])
        A = phi @ k @ phi.T
        v = 2 * phi @ (k * D).sum(1)  # φ(xᵢ) ∂_{xⱼ}k, and the same with i and j exchanged
        fit = ms.fit(NATURAL, x, ms.KSD(ms.kernels.Gaussian(1.0)))
        np.testing.assert_allclose(fit.theta, -np.linalg.solve(A, v) / 2, rtol=1e-9)
        scaled = A / np.sqrt(np.outer(np.diag(A), np.diag(A)))
        np.testing.assert_allclose(fit.condition, np.linalg.cond(scaled), rtol=1e-6)

    @pytest.mark.parametrize(
        ("model", "discrepancy", "expected"),
        [
            (NATURAL, ms.SM(), True),
            (ms.models.Gaussian(0.0, ms.fixed(1.0)), ms.KSD(ms.kernels.IMQ(1.0)), True),
            (ms.models.Gaussian(0.0, 1.0), ms.SM(), False),
            (ms.models.StudentT(0.0, ms.fixed(1.0), 5.0), ms.SM(), False),
            (ms.models.from_log_density(lambda p, x: -p * jnp.cosh(x[0]), ms.positive(1.0)), ms.SM(), False),
            (ms.models.from_log_density(lambda p, x: -p * jnp.cosh(x[0]), 1.0), ms.SM(), True),
            (NATURAL, ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.decay(2.0)), True),
            (
                NATURAL,
                ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.of_model(lambda m, x: 1 + m.theta[0] ** 2, moving=True)),
                False,
            ),
        ],
    )
    def test_detection(self, model, discrepancy, expected):
        assert discrepancy.is_quadratic(model, 1) is expected

    def test_numpy_indices_in_a_model_can_be_used_twice(self):
        """JAX takes such indices from a cache that forgets whether 64-bit mode was on."""
        rows = np.array([1, 0])
        model = ms.models.ExponentialFamily(lambda x: -(x[rows] ** 2) / 2, np.ones(2))
        x = np.random.default_rng(0).normal(size=(50, 2))
        for _ in range(2):
            fit = ms.fit(model, x, ms.SM())
        np.testing.assert_allclose(fit.theta, 1 / (x**2).mean(0)[rows], rtol=1e-9)


CONVEX = ms.KSD(ms.kernels.IMQ(2.0), unbiased=False)


@pytest.fixture(scope="module")
def closed():
    return ms.fit(NATURAL, X, CONVEX)


class TestSolversAgree:
    @pytest.mark.parametrize(
        "solver",
        [
            ms.GaussNewton(),
            *(pytest.param(solver, marks=pytest.mark.slow) for solver in (ms.LBFGS(), ms.DirectSearch())),
        ],
        ids=lambda s: type(s).__name__,
    )
    def test_deterministic(self, closed, solver):
        fit = ms.fit(NATURAL, X, CONVEX, solver=solver)
        assert fit.converged
        np.testing.assert_allclose(fit.theta, closed.theta, rtol=1e-5)
        np.testing.assert_allclose(fit.cov, closed.cov, rtol=1e-4)

    @pytest.mark.slow
    def test_stochastic(self, closed):
        solver = ms.SGD(optax.adam(0.02), steps=3000, batch=25, average=0.5)
        fit = ms.fit(NATURAL, X, CONVEX, solver=solver, key=jax.random.key(0))
        assert fit.converged
        np.testing.assert_array_less(np.abs(fit.theta - closed.theta), solver.slack * np.sqrt(np.diag(closed.cov)))


class TestSearch:
    """From starts off by 100 scales in location and 100 times in scale, the minimum that brute force finds."""

    @pytest.mark.parametrize(
        ("truth", "start", "box"),
        [
            pytest.param(T5, ms.models.StudentT(1025.0, 1000.0, 5.0), [(15, 35), (5, 20)], marks=pytest.mark.slow),
            (T5, ms.models.StudentT(-975.0, 0.1, 5.0), [(15, 35), (5, 20)]),
            pytest.param(
                ms.models.SymmetricBessel(0.0, 1.0, 2.0),
                ms.models.SymmetricBessel(100.0, 100.0, 2.0),
                [(-1, 1), (0.4, 2)],
                marks=pytest.mark.slow,
            ),
            pytest.param(
                ms.models.GeneralisedGamma(0.0, 4.0),
                ms.models.GeneralisedGamma(100.0, ms.positive(2.0)),
                [(-0.5, 0.5), (2, 9)],
                marks=pytest.mark.slow,
            ),
        ],
        ids=["t, wide", "t, narrow", "Bessel", "generalised gamma"],
    )
    def test_brute_force(self, truth, start, box):
        x = truth.sample(jax.random.key(2), 100)
        fit = ms.fit(start, x)
        loss = lambda vector: float(fit.discrepancy(ms.params.with_theta(start, np.asarray(vector)), x))
        best, value, *_ = optimize.brute(loss, box, Ns=12, full_output=True)
        np.testing.assert_allclose(fit.theta, best, rtol=1e-3, atol=1e-3)
        assert fit.loss <= value + 1e-9

    @pytest.mark.slow
    def test_mean_and_covariance_in_five_dimensions(self):
        """The optimum of another optimiser, started at the truth."""
        L = np.tril(RNG.standard_normal((5, 5)) / 2, -1) + np.diag([1.0, 2.0, 0.5, 1.0, 3.0])
        truth = ms.models.Gaussian(np.arange(5.0), L)
        x = truth.sample(jax.random.key(3), 200)
        fit = ms.fit(ms.models.Gaussian(np.full(5, 100.0), 100 * np.eye(5)), x)
        evaluate = lambda eta: ms.value_and_grad(fit.discrepancy, ms.params.with_theta(truth, eta), x)
        other = optimize.minimize(evaluate, ms.params.theta(truth), jac=True, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(fit.theta, other.x, rtol=1e-4, atol=1e-5)

    @pytest.mark.slow
    def test_a_plain_function_has_only_its_own_start(self):
        log_p = lambda p, x: -3 * jnp.log1p(jnp.sum((x - p["loc"]) ** 2) / p["scale"] ** 2 / 5)
        model = ms.models.from_log_density(log_p, {"loc": 1025.0, "scale": ms.positive(1000.0)})
        np.testing.assert_allclose(ms.fit(model, XT).theta, ms.fit(T5, XT).theta, rtol=1e-6)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::minstein.MinimumWarning", "ignore::minstein.BoundaryWarning")  # a bad fit
    def test_random_starts_find_the_deeper_of_two_minima(self):
        """A double well whose right one is deeper; both starts are in the left."""
        log_p = lambda p, x: -((x[0] - p) ** 2) * 4 + jnp.log1p(jnp.exp(8 * (x[0] - p)) * 0.02)
        x = RNG.standard_normal(100) * 0.3 + 3
        model = ms.models.from_log_density(log_p, -1.0)
        ksd = ms.KSD(ms.kernels.IMQ(0.5), unbiased=False)
        alone = ms.fit(model, x, ksd, throw=False)
        many = ms.fit(model, x, ksd, solver=ms.GaussNewton(starts=10), key=jax.random.key(0))
        grid = np.linspace(-2, 6, 801)
        losses = [float(ksd(ms.models.from_log_density(log_p, at), x)) for at in grid]
        assert many.loss <= min(losses) + 1e-9
        assert many.loss <= alone.loss + 1e-12
        np.testing.assert_allclose(many.theta, grid[np.argmin(losses)], atol=0.02)

    @pytest.mark.slow
    def test_a_laplace_location_by_direct_search(self):
        """The loss is a step function of the location: no derivative leads to its minimum."""
        laplace = lambda p, x: -jnp.abs(x[0] - p)
        x = np.random.default_rng(0).laplace(size=100)
        ksd = ms.KSD(ms.kernels.Gaussian(1.0), unbiased=False)
        solver = ms.DirectSearch(starts=20)
        fit = ms.fit(ms.models.from_log_density(laplace, 0.5), x, ksd, solver=solver, key=jax.random.key(0))
        middles = np.sort(x)[:-1] + np.diff(np.sort(x)) / 2
        losses = [float(ksd(ms.models.from_log_density(laplace, at), x)) for at in middles]
        assert fit.loss <= min(losses) + 1e-12
        assert np.isnan(fit.bse["theta"])
        assert "std. error" not in repr(fit)
        curved = ms.models.SymmetricBessel(0.05, ms.fixed(1.0), 1.0)  # the same, with a Hessian that misses the kinks
        assert np.isnan(ms.fit(curved, x, solver=ms.DirectSearch()).bse["loc"])


class TestFailure:
    @pytest.mark.slow
    def test_a_diffusion_that_moves_runs_to_the_boundary(self):
        """E19: m → 0 as the scale grows, and the loss with it."""
        m = lambda model, x: (x[0] - 25) / model.scale * (1 + ((x[0] - 25) / model.scale) ** 2 / 5)
        dksd = ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.of_model(m, moving=True), unbiased=False)
        with pytest.raises(ms.NotConverged, match="drop moving=True") as error:
            ms.fit(ms.models.StudentT(ms.fixed(25.0), 10.0, 5.0), XT, dksd)
        assert error.value.fit.status == status.RUNAWAY
        assert np.isnan(error.value.fit.bse["scale"])

    def test_score_matching_of_a_laplace_location_is_flat(self):
        laplace = ms.models.from_log_density(lambda p, x: -jnp.abs(x[0] - p), 0.5)
        with pytest.raises(ms.SingularInformation, match=r"use KSD.*DirectSearch"):
            ms.fit(laplace, X, ms.SM())
        fit = ms.fit(laplace, X, ms.SM(), throw=False)
        assert not fit.converged
        assert fit.params["theta"] == 0.5
        assert "std. error" not in repr(fit)

    def test_the_scale_of_a_laplace_by_score_matching_runs_away(self):
        laplace = ms.models.from_log_density(lambda p, x: -jnp.abs(x[0]) / p, ms.positive(1.0))
        fit = ms.fit(laplace, X, ms.SM(), throw=False)
        assert fit.status == status.RUNAWAY

    @pytest.mark.slow
    def test_parameters_that_cannot_be_separated(self):
        model = ms.models.from_log_density(lambda p, x: -((x[0] - p["a"] - p["b"]) ** 2), {"a": 0.0, "b": 1.0})
        with pytest.raises(ms.SingularInformation, match=r"ms\.fixed"):
            ms.fit(model, X, ms.KSD(ms.kernels.IMQ(1.0), unbiased=False))
        tanh = ms.models.from_log_density(lambda p, x: -jnp.cosh(x[0] / 5 - p["a"] - p["b"]), {"a": 0.0, "b": 1.0})
        assert ms.fit(tanh, X, throw=False).status == status.SINGULAR

    def test_the_iteration_limit(self):
        with pytest.raises(ms.NotConverged, match=r"max_steps=1000.*throw=False") as error:
            ms.fit(ms.models.StudentT(100.0, 1.0, 5.0), XT, solver=ms.GaussNewton(max_steps=1))
        assert error.value.fit.steps == 1
        assert "std. error" not in repr(error.value.fit)

    def test_a_start_at_which_the_loss_is_not_finite(self):
        model = ms.models.from_log_density(lambda p, x: p * jnp.sqrt(x[0]) - x[0], 1.0)
        with pytest.raises(ValueError, match="outside the support"):
            ms.fit(model, X)

    @pytest.mark.slow
    def test_a_nan_on_the_way_is_stepped_back_from(self):
        """log p is finite only for θ < 5; the first step would overshoot."""
        model = ms.models.from_log_density(lambda p, x: -((x[0] - p) ** 2) / 2 + 0 * jnp.log(5 - p) * x[0], 4.9)
        fit = ms.fit(model, X / 3, ms.SM(), solver=ms.GaussNewton())
        np.testing.assert_allclose(fit.theta, [np.mean(X / 3)], rtol=1e-6)

    @pytest.mark.parametrize("solver", [ms.SGD(), ms.RiemannianSGD(), ms.GaussNewton(starts=3)])
    def test_a_key_is_needed(self, solver):
        with pytest.raises(ValueError, match=r"key=jax\.random\.key\(0\)"):
            ms.fit(T5, XT, solver=solver)

    def test_no_parameters(self):
        with pytest.raises(ValueError, match="no free parameters"):
            ms.fit(ms.models.Gaussian(ms.fixed(0.0), ms.fixed(1.0)), X)

    def test_too_many_parameters_for_a_covariance(self):
        net = eqx.nn.MLP(1, "scalar", 32, 2, key=jax.random.key(0))
        with pytest.raises(ValueError, match="covariance=False"):
            ms.fit(net, X)


class TestStatistic:
    def test_a_u_statistic_that_is_not_convex_gives_way(self):
        """E11: five parameters and n = 50, the printed −½A⁻¹v is a saddle."""
        powers = lambda x: jnp.stack([x[0] ** k / (1.0, 1, 2, 6, 24, 120)[k] for k in range(1, 6)])
        model = ms.models.ExponentialFamily(powers, np.zeros(5))
        x, kernel = RNG.standard_normal(50), ms.kernels.Gaussian(1.0)
        A = ms.quadratic(ms.KSD(kernel), model, x).A
        assert np.linalg.eigvalsh(A)[0] < 0
        with (
            pytest.warns(ms.StatisticWarning, match="V-statistic was minimised instead"),
            pytest.warns(ms.BoundaryWarning, match="is not a density"),  # one power of five is odd
        ):
            fit = ms.fit(model, x, ms.KSD(kernel))
        as_v = ms.quadratic(ms.KSD(kernel, unbiased=False), model, x)
        np.testing.assert_allclose(fit.theta, -np.linalg.solve(as_v.A, as_v.v) / 2, rtol=1e-6)
        assert not fit.discrepancy.unbiased
        assert "V-statistic" in repr(fit)
        assert any("not convex" in note for note in fit.notes)

    def test_ksd_by_name(self):
        """KSD as a V-statistic of the standardised data, with the median of their distances as c."""
        fit = ms.fit(T5, XT, "ksd")
        assert not fit.discrepancy.unbiased
        deviation = 1.4826 * np.median(np.abs(XT - np.median(XT)))
        z = XT[:, 0] / deviation
        c = np.median(np.abs(z[:, None] - z)[np.triu_indices(len(z), 1)])
        scaled = ms.fit(T5, z, ms.KSD(ms.kernels.IMQ(c), unbiased=False))
        np.testing.assert_allclose(fit.theta, deviation * scaled.theta, rtol=1e-7)
        np.testing.assert_allclose(fit.loss, scaled.loss, rtol=1e-7)

    def test_units_of_measurement_do_not_matter(self):
        fit, other = ms.fit(T5, XT), ms.fit(T5, 1e-6 * XT + 3)
        np.testing.assert_allclose(other.theta, 1e-6 * fit.theta + [3, 0], rtol=1e-8)
        np.testing.assert_allclose(other.cov, 1e-12 * fit.cov, rtol=1e-5)

    def test_one_observation_repeated(self):
        with pytest.raises(ValueError, match="column 0 is 3 in all 20 rows"):
            ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.full(20, 3.0))


def growing(model, x):
    return 1 + ((x[0] - model.loc) / model.scale) ** 2 / 5


class TestHeldDiffusion:
    KERNEL = ms.kernels.IMQ(10.0)

    @pytest.mark.slow
    def test_held_at_a_pilot_fit_by_ksd(self):
        fit = ms.fit(T5, XT, ms.DKSD(self.KERNEL, ms.diffusions.of_model(growing)))
        pilot = ms.fit(T5, XT, "ksd")
        by_hand = ms.fit(T5, XT, ms.DKSD(self.KERNEL, lambda x: growing(pilot.model, x)))
        np.testing.assert_allclose(fit.theta, by_hand.theta, rtol=1e-7)
        assert any("held at a pilot fit: loc = " in note for note in fit.notes)

    @pytest.mark.slow
    def test_a_pilot_that_fails(self):
        laplace = ms.models.from_log_density(lambda p, x: -jnp.abs(x[0] - p), 0.5)
        dksd = ms.DKSD(self.KERNEL, ms.diffusions.of_model(lambda model, x: 1 + (x[0] - model.params) ** 2))
        with pytest.raises(ms.NotConverged, match="pilot fit by KSD, but that fit failed"):
            ms.fit(laplace, X, dksd)
        fit = ms.fit(laplace, X, dksd, throw=False)
        assert fit.status == status.SINGULAR
        assert np.isnan(fit.cov).all()


class TestReplications:
    @pytest.mark.slow
    def test_vmap(self):
        samples = np.stack([T5.sample(key, 100) for key in jax.random.split(jax.random.key(4), 4)])
        samples[2] = np.nan  # a replication that went wrong
        with jax.enable_x64(True):
            fits = jax.jit(jax.vmap(lambda x: ms.fit(T5, x, throw=False)))(jnp.asarray(samples))
            fits = jax.tree.map(np.asarray, fits)
        assert fits.converged.tolist() == [True, True, False, True]
        assert np.isnan(fits.bse["loc"][2])
        for i in (0, 3):
            alone = ms.fit(T5, samples[i])
            np.testing.assert_allclose(fits.theta[i], alone.theta, rtol=1e-7)
            np.testing.assert_allclose(fits.cov[i], alone.cov, rtol=1e-6)
        assert repr(fits).startswith("<4 fits of loc, scale to n = 100. 3: The fit converged.")

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::minstein.BoundaryWarning")  # the highest power is odd, so no density
    def test_a_u_statistic_gives_way_in_a_map(self):
        powers = lambda x: jnp.stack([x[0] ** k / (1.0, 1, 2, 6, 24, 120)[k] for k in range(1, 6)])
        model = ms.models.ExponentialFamily(powers, np.zeros(5))
        x, ksd = RNG.standard_normal((2, 50)), ms.KSD(ms.kernels.Gaussian(1.0))
        with jax.enable_x64(True):
            fits = jax.lax.map(lambda x: ms.fit(model, x, ksd, throw=False, covariance=False), jnp.asarray(x))
            theta = np.asarray(fits.theta)
            assert np.asarray(fits.as_v).all()
        with pytest.warns(ms.StatisticWarning):
            alone = ms.fit(model, x[1], ksd)
        np.testing.assert_allclose(theta[1], alone.theta, rtol=1e-6)


class TestResult:
    def test_it_prints_itself(self):
        text = repr(ms.fit(T5, XT))
        assert "StudentT, 100 observations" in text
        assert "std. error" in text
        assert "GaussNewton" in text
        assert "The fit converged." in text

    def test_it_holds_no_data(self):
        sizes = [np.size(leaf) for leaf in jax.tree.leaves(ms.fit(T5, XT))]
        assert max(sizes) < 100

    def test_a_second_fit_is_not_compiled_again(self):
        count = []

        def log_p(p, x):
            count.append(1)
            return -((x[0] - p["a"]) ** 2) / p["s"] ** 2

        model = lambda a: ms.models.from_log_density(log_p, {"a": a, "s": ms.positive(1.0)})
        ms.fit(model(0.0), X)
        before = len(count)
        ms.fit(model(1.0), X[:90] + 1)
        assert len(count) - before <= 3  # only what decides about the closed form, which compiles nothing

    @pytest.mark.slow
    def test_single_precision(self):
        fit = ms.fit(T5, XT.astype(np.float32))
        assert fit.converged
        assert fit.loss.dtype == np.float32
        np.testing.assert_allclose(fit.theta, ms.fit(T5, XT).theta, rtol=1e-3)

    def test_progress(self, capsys, monkeypatch):
        monkeypatch.setattr("minstein.solvers.progress._DELAY", 0.0)
        monkeypatch.setattr("minstein.solvers._solver._ROWS_IN_ONE_GO", 0)
        ms.fit(T5, XT, progress=True)
        assert "GaussNewton" in capsys.readouterr().err
        ms.fit(T5, XT, progress=False)
        assert capsys.readouterr().err == ""
