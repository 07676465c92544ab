"""A fit that says it converged is at the lowest minimum, with standard errors to be trusted, or warns.

Expected values are from brute force: the Stein kernel written out, and a grid over the parameters.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.solvers import status

SPINS = np.array(list(itertools.product([-1, 1], repeat=3)))
FREE = ms.models.Ising(ms.fixed([0.0, 0.0, 0.0]), 0.3)


def spins(seed, coupling=1.2, n=64):
    """Draws of three coupled spins, by enumeration."""
    energy = coupling * sum(SPINS[:, i] * SPINS[:, j] for i, j in itertools.combinations(range(3), 2))
    p = np.exp(energy - energy.max())
    return SPINS[np.random.default_rng(seed).choice(8, n, p=p / p.sum())]


def discrete_ksd(x, coupling, *, unbiased):
    """Yang et al. (2018) with the kernel exp(−Hamming/3), from the definition."""
    k = lambda a, b: np.exp(-(a[:, None] != b[None]).sum(2) / 3)
    s = 1 - np.exp(-2 * coupling * x * (x.sum(1, keepdims=True) - x))
    total = np.zeros((len(x), len(x)))
    for i in range(3):
        y = x * np.where(np.arange(3) == i, -1, 1)
        here, left, right, both = k(x, x), k(y, x), k(x, y), k(y, y)
        total += here * np.outer(s[:, i], s[:, i]) - s[:, i][:, None] * (here - right) - s[:, i] * (here - left)
        total += here - left - right + both
    return (total.sum() - np.trace(total)) / (len(x) * (len(x) - 1)) if unbiased else total.mean()


class TestTheWinnerAmongStarts:
    def test_the_v_statistic_of_spins_is_minimised_with_its_diagonal(self):
        """The loss and its minimum on a grid; rare states make two minima, and one says so."""
        x = spins(8)
        with pytest.warns(ms.MinimumWarning, match="cannot tell"):
            fit = ms.fit(FREE, x, ms.DiscreteKSD(unbiased=False))
        at = fit.params["coupling"]
        np.testing.assert_allclose(fit.loss, discrete_ksd(x, at, unbiased=False), rtol=1e-10)
        grid = np.linspace(-0.5, 2.5, 301)
        losses = [discrete_ksd(x, coupling, unbiased=False) for coupling in grid]
        np.testing.assert_allclose(at, grid[np.argmin(losses)], atol=0.01)
        assert np.isnan(fit.bse["coupling"])

    @pytest.mark.slow
    def test_a_start_that_went_lower_without_an_end_is_not_overlooked(self):
        """The U-statistic has a minimum at 0.036 with loss 0.48 and falls below −300,000 at 4: it has no lowest."""
        x = spins(8)
        assert discrete_ksd(x, 4.0, unbiased=True) < -3e5
        with pytest.warns(ms.StatisticWarning), pytest.warns(ms.MinimumWarning):
            fit = ms.fit(FREE, x, ms.DiscreteKSD())
        assert fit.as_v

    def test_spins_that_always_agree_say_nothing_about_their_coupling(self):
        x = spins(0)
        assert (np.abs(x.sum(1)) == 3).all()
        with pytest.warns(ms.MinimumWarning, match="no minimum on these data"):
            ms.fit(FREE, x, ms.DiscreteKSD())

    def test_a_loss_without_a_minimum_is_called_that(self):
        """A saturated model and a state that was not observed: its ratio is sent to infinity."""
        x = np.repeat([[0, 0], [0, 1], [1, 0]], 10, axis=0)
        with pytest.raises(ms.NotConverged, match=r"no minimum.*discrete model") as error:
            ms.fit(ms.models.BoltzmannMachine([0.0, 0.0], 0.0), x, ms.DFD())
        assert error.value.fit.status == status.RUNAWAY


def _laplace_log_p(p, x):  # one function, compiled once for all samples of a size
    return -jnp.abs(x[0] - p["loc"]) / p["scale"]


def laplace(loc, scale):
    return ms.models.from_log_density(_laplace_log_p, {"loc": loc, "scale": scale})


def laplace_losses(x, c):
    """The KSD of a Laplace distribution with the kernel 1/√(c² + r²), in every gap and at the best scale there.

    The score is σ/s with σ the sign, so that the loss is a/s² + b/s + const.
    """
    r = x[:, None] - x
    q = c**2 + r**2
    k, dk, ddk = q**-0.5, -r * q**-1.5, q**-1.5 - 3 * r**2 * q**-2.5  # ∂ₓk and ∂ₓ∂ᵧk
    gaps = np.sort(x)
    found = []
    for loc in np.concatenate([[gaps[0] - 1], gaps[:-1] + np.diff(gaps) / 2, [gaps[-1] + 1]]):
        sign = -np.sign(x - loc)
        found.append((np.mean(k * np.outer(sign, sign)), np.mean(2 * dk * sign), np.mean(ddk)))
    return np.array(found).T


class TestDirectSearch:
    def test_a_laplace_location_far_from_the_start(self):
        """Between observations the loss is flat, and where no observation is, it is flat for ever."""
        x = 20 + np.random.default_rng(0).laplace(size=60)
        ksd = ms.KSD(ms.kernels.IMQ(1.0), unbiased=False)
        fit = ms.fit(laplace(0.5, ms.fixed(1.0)), x, ksd, solver=ms.DirectSearch())
        a, b, c = laplace_losses(x, 1.0)
        np.testing.assert_allclose(fit.loss, np.min(a + b + c), rtol=1e-10)
        assert abs(fit.params["loc"] - 20) < 1
        assert np.isnan(fit.bse["loc"])


def _with_density(power, seed, n):
    """Draws of exp(−|x|^power)."""
    rng = np.random.default_rng(seed)
    return (rng.gamma(1 / power, size=(n, 1)) ** (1 / power)) * rng.choice([-1, 1], (n, 1))


class TestKinks:
    """A cusp makes the Hessian at the minimum an accident: where a closer look is impossible, no errors are given."""

    KSD = ms.KSD(ms.kernels.IMQ(1.0), unbiased=False)

    def test_rows_on_disk(self, tmp_path):
        np.save(tmp_path / "x.npy", _with_density(1.2, 6, 500))
        fit = ms.fit(ms.models.GeneralisedGamma(0.1, 1.2), ms.OnDisk(tmp_path / "x.npy"), self.KSD)
        assert fit.converged
        assert np.isnan(fit.bse["loc"])

    def test_replications(self):
        x = np.stack([_with_density(1.2, seed, 200) for seed in range(4)])
        with jax.enable_x64(True):
            fits = jax.jit(jax.vmap(lambda x: ms.fit(ms.models.GeneralisedGamma(0.1, 1.2), x, self.KSD)))(x)
        assert (np.asarray(fits.status) == status.CONVERGED).all()
        assert np.isnan(np.asarray(fits.cov)).all()

    def test_a_loss_that_is_smooth_but_far_from_quadratic_keeps_its_errors(self):
        """Score matching of a scale rises by 30 % more than its Hessian says, over a standard error of ten draws."""
        x = np.random.default_rng(0).standard_normal((10, 1))
        one = lambda x: ms.fit(ms.models.Gaussian(0.1, 1.0), x, ms.SM(), solver=ms.GaussNewton())
        with jax.enable_x64(True):
            traced = jax.jit(one)(x)
        np.testing.assert_allclose(np.asarray(traced.cov), one(x).cov, rtol=1e-6)


class TestSeveralMinima:
    def test_the_deeper_of_two_clusters(self):
        """A t-distribution of scale 1 on clusters at ±6: the median is a minimum too, and a bad one."""
        rng = np.random.default_rng(0)
        x = np.concatenate([rng.standard_t(3, 100) - 6, rng.standard_t(3, 100) + 6])
        with pytest.warns(ms.MinimumWarning, match="cannot tell"):
            fit = ms.fit(ms.models.StudentT(0.0, ms.fixed(1.0), 3.0), x)
        at = lambda loc: float(fit.discrepancy(ms.models.StudentT(loc, ms.fixed(1.0), 3.0), x))
        assert fit.loss <= min(at(loc) for loc in np.linspace(-9, 9, 73)) + 1e-9
        assert np.isnan(fit.bse["loc"])
        assert any("starts ended in another minimum, with a higher loss" in note for note in fit.notes)

    @pytest.mark.slow
    def test_components_of_a_mixture_that_were_exchanged(self):
        rng = np.random.default_rng(0)
        x = np.where(rng.random(200) < 0.3, rng.normal(-5, 1, 200), rng.normal(5, 3, 200))

        def log_p(p, x):
            narrow, wide = -((x[0] - p["a"]) ** 2) / 2, -(((x[0] - p["b"]) / 3) ** 2) / 2
            return jnp.logaddexp(jnp.log(0.3) + narrow, jnp.log(0.7 / 3) + wide)

        fit = ms.fit(ms.models.from_log_density(log_p, {"a": 5.0, "b": -5.0}), x)
        np.testing.assert_allclose(fit.theta, [-5, 5], atol=1)

    @pytest.mark.slow
    def test_a_minimum_at_every_observation(self):
        """Observations a million scales apart: the loss has a minimum near each of them, and any may be the lowest."""
        x = 1e6 * np.random.default_rng(3).standard_normal(40)
        with pytest.warns(ms.MinimumWarning, match=r"a minimum of their own|cannot tell which"):
            ms.fit(ms.models.StudentT(0.0, ms.fixed(1.0), 3.0), x)

    @pytest.mark.slow
    def test_a_start_of_a_family_that_runs_away_does_not_decide(self):
        """Score matching falls without an end as a narrow density meets one observation; the minimum is elsewhere."""
        x = 100 * np.random.default_rng(2).standard_t(5, 1000)
        fit = ms.fit(ms.models.StudentT(0.0, 1.0, ms.positive(5.0)), x, ms.SM())
        nearby = [
            ms.SM()(ms.params.with_theta(fit.model, fit.theta * (1 + step)), x)
            for step in 0.05 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]])
        ]
        assert fit.loss < min(nearby)
        assert any("falls without an end" in note for note in fit.notes)

    def test_the_design_is_the_same_for_the_same_data_and_moves_with_them(self):
        from minstein.solvers.starts import design

        x = np.random.default_rng(0).standard_normal((50, 2))
        model = ms.models.Gaussian([0.0, 0.0], 1.0)
        first, again = (design(model, x, np.zeros((1, 3)), 1) for _ in range(2))
        moved = design(model, x + np.array([3.0, -7.0]), np.zeros((1, 3)), 1)
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(moved.placed[:, :2], first.placed[:, :2] + [3, -7], rtol=1e-12)
        np.testing.assert_array_equal(moved.placed[:, 2], first.placed[:, 2])


class TestStochastic:
    @pytest.mark.slow
    def test_a_descent_ends_in_the_minimum_or_does_not_say_so(self):
        x = ms.models.StudentT(2.0, 1.0, 5.0).sample(jax.random.key(0), 200)
        ksd, model = ms.KSD(ms.kernels.IMQ(1.0)), ms.models.StudentT(0.0, 1.0, 5.0)
        solver = ms.RiemannianSGD(0.1, steps=200, batch=100)
        fit, exact = ms.fit(model, x, ksd, solver=solver, key=jax.random.key(0)), ms.fit(model, x, ksd)
        assert fit.converged
        np.testing.assert_array_less(np.abs(fit.theta - exact.theta), 0.02 * np.array(list(exact.bse.values())))

    @pytest.mark.slow
    def test_contrastive_divergence_that_runs_away(self):
        """Fields and couplings of spins that agree in all but one draw: the walk jumps to 10⁴ and stays there."""
        x = spins(4, 2.0, 60)
        model = ms.models.Ising([0.0, 0.0, 0.0], [0.3, 0.3, 0.3])
        fit = ms.fit(model, x, ms.CD(ms.markov.Gibbs(), 1), key=jax.random.key(4), throw=False)
        assert not fit.converged
        assert np.abs(fit.theta).max() > 0


class TestNeighbours:
    def test_a_neighbour_that_is_listed_twice_from_one_side(self):
        """On 0 – 1 – 2, with 1 twice among the neighbours of the ends: not the flow of a uniform distribution."""
        lopsided = lambda x: jnp.where(x == 1, jnp.array([[0.0], [2.0]]), jnp.array([[1.0], [1.0]]))
        model = ms.models.from_log_density(lambda p, x: p * x[0], 0.0, space=ms.spaces.Finite((0, 1, 2)))
        with pytest.raises(ValueError, match="more often"):
            ms.fit(model, np.array([[0], [1], [2], [2]]), ms.MPF(neighbours=lopsided))

    def test_twice_on_both_sides_is_a_matter_of_speed_only(self):
        model = ms.models.from_log_density(lambda p, x: p * x[0], 0.0, space=ms.spaces.SPINS)
        fit = ms.fit(model, np.array([[1], [1], [-1]]), ms.MPF(neighbours=lambda x: jnp.stack([-x, -x])))
        np.testing.assert_allclose(fit.params["theta"], np.log(2) / 2, rtol=1e-6)  # p(1)/p(−1) = 2
