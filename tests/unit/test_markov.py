"""Markov kernels and contrastive divergence: transition matrices by enumeration, and the identities of the paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

from ..truth import spins

EDGES = np.array([[0, 1], [1, 2], [0, 2]])
FIELD, COUPLING = np.array([0.3, -0.2, 0.1]), np.array([0.5, -0.4, 0.2])
ISING = ms.models.Ising(FIELD, COUPLING, EDGES)
P_ISING = spins.normalised(spins.ising_log_p(spins.states((-1, 1), 3), FIELD, COUPLING, EDGES))

VISIBLE, HIDDEN = np.array([0.2, -0.3, 0.4]), np.array([0.1, -0.5])
WEIGHTS = np.array([[0.7, -0.2], [-0.4, 0.9], [0.3, 0.5]])
MACHINE = ms.models.RBM(VISIBLE, HIDDEN, WEIGHTS)


def _rbm_probabilities():
    """Σ_h exp(b·v + c·h + vᵀWh), the hidden units summed out one state after another."""
    v, h = spins.states((0, 1), 3), spins.states((0, 1), 2)
    return spins.normalised(np.log(np.exp(v @ WEIGHTS @ h.T + h @ HIDDEN).sum(1)) + v @ VISIBLE)


POTTS = ms.models.from_log_density(
    lambda p, x: p[0] * (x[0] == x[1]) + p[1] * x[0], np.array([0.8, 0.3]), space=ms.spaces.Finite((0, 1, 2))
)


def _potts_probabilities():
    x = spins.states((0, 1, 2), 2)
    return spins.normalised(0.8 * (x[:, 0] == x[:, 1]) + 0.3 * x[:, 0])


FINITE = {
    "gibbs sweep": (ms.markov.Gibbs(), ISING, P_ISING, 3, False),
    "gibbs random": (ms.markov.Gibbs("random"), ISING, P_ISING, 3, True),
    "flip": (ms.markov.SingleFlip(), ISING, P_ISING, 3, True),
    "block": (ms.markov.BlockGibbs(), MACHINE, _rbm_probabilities(), 3, True),
    "gibbs of an RBM": (ms.markov.Gibbs("random"), MACHINE, _rbm_probabilities(), 3, True),
    "three letters, gibbs": (ms.markov.Gibbs(), POTTS, _potts_probabilities(), 2, False),
    "three letters, flip": (ms.markov.SingleFlip(), POTTS, _potts_probabilities(), 2, True),
}


class TestFinite:
    @pytest.mark.parametrize("case", FINITE)
    def test_stationarity_and_detailed_balance(self, case):
        kernel, model, p, d, reversible = FINITE[case]
        P = kernel.matrix(model, d)
        np.testing.assert_allclose(P.sum(1), 1, rtol=1e-12)
        np.testing.assert_allclose(p @ P, p, rtol=1e-12)
        flow = p[:, None] * P
        assert np.allclose(flow, flow.T, rtol=1e-12) == reversible
        np.testing.assert_allclose(ms.models.probabilities(model, d), p, rtol=1e-12)

    @pytest.mark.parametrize(
        "case",
        [
            "gibbs sweep",
            "block",
            "three letters, flip",
            *(pytest.param(case, marks=pytest.mark.slow) for case in ("gibbs random", "flip", "three letters, gibbs")),
        ],
    )
    def test_the_draws_follow_the_matrix(self, case):
        """χ² of the transitions from every state, 2000 draws from each."""
        kernel, model, _, d, _ = FINITE[case]
        P, states = kernel.matrix(model, d), model.space.states(d)
        n = 2000
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(0), n)
            step = jax.jit(jax.vmap(lambda x: jax.vmap(lambda key: kernel(model, x, key))(keys)))
            ends = np.asarray(step(jnp.asarray(states)))
        index = {tuple(state): i for i, state in enumerate(states)}
        for i, chain in enumerate(ends):
            counts = np.bincount([index[tuple(end)] for end in chain], minlength=len(states))
            assert (counts[P[i] == 0] == 0).all()
            on = P[i] > 0
            chi2 = np.sum((counts[on] - n * P[i, on]) ** 2 / (n * P[i, on]))
            assert chi2 < on.sum() - 1 + 6 * np.sqrt(2 * max(1, on.sum() - 1)) + 6


GAUSSIAN = ms.models.Gaussian([0.5, -1.0], [1.0, 2.0])
CONTINUOUS = {
    "random walk": ms.markov.RandomWalk([0.8, 2.0]),
    "MALA": ms.markov.MALA([0.8, 1.5]),
    "HMC": ms.markov.HMC(0.4, 5),
}


@pytest.mark.parametrize("case", CONTINUOUS)
def test_continuous_kernels(case):
    """Draws from the model stay so; and for reversible kernels (x, x′) is exchangeable."""
    kernel, n = CONTINUOUS[case], 40_000
    x = GAUSSIAN.sample(jax.random.key(2), n)
    with jax.enable_x64(True):
        y, moved = jax.jit(lambda x: ms.markov.run(kernel, GAUSSIAN, x, jax.random.key(3), 1))(jnp.asarray(x))
    y = np.asarray(y)
    assert 0.2 < np.asarray(moved).mean() < 1
    functions = lambda x: np.stack([x[:, 0], x[:, 1] ** 2, np.sin(x[:, 0]), np.exp(-(x[:, 1] ** 2) / 8)])
    f, g = functions(x), functions(y)
    assert (np.abs((g - f).mean(1)) < 5 * (g - f).std(1) / np.sqrt(n)).all()
    for a in range(4):
        for b in range(a):
            skew = f[a] * g[b] - f[b] * g[a]
            assert abs(skew.mean()) < 5 * skew.std() / np.sqrt(n)


def test_the_check_finds_wrong_kernels():
    half = lambda model, x, key: jnp.where(jax.random.uniform(key) < 0.5, x, -x)
    with pytest.raises(ValueError, match=r"does not leave the model invariant.*changes the mean of log p by"):
        ms.markov.check(half, ms.models.Gaussian(0.4, 1.0), jax.random.key(0))
    heat = lambda model, x, key: x.at[0].set(jnp.where(jax.random.bernoulli(key, 0.5), 1.0, -1.0))
    with pytest.raises(ValueError, match="does not leave the model invariant"):
        ms.markov.check(heat, ISING, jax.random.key(0), d=3)
    with pytest.raises(ValueError, match=r"rejected everything.*acceptance rate 0"):
        ms.markov.check(ms.markov.RandomWalk(1e12), GAUSSIAN, jax.random.key(0), n=100)


class TestE13:
    """The printed CD identity has the wrong sign and lacks the entropies; the update holds the law of the chain."""

    q = np.random.default_rng(0).dirichlet(np.ones(8))
    P = FINITE["flip"][0].matrix(ISING, 3)

    @pytest.mark.parametrize("n", [1, 3])
    def test_the_identity(self, n):
        Pn = np.linalg.matrix_power(self.P, n)
        end, log_p = self.q @ Pn, np.log(P_ISING)
        difference = spins.kl(self.q, P_ISING) - spins.kl(end, P_ISING)
        middle = self.q @ (log_p - Pn @ log_p)
        assert difference == pytest.approx(-middle + spins.entropy(end) - spins.entropy(self.q), rel=1e-12)
        assert abs(difference - middle) > 0.1
        assert difference > 0  # a Markov chain cannot move away from its law

    def test_the_three_states_of_the_notes(self):
        """A chain on three states by algebra alone: the printed middle is not the difference of divergences."""
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
        P = np.minimum(1, p[None] / p[:, None]) / 2
        np.fill_diagonal(P, 0)
        P += np.diag(1 - P.sum(1))
        middle, end = q @ (np.log(p) - P @ np.log(p)), q @ P
        difference = spins.kl(q, p) - spins.kl(end, p)
        assert difference == pytest.approx(-middle + spins.entropy(end) - spins.entropy(q), rel=1e-12)
        assert middle < 0 < difference

    @pytest.mark.parametrize("steps", [1, pytest.param(3, marks=pytest.mark.slow)])
    def test_loss_and_update(self, steps):
        """Against q(Pⁿ − I)log p and q(Pⁿ − I)∂log p, both by enumeration; the derivative of Pⁿ is left out."""
        states = spins.states((-1, 1), 3)
        counts = np.array([40, 3, 25, 11, 60, 2, 33, 26])
        x, q = np.repeat(states, counts, axis=0), counts / counts.sum()
        change = q @ np.linalg.matrix_power(self.P, steps) - q
        i, j = EDGES.T
        statistic = np.concatenate([states, states[:, i] * states[:, j]], axis=1)
        cd, keys = ms.CD(ms.markov.SingleFlip(), steps), jax.random.split(jax.random.key(0), 100)
        draws = [ms.value_and_grad(cd, ISING, x, key=key) for key in keys]
        losses, updates = np.array([loss for loss, _ in draws]), np.array([update for _, update in draws])
        log_p = spins.ising_log_p(states, FIELD, COUPLING, EDGES)
        error = lambda a: 5 * a.std(0) / np.sqrt(len(a))
        assert abs(losses.mean() - change @ log_p) < error(losses)
        assert (np.abs(updates.mean(0) - change @ statistic) < error(updates)).all()
        estimate = cd.estimate(ISING, x, jax.random.key(1), repeats=100)
        assert abs(estimate.loss - change @ log_p) < 5 * estimate.error
        assert estimate.error == pytest.approx(losses.std() / np.sqrt(100), rel=0.4)
        stay = 1 - q @ np.diag(self.P)
        assert steps > 1 or abs(estimate.acceptance - stay) < 5 * np.sqrt(stay / 4 / 100 / len(x)) + 1e-12


class TestFit:
    x = GAUSSIAN.sample(jax.random.key(5), 100)
    solver = ms.RiemannianSGD(0.2, steps=60, average=0.5)

    def test_it_is_random_and_says_so(self):
        cd = ms.CD(ms.markov.RandomWalk(1.0))
        with pytest.raises(ValueError, match="CD draws at random here, so it needs a key"):
            ms.fit(GAUSSIAN, self.x, cd)
        with pytest.raises(ValueError, match="needs a key"):
            cd(GAUSSIAN, self.x)
        with pytest.raises(TypeError, match=r"LBFGS minimises a loss.*ms\.RiemannianSGD"):
            ms.fit(GAUSSIAN, self.x, cd, solver=ms.LBFGS(), key=jax.random.key(0))
        fit = ms.fit(GAUSSIAN, self.x, cd, key=jax.random.key(0), solver=self.solver)
        text = str(fit.summary())
        assert "No standard errors: contrastive divergence" in text
        assert "ms.bootstrap(fit, x, key)" in text
        assert "Monte-Carlo errors" in text
        with pytest.raises(ValueError, match="No standard errors: contrastive divergence"):
            fit.cov_params()
        with pytest.raises(TypeError, match="no influence function"):
            ms.influence(fit, self.x)

    def test_a_chain_that_rejects_everything(self):
        cd = ms.CD(ms.markov.RandomWalk(1e12))
        with pytest.raises(ms.NotConverged, match=r"rejected every step \(acceptance rate 0\).*smaller step"):
            ms.fit(GAUSSIAN, self.x, cd, key=jax.random.key(0), solver=self.solver)

    @pytest.mark.parametrize(
        ("kernel", "model", "message"),
        [
            (ms.markov.RandomWalk(0.5), ISING, "RandomWalk is a kernel on"),
            (ms.markov.Gibbs(), GAUSSIAN, "Gibbs needs a model on a finite alphabet"),
            (ms.markov.BlockGibbs(), ISING, r"BlockGibbs needs ms\.models\.RBM"),
        ],
    )
    def test_kernels_for_other_spaces(self, kernel, model, message):
        with pytest.raises(TypeError, match=message):
            ms.CD(kernel)(model, model.sample(jax.random.key(0), 4), key=jax.random.key(0))

    def test_arguments(self):
        with pytest.raises(ValueError, match="steps must be at least 1"):
            ms.CD(ms.markov.Gibbs(), 0)
        with pytest.raises(TypeError, match="must be an instance of a kernel"):
            ms.CD(ms.markov.Gibbs)
        with pytest.raises(ValueError, match="step must be positive"):
            ms.markov.MALA(-1.0)
        with pytest.raises(ValueError, match="'sweep' or 'random'"):
            ms.markov.Gibbs("sideways")
        with pytest.raises(ValueError, match=r"must return a point of shape \(2,\)"):
            ms.CD(lambda model, x, key: x[:1])(GAUSSIAN, np.zeros((3, 2)), key=jax.random.key(0))


def _ring(p, x):
    return -((jnp.sqrt(x @ x + 1e-12) - p["radius"]) ** 2) / (2 * p["width"] ** 2)


@pytest.mark.slow
@pytest.mark.optimised
class TestContinuousFits:
    """CD against score matching and KSD on the same sample: they differ by less than their standard errors explain."""

    def test_student_t(self):
        truth = ms.models.StudentT(25.0, 10.0, 5.0)
        x = truth.sample(jax.random.key(3), 1000)
        cd = ms.fit(truth, x, ms.CD(ms.markov.RandomWalk(10.0), 5), key=jax.random.key(0))
        mala = ms.fit(truth, x, ms.CD(ms.markov.MALA(8.0), 5, persistent=True), key=jax.random.key(1))
        sm, ksd = ms.fit(truth, x, ms.SM()), ms.fit(truth, x)
        assert cd.converged
        assert mala.converged
        for fit in (cd, mala):
            for other in (sm, ksd):
                assert (np.abs(fit.theta - other.theta) < 2.5 * np.sqrt(np.diag(other.cov))).all()

    def test_ring(self):
        """Draws in polar coordinates: the radius has density ∝ r exp(−(r − R)²/2w²)."""
        rng = np.random.default_rng(0)
        grid = np.linspace(1e-3, 6, 20_001)
        density = grid * np.exp(-((grid - 3) ** 2) / (2 * 0.5**2))
        r = np.interp(rng.random(1500), np.cumsum(density) / density.sum(), grid)
        angle = rng.uniform(0, 2 * np.pi, 1500)
        x = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
        model = ms.models.from_log_density(_ring, {"radius": 2.5, "width": ms.positive(0.7)})
        cd = ms.fit(model, x, ms.CD(ms.markov.HMC(0.3, 5), 2), key=jax.random.key(0))
        sm, ksd = ms.fit(model, x, ms.SM()), ms.fit(model, x)
        assert cd.converged
        for other in (sm, ksd):
            assert (np.abs(cd.theta - other.theta) < 3 * np.sqrt(np.diag(other.cov))).all()
        np.testing.assert_allclose(cd.theta, [3, 0.5], atol=0.06)
