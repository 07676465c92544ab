"""Discrete models and their discrepancies, against enumeration, algebra and simulation."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import minstein as ms

from ..truth import spins

RNG = np.random.default_rng(8)
EDGES = np.array([[0, 1], [1, 2], [2, 3], [0, 3]])
FIELD, COUPLING = np.array([0.3, -0.2, 0.1, 0.0]), np.array([0.5, -0.4, 0.2, 0.3])
ISING = ms.models.Ising(FIELD, COUPLING, EDGES)
STATES = spins.states((-1, 1), 4)
LOG_P = spins.ising_log_p(STATES, FIELD, COUPLING, EDGES)
POTTS = ms.models.from_log_density(
    lambda p, x: p[0] * jnp.sum(x[1:] == x[:-1]) + p[1] * x[0], np.array([0.8, 0.3]), space=ms.spaces.Finite((0, 1, 2))
)
PLAIN_ISING = ms.models.from_log_density(
    lambda p, x: x @ p["h"] + jnp.sum(p["J"] * x[EDGES[:, 0]] * x[EDGES[:, 1]]),
    {"h": FIELD, "J": COUPLING},
    space=ms.spaces.SPINS,
)
X = STATES[RNG.integers(0, 16, 30)]


class TestModels:
    def test_ising(self):
        with jax.enable_x64(True):
            np.testing.assert_allclose(jax.vmap(ISING)(jnp.asarray(STATES)), LOG_P, atol=1e-14)
        top = LOG_P.max()
        assert ms.models.log_normaliser(ISING, 4) == pytest.approx(top + np.log(np.exp(LOG_P - top).sum()), rel=1e-12)
        draws = ISING.sample(jax.random.key(0), 20_000)
        counts = np.array([(draws == state).all(1).sum() for state in STATES])
        assert stats.chisquare(counts, 20_000 * spins.normalised(LOG_P)).pvalue > 1e-3

    @pytest.mark.slow
    def test_long_chains_sample_rightly(self):
        """A ring of 14 spins has E[x_i x_(i+1)] = (tanh J + tanh¹³ J)/(1 + tanh¹⁴ J)."""
        ring = np.stack([np.arange(14), (np.arange(14) + 1) % 14], axis=1)
        x = ms.models.Ising(0.0, 0.4, ring).sample(jax.random.key(1), 4000)
        t = np.tanh(0.4)
        products = (x * np.roll(x, -1, axis=1)).mean(1)
        exact = (t + t**13) / (1 + t**14)
        assert abs(products.mean() - exact) < 5 * products.std() / np.sqrt(4000)

    def test_machines(self):
        b, W = np.array([0.2, -0.3, 0.4]), np.array([[0.7, -0.2], [-0.4, 0.9], [0.3, 0.5]])
        v, h = spins.states((0, 1), 3), spins.states((0, 1), 2)
        exact = np.log(np.exp(v @ W @ h.T + h @ [0.1, -0.5]).sum(1)) + v @ b
        pairs = np.array([v[:, 0] * v[:, 1], v[:, 0] * v[:, 2], v[:, 1] * v[:, 2]])
        with jax.enable_x64(True):
            np.testing.assert_allclose(jax.vmap(ms.models.RBM(b, [0.1, -0.5], W))(jnp.asarray(v)), exact, rtol=1e-12)
            np.testing.assert_allclose(
                jax.vmap(ms.models.BoltzmannMachine(b, [1.0, 2.0, 3.0]))(jnp.asarray(v)), v @ b + [1, 2, 3] @ pairs
            )

    @pytest.mark.slow
    def test_conway_maxwell_poisson(self):
        poisson = ms.models.ConwayMaxwellPoisson(3.0, 1.0).sample(jax.random.key(0), 5000)[:, 0]
        edges = np.arange(10)
        counts = np.append(np.bincount(poisson.astype(int), minlength=10)[:9], (poisson >= 9).sum())
        p = np.append(stats.poisson(3).pmf(edges[:9]), stats.poisson(3).sf(8))
        assert stats.chisquare(counts, 5000 * p).pvalue > 1e-3
        k = np.arange(60)
        log_p = k * np.log(4.0) - 1.7 * gammaln(k + 1)
        mean = spins.normalised(log_p) @ k
        start = ms.models.ConwayMaxwellPoisson(1.0, 1.0).start(
            ms.models.ConwayMaxwellPoisson(4.0, 1.7).sample(jax.random.key(2), 4000)
        )
        assert float(start.dispersion) == pytest.approx(1.7, rel=0.15)
        assert abs(float(start.rate) ** (1 / float(start.dispersion)) - 4.0 ** (1 / 1.7)) < 0.3
        assert mean < 3

    @pytest.mark.parametrize(
        "build",
        [
            lambda: ms.models.Ising(0.0, 0.1),
            lambda: ms.models.Ising(np.zeros(3), 0.1, [[0, 3]]),
            lambda: ms.models.Ising(np.zeros(3), 0.1, [[1, 1]]),
            lambda: ms.models.Ising(np.zeros(3), 0.1, [[0, 1], [1, 0]]),
            lambda: ms.models.Ising(np.zeros(3), np.zeros(2), [[0, 1]]),
            lambda: ms.models.RBM(np.zeros(3), np.zeros(2), np.zeros((2, 3))),
            lambda: ms.spaces.Finite((1.0, 1.0)),
            lambda: ms.models.ConwayMaxwellPoisson(-1.0, 1.0),
        ],
    )
    def test_nonsense(self, build):
        with pytest.raises(ValueError, match=r"Ising|RBM|alphabet|positive"):
            build()


def ratios(x, log_p):
    """exp(log p(y) − log p(x)) over the single flips y of x."""
    index = {tuple(state): i for i, state in enumerate(STATES)}
    here = index[tuple(x)]
    flips = [np.where(np.arange(4) == i, -x, x) for i in range(4)]
    return np.exp([log_p[index[tuple(y)]] - log_p[here] for y in flips])


@pytest.mark.parametrize("model", [ISING, PLAIN_ISING], ids=["fast", "by evaluation"])
def test_losses_by_enumeration(model):
    r = np.array([ratios(x, LOG_P) for x in X])
    np.testing.assert_allclose(ms.MPF()(model, X), np.sqrt(r).sum(1).mean(), rtol=1e-12)
    np.testing.assert_allclose(ms.DFD()(model, X), (r**2 - 2 / r).sum(1).mean(), rtol=1e-12)
    np.testing.assert_allclose(ms.PseudoLikelihood()(model, X), np.log1p(r).sum(1).mean(), rtol=1e-12)


def test_the_flips_of_an_rbm_are_those_of_its_free_energy():
    model = ms.models.RBM(RNG.normal(size=4), RNG.normal(size=3), RNG.normal(size=(4, 3)))
    plain = ms.models.from_log_density(lambda p, x: p(x), model, space=ms.spaces.BINARY)
    x = (X + 1) / 2
    np.testing.assert_allclose(ms.MPF()(model, x), ms.MPF()(plain, x), rtol=1e-12)


class TestE14:
    """MPF has two definitions: L¹ = 2K where no observed state gains probability, and L¹ > 2K else."""

    def flow(self, x):
        """Γq over all states, with Γ_yx = exp(½(log p(y) − log p(x))) for single flips."""
        same = np.abs(STATES[:, None] - STATES[None]).sum(2) == 2
        G = same * np.exp((LOG_P[:, None] - LOG_P[None, :]) / 2)
        G -= np.diag(G.sum(0))
        q = np.array([(x == state).all(1).mean() for state in STATES])
        return G @ q, q

    @pytest.mark.parametrize("rows", [[0, 0, 3, 5], [0, 1, 1, 1, 3], [0, 0, 15], RNG.integers(0, 16, 12)])
    def test_both_forms_by_enumeration(self, rows):
        x = STATES[np.asarray(rows)]
        flow, q = self.flow(x)
        K, L1 = flow[q == 0].sum(), np.abs(flow).sum()
        np.testing.assert_allclose(ms.MPF(form="kl")(ISING, x), K, rtol=1e-12)
        np.testing.assert_allclose(ms.MPF(form="l1")(ISING, x), L1, rtol=1e-12)
        if (flow[q > 0] <= 0).all():
            np.testing.assert_allclose(L1, 2 * K, rtol=1e-12)
        else:
            assert L1 > 2 * K * (1 + 1e-6)
        if list(rows) == [0, 0, 15]:
            np.testing.assert_allclose(ms.MPF()(ISING, x), K, rtol=1e-12)

    def test_kl_is_a_derivative(self):
        """KL(q‖exp(tΓ)q)/t tends to K."""
        from scipy.linalg import expm

        x = STATES[[0, 0, 3, 5]]
        same = np.abs(STATES[:, None] - STATES[None]).sum(2) == 2
        G = same * np.exp((LOG_P[:, None] - LOG_P[None, :]) / 2)
        G -= np.diag(G.sum(0))
        _, q = self.flow(x)
        t = 1e-6
        assert spins.kl(q[q > 0], (expm(t * G) @ q)[q > 0]) / t == pytest.approx(ms.MPF(form="kl")(ISING, x), rel=1e-4)

    def test_where_every_state_is_observed(self):
        """K is zero for every θ; the mean form still has its minimum at the truth."""
        with pytest.raises(ValueError, match=r"itself observed.*form='mean'"):
            ms.MPF(form="kl")(ISING, STATES)
        p = spins.normalised(LOG_P)
        x = np.repeat(STATES, np.round(1e5 * p).astype(int), axis=0)
        _, slope = ms.value_and_grad(ms.MPF(), ISING, x)
        assert np.abs(slope).max() < 1e-4

    def test_any_neighbourhood(self):
        """Pairs of flips as well as single ones, given as a function; and one that is not symmetric."""
        signs = np.array([s for s in itertools.product((1.0, -1.0), repeat=4) if 0 < s.count(-1.0) <= 2])
        index = {tuple(state): i for i, state in enumerate(STATES)}
        x = STATES[[0, 3, 5]]
        exact = np.mean(
            [sum(np.exp((LOG_P[index[tuple(s * a)]] - LOG_P[index[tuple(a)]]) / 2) for s in signs) for a in x]
        )
        mpf = ms.MPF(lambda x: x * jnp.asarray(signs))
        np.testing.assert_allclose(mpf(ISING, x), exact, rtol=1e-12)
        with pytest.raises(ValueError, match="not symmetric: y is a neighbour of x"):
            ms.MPF(lambda x: jnp.stack([jnp.roll(x, 1)]))(ISING, x[1:2])
        with pytest.raises(ValueError, match=r"shape \(k, 4\)"):
            ms.MPF(lambda x: x)(ISING, x)
        l1 = ms.MPF(lambda x: x * (1 - 2 * jnp.eye(4)), form="l1")
        np.testing.assert_allclose(l1(ISING, x), ms.MPF(form="l1")(ISING, x), rtol=1e-12)


class TestDiscreteKSD:
    @pytest.mark.parametrize(("model", "d"), [(ISING, 4), (POTTS, 3)], ids=["spins", "three letters"])
    def test_the_stein_kernel_has_mean_zero(self, model, d):
        """Σ_y p(y) k⁰(x, y) = 0 for every x, and the matrix is positive semi-definite."""
        states = model.space.states(d)
        K = ms.stein_matrix(ms.DiscreteKSD(ms.kernels.Hamming(2.0)), model, states)
        np.testing.assert_allclose(K @ ms.models.probabilities(model, d), 0, atol=1e-12 * np.abs(K).max())
        np.testing.assert_allclose(K, K.T, rtol=1e-10, atol=1e-12)
        assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()

    def test_k0_from_its_definition(self):
        """k s·s′ − s·Δ*_y k − Δ*_x k·s′ + tr Δ*_x Δ*_y k, in loops."""
        x = X[:6]
        k = lambda a, b: np.exp(-(a != b).sum() / 4)
        flip = lambda a, i: np.where(np.arange(4) == i, -a, a)
        s = [1 - ratios(a, LOG_P) for a in x]

        def k0(i, j):
            a, b = x[i], x[j]
            of_b = np.array([k(a, b) - k(a, flip(b, r)) for r in range(4)])
            of_a = np.array([k(a, b) - k(flip(a, r), b) for r in range(4)])
            trace = sum(k(a, b) - k(flip(a, r), b) - k(a, flip(b, r)) + k(flip(a, r), flip(b, r)) for r in range(4))
            return k(a, b) * s[i] @ s[j] - s[i] @ of_b - of_a @ s[j] + trace

        exact = np.array([[k0(i, j) for j in range(6)] for i in range(6)])
        np.testing.assert_allclose(ms.stein_matrix(ms.DiscreteKSD(), ISING, x), exact, rtol=1e-12)
        np.testing.assert_allclose(ms.DiscreteKSD(unbiased=False)(ISING, x), exact.mean(), rtol=1e-12)
        off = (exact.sum() - np.trace(exact)) / 30
        np.testing.assert_allclose(ms.DiscreteKSD()(ISING, x), off, rtol=1e-12)
        plain = ms.DiscreteKSD(lambda a, b: jnp.exp(-jnp.sum(a != b) / 4))
        np.testing.assert_allclose(plain(ISING, x), off, rtol=1e-12)

    def test_three_letters_by_products_and_by_pairs(self):
        x = POTTS.space.states(3)[RNG.integers(0, 27, 20)]
        fast = ms.DiscreteKSD(ms.kernels.Hamming(2.0))
        K = ms.stein_matrix(fast, POTTS, x)
        np.testing.assert_allclose(fast(POTTS, x), (K.sum() - np.trace(K)) / 380, rtol=1e-11)

    @pytest.mark.slow
    def test_derivatives(self):
        """Gradient and Hessian by central differences of the loss."""
        model, ksd = ms.models.Ising(0.1, 0.3, EDGES), ms.DiscreteKSD()
        loss = lambda a, b: ksd(ms.models.Ising(a, b, EDGES), X)
        h = 1e-4
        _, slope = ms.value_and_grad(ksd, model, X)
        central = [(loss(0.1 + h, 0.3) - loss(0.1 - h, 0.3)) / 2 / h, (loss(0.1, 0.3 + h) - loss(0.1, 0.3 - h)) / 2 / h]
        np.testing.assert_allclose(slope, central, rtol=1e-6)
        second = (loss(0.1, 0.3 + h) - 2 * loss(0.1, 0.3) + loss(0.1, 0.3 - h)) / h**2
        np.testing.assert_allclose(ms.hessian(ksd, model, X)[1, 1], second, rtol=1e-5)


@pytest.mark.slow
def test_discrete_fisher_divergence_of_counts_has_a_closed_form():
    """At ν = 1 the loss is mean x²/λ² − 2 mean(x + 1)/λ, with minimum at λ = mean x²/mean(x + 1)."""
    x = RNG.poisson(3.0, 400)
    fit = ms.fit(ms.models.ConwayMaxwellPoisson(1.0, ms.fixed(1.0)), x, ms.DFD())
    assert fit.params["rate"] == pytest.approx((x**2).mean() / (x + 1).mean(), rel=1e-8)
    u, lam = x**2, fit.params["rate"]
    influence = (u - lam * (x + 1)) / (x + 1).mean()  # delta method for a ratio of means
    assert fit.bse["rate"] == pytest.approx(influence.std() / 20, rel=1e-6)


def test_pseudo_likelihood_of_two_spins_is_arctanh_of_their_correlation():
    x = np.array([[1, 1]] * 30 + [[-1, -1]] * 25 + [[1, -1]] * 20 + [[-1, 1]] * 10)
    fit = ms.fit(ms.models.Ising(ms.fixed([0.0, 0.0]), 0.0), x, ms.PseudoLikelihood())
    r = (x[:, 0] * x[:, 1]).mean()
    assert fit.params["coupling"] == pytest.approx(np.arctanh(r), rel=1e-7)
    assert fit.bse["coupling"] == pytest.approx(np.sqrt((1 - r**2) / 85) / (1 - r**2), rel=1e-6)


class TestInput:
    def test_integers_and_booleans_are_read(self):
        model = ms.models.BoltzmannMachine(np.zeros(4), 0.1 * np.ones(6))
        x = X > 0
        assert ms.MPF()(model, x) == ms.MPF()(model, x.astype(int)) == ms.MPF()(model, x.astype(float))

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: ms.fit(ISING, (X + 1) / 2), ValueError, r"values 0 in .* alphabet \{-1, 1\}\. Write 2 \* x - 1"),
            (lambda: ms.fit(ISING, RNG.normal(size=(30, 4))), ValueError, "These look like continuous data"),
            (
                lambda: ms.MPF()(ms.models.BoltzmannMachine(np.zeros(4), 0.1), X),
                ValueError,
                r"values -1 in .* Write \(x \+ 1\) / 2",
            ),
            (
                lambda: ms.fit(ms.models.ConwayMaxwellPoisson(1.0, 1.0), [1.5, 2.0]),
                ValueError,
                r"values 1\.5 .* counts",
            ),
            (lambda: ms.fit(ms.models.Gaussian(0.0, 1.0), np.arange(9)), TypeError, "floating point, got int64"),
            (lambda: ms.fit(ISING, X, ms.SM()), TypeError, r"DSM differentiates log p in x.*ms\.MPF\(\)"),
            (lambda: ms.KSD(ms.kernels.IMQ(1.0))(ISING, X), TypeError, "DKSD differentiates"),
            (
                lambda: ms.MPF()(ms.models.Gaussian(0.0, 1.0), [0.5]),
                TypeError,
                "MPF needs a model on a finite alphabet",
            ),
            (
                lambda: ms.PseudoLikelihood()(ms.models.ConwayMaxwellPoisson(1.0, 1.0), [1, 2]),
                TypeError,
                "PseudoLikelihood needs a model on a finite alphabet, but this one lives on Counts",
            ),
            (lambda: ms.DiscreteKSD()(ISING, X[:1]), ValueError, "at least 2 observations"),
            (lambda: ms.MPF(form="l2"), ValueError, "'mean', 'kl' or 'l1', got 'l2'"),
            (lambda: ms.models.log_normaliser(ISING, 40), ValueError, r"2\^40 states are too many"),
            (lambda: ms.models.log_normaliser(ms.models.Gaussian(0.0, 1.0), 1), TypeError, "Enumeration needs"),
        ],
    )
    def test_mistakes(self, call, error, message):
        with pytest.raises(error, match=message):
            call()


@pytest.fixture(scope="module")
def fitted():
    model = ms.models.Ising(0.0, 0.0, EDGES)
    return {name: ms.fit(model, X, d) for name, d in (("default", None), ("l1", ms.MPF(form="l1")))}


def test_a_fit_without_a_discrepancy_and_what_it_says(fitted, tmp_path):
    fit = fitted["default"]
    assert fit.converged
    assert "minimum probability flow, form 'mean'" in str(fit)
    assert "std. error" in str(fit)
    assert "form='l1' depends on which neighbours were observed" in str(fitted["l1"])
    with pytest.raises(TypeError, match="no influence function"):
        ms.influence(fitted["l1"], X)
    with pytest.raises(TypeError, match="ever farther out"):
        ms.robustness(fit, X)
    fit.save(tmp_path / "fit.json")
    again = ms.load(tmp_path / "fit.json")
    assert again.discrepancy(again.model, X) == fit.loss


def test_influence_sums_to_nothing_and_predicts_leaving_out(fitted):
    fit = fitted["default"]
    influence = ms.influence(fit, X)
    np.testing.assert_allclose(influence.sum(0), 0, atol=1e-6)
    without = ms.fit(fit.model, X[1:], covariance=False)
    np.testing.assert_allclose(fit.theta - without.theta, ms.dfbeta(fit, X)[0], atol=0.02)


@pytest.mark.slow
def test_the_bootstrap_of_a_form_that_looks_up(fitted):
    boot = ms.bootstrap(fitted["l1"], X, jax.random.key(0), replications=4)
    assert boot.converged.all()
    assert np.std(boot.theta, axis=0).min() > 0


@pytest.mark.slow
@pytest.mark.optimised
class TestSimulation:
    def test_all_agree_with_maximum_likelihood_as_n_grows(self):
        """3×3 Ising: differences from exact maximum likelihood, in its standard errors at n = 500, fall as 1/√n."""
        edges = ms.models.grid(3, 3)
        truth, start = ms.models.Ising(0.1, 0.3, edges), ms.models.Ising(0.0, 0.1, edges)
        ways = {
            "MPF": ms.MPF(),
            "PL": ms.PseudoLikelihood(),
            "DFD": ms.DFD(),
            "KSD": ms.DiscreteKSD(),
            "CD": ms.CD(ms.markov.Gibbs()),
            "PCD": ms.CD(ms.markov.Gibbs(), persistent=True),
        }
        away = {}
        for n in (500, 20_000):
            x = truth.sample(jax.random.key(n), n)
            mle = spins.ising_mle(x, edges)
            away[n] = {
                name: np.abs(ms.fit(start, x, d, key=jax.random.key(1), covariance=False).theta - mle)
                for name, d in ways.items()
                if not (name == "KSD" and n > 500)
            }
        spread = np.array([0.0115, 0.0145])  # of maximum likelihood at n = 500
        for name, error in away[500].items():
            assert (error < 4 * spread * (3 if name in ("KSD", "DFD") else 1)).all(), name
        for name, error in away[20_000].items():
            assert (error < 4 * spread / np.sqrt(40) * (3 if name in ("KSD", "DFD") else 1)).all(), name

    @pytest.mark.parametrize(
        "discrepancy", [ms.MPF(), ms.PseudoLikelihood(), ms.DFD(), ms.DiscreteKSD()], ids=lambda d: type(d).__name__
    )
    def test_standard_errors(self, discrepancy):
        """The sandwich against the spread of 400 fits to samples of 300 from a ring of four spins."""
        truth = ms.models.Ising(0.15, 0.25, EDGES)
        with jax.enable_x64(True):
            xs = jnp.stack(jnp.split(jnp.asarray(truth.sample(jax.random.key(7), 400 * 300)), 400))
            study = jax.jit(lambda xs: jax.lax.map(lambda x: ms.fit(truth, x, discrepancy, throw=False), xs))(xs)
        ok = np.asarray(study.converged)
        assert ok.mean() > 0.98
        theta, cov = np.asarray(study.theta)[ok], np.asarray(study.cov)[ok]
        claimed = np.sqrt(np.mean(np.diagonal(cov, axis1=1, axis2=2), axis=0))
        np.testing.assert_allclose(theta.std(0), claimed, rtol=4 / np.sqrt(2 * 400) + 0.03)
        covered = np.abs(theta - [0.15, 0.25]) < 1.96 * np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
        assert (np.abs(covered.mean(0) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400) + 0.015).all()

    def test_the_bootstrap_of_contrastive_divergence(self):
        """Against the spread of maximum likelihood, which CD of a fast chain comes near."""
        truth = ms.models.Ising(0.15, 0.25, EDGES)
        x = truth.sample(jax.random.key(3), 400)
        fit = ms.fit(truth, x, ms.CD(ms.markov.Gibbs(), 3), key=jax.random.key(0))
        boot = ms.bootstrap(fit, x, jax.random.key(1), replications=60)
        assert boot.converged.mean() > 0.9
        reference = ms.fit(truth, x, ms.PseudoLikelihood())
        np.testing.assert_allclose(list(boot.bse.values()), list(reference.bse.values()), rtol=0.4)


def test_a_discrete_ksd_of_a_model_with_a_held_parameter():
    x = np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    held = ms.models.Ising(ms.fixed(np.array([0.1, 0.2])), 0.3)
    free = ms.models.Ising(np.array([0.1, 0.2]), 0.3)
    assert ms.DiscreteKSD()(held, x) == ms.DiscreteKSD()(free, x)
