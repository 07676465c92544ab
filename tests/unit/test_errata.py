"""Misprints of the paper: each test shows the printed formula failing and the corrected one holding.

Numbers follow the list of errata in the documentation.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import minstein as ms


class TestE4:
    """The closed form of DSM for a Gaussian location has a minus, and the printed model a factor one half."""

    @pytest.mark.parametrize(("variance", "factor"), [(1.0, 1.0), (0.5, 0.5)])
    def test_location(self, variance, factor):
        x = ms.models.Gaussian(3.0, np.sqrt(variance)).sample(jax.random.key(4), 20_000)[:, 0]
        m2, slope = 1 / (1 + x**2), -2 * x / (1 + x**2) ** 2
        model = ms.models.Gaussian(0.0, ms.fixed(np.sqrt(variance)))
        A, v, _ = ms.quadratic(ms.DSM(lambda x: (1 + x @ x) ** -0.5), model, x)
        estimate = -v[0] / (2 * A[0, 0])
        corrected, printed = (m2 @ x - factor * slope.sum()) / m2.sum(), (m2 @ x + slope.sum()) / m2.sum()
        np.testing.assert_allclose(estimate, corrected, rtol=1e-10)
        assert abs(corrected - 3) < 0.05
        assert abs(printed - 3) > 0.9


class TestE5:
    """The influence of z in Gaussian location by KSD falls as exp(−z²/2(ℓ² + σ²)), not as exp(−z²/4)."""

    @pytest.mark.parametrize(("sigma2", "lengthscale"), [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0)])
    def test_rate(self, sigma2, lengthscale):
        """∂_θ ∫k⁰(z, y)dP(y) by quadrature of the package's own Stein kernel."""
        with jax.enable_x64(True):
            k0 = lambda theta, z, y: ms.stein_kernel(
                ms.models.Gaussian(theta, np.sqrt(sigma2)), None, ms.kernels.Gaussian(lengthscale)
            )(z, y)
            slope = jax.jit(jax.vmap(jax.grad(k0), (None, None, 0)))
            nodes, weights = np.polynomial.hermite_e.hermegauss(120)
            y = jnp.asarray(np.sqrt(sigma2) * nodes[:, None])
            influence = lambda z: float(weights @ np.asarray(slope(0.0, jnp.array([z]), y)) / weights.sum())
            ratio = lambda z: np.log(abs(influence(z) / z))
            rate = -(ratio(3.0) - ratio(2.0)) / (9 - 4)
        assert rate == pytest.approx(1 / (2 * (lengthscale**2 + sigma2)), rel=1e-6)
        printed_holds = abs(rate - 0.25) < 1e-6
        assert printed_holds == (lengthscale**2 + sigma2 == 2)


class TestE6:
    """Symmetric Bessel: r^ν K_ν(r) is the density, not its logarithm; score matching is blind at s = 1."""

    @pytest.mark.parametrize("s", [0.6, 1.0, 2.0])
    def test_it_is_the_density(self, s):
        """Normalised with √π 2^ν Γ(ν + ½), ν = s − ½, it integrates to one and has variance 2s."""
        from scipy.special import gamma

        nu = s - 0.5
        normaliser = np.sqrt(np.pi) * 2**nu * gamma(nu + 0.5)
        model = ms.models.SymmetricBessel(0.0, 1.0, s)
        with jax.enable_x64(True):
            log_p = jax.jit(lambda x: model(jnp.array([x])))
            moment = lambda power: 2 * quad(lambda x: x**power * np.exp(float(log_p(x))), 0, 60, limit=300)[0]
            assert moment(0) / normaliser == pytest.approx(1, rel=1e-6)
            assert moment(2) / moment(0) == pytest.approx(2 * s, rel=1e-6)
            assert float(log_p(60.0)) < -50
        printed_log_density_at_infinity = 60**nu * np.exp(-60)
        assert abs(printed_log_density_at_infinity) < 1e-20  # exp of it tends to 1: not integrable

    def test_score_matching_of_laplace_is_flat_in_location_and_falls_in_scale(self):
        x = np.random.default_rng(0).laplace(size=200)
        loss = lambda loc, scale: ms.SM()(ms.models.SymmetricBessel(loc, scale, 1.0), x)
        np.testing.assert_allclose([loss(loc, 1.0) for loc in (-2.01, 0.013, 1.7)], 1.0, rtol=1e-12)
        assert loss(0.013, 1.0) > loss(0.013, 2.0) > loss(0.013, 100.0) > 0

    def test_ksd_of_laplace_is_not(self):
        x = np.random.default_rng(0).laplace(size=200)
        loss = lambda loc: ms.KSD(ms.kernels.Gaussian(1.0))(ms.models.SymmetricBessel(loc, 1.0, 1.0), x)
        assert loss(0.013) < 0.2 * min(loss(-1.01), loss(1.02))


class TestE7:
    """exp(−(x − θ₁)^θ₂) explodes for odd θ₂; with the absolute value it is a density."""

    def test_absolute_value(self):
        x = np.array([[-2.0], [2.0]])
        printed = -((x[:, 0] - 0.0) ** 5)
        assert printed[0] == 32
        with jax.enable_x64(True):
            ours = jax.vmap(ms.models.GeneralisedGamma(0.0, 5.0))(jnp.asarray(x))
        np.testing.assert_allclose(ours, [-32, -32], rtol=1e-14)

    def test_power_two_has_variance_one_half(self):
        x = ms.models.GeneralisedGamma(0.0, 2.0).sample(jax.random.key(0), 40_000)
        assert abs(x.var() - 0.5) < 4 * np.sqrt(2 * 0.25 / 40_000)


def rotation(x):
    angle = jnp.sin(x[0]) + x[1]
    return jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])


class TestE9E10:
    """For K(x, y) ≠ K(x, y)ᵀ the printed expansions miss a transpose; the package uses the definition."""

    x, y = np.array([0.3, -0.8]), np.array([1.1, 0.4])
    model = ms.models.Gaussian([0.2, -0.1], 1.3)
    matrix = staticmethod(lambda x: jnp.array([[1.0, 0.3 * x[0]], [jnp.sin(x[1]), 2.0]]))
    scalar = staticmethod(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2) / 2))

    @classmethod
    def kernel(cls, x, y):
        return rotation(x) @ jnp.diag(jnp.array([1.0, 3.0])) @ rotation(y).T * cls.scalar(x, y)

    def definition(self):
        """(1/pp′) Σ ∂_{x_i}∂_{y_l} [p m K mᵀ p′]_il, with the density itself and its mixed derivative."""
        log_p = lambda x: -jnp.sum((x - jnp.array([0.2, -0.1])) ** 2) / (2 * 1.3**2)
        conjugated = lambda x, y: self.matrix(x) @ self.kernel(x, y) @ self.matrix(y).T * jnp.exp(log_p(x) + log_p(y))
        mixed = jax.jacfwd(jax.jacfwd(conjugated, 0), 1)(jnp.asarray(self.x), jnp.asarray(self.y))
        return jnp.einsum("ilil->", mixed) / jnp.exp(log_p(jnp.asarray(self.x)) + log_p(jnp.asarray(self.y)))

    def expansion(self, in_y):
        """The five terms of the appendix, with a given reading of K in the two divergences in y."""
        x, y, m = jnp.asarray(self.x), jnp.asarray(self.y), self.matrix
        score = lambda x: -(x - jnp.array([0.2, -0.1])) / 1.3**2
        sx, sy = m(x).T @ score(x), m(y).T @ score(y)
        div = lambda field, x: jnp.einsum("jrj->r", jax.jacfwd(field)(x))
        div_x = lambda x, y: div(lambda x: m(x) @ self.kernel(x, y), x)
        div_y = div(lambda y: m(y) @ in_y(x, y), y)
        trace = jnp.trace(m(y) @ jax.jacfwd(div_x, 1)(x, y))
        return sx @ self.kernel(x, y) @ sy + div_y @ sx + div_x(x, y) @ sy + div_x(x, y) @ div(m, y) + trace

    @pytest.mark.slow
    def test_expansion(self):
        with jax.enable_x64(True):
            exact = self.definition()
            ours = ms.stein_kernel(self.model, self.matrix, self.kernel)(jnp.asarray(self.x), jnp.asarray(self.y))
            np.testing.assert_allclose(ours, exact, rtol=1e-12)
            np.testing.assert_allclose(self.expansion(lambda x, y: self.kernel(x, y).T), exact, rtol=1e-12)
            assert abs(self.expansion(self.kernel) / exact - 1) > 0.05

    @pytest.mark.slow
    def test_discrepancy_with_such_a_kernel(self):
        """On two observations the U-statistic is k⁰ itself, symmetric because K(y, x) = K(x, y)ᵀ."""
        with jax.enable_x64(True):
            exact = self.definition()
        for order in ([self.x, self.y], [self.y, self.x]):
            loss = ms.DKSD(self.kernel, self.matrix)(self.model, np.stack(order))
            np.testing.assert_allclose(loss, exact, rtol=1e-12)

    @pytest.mark.parametrize("transposed", [True, False])
    @pytest.mark.slow
    def test_product_of_scalar_and_matrix(self, transposed):
        """E10: with A = m(x) K₀ m(y)ᵀ and a scalar g, K = K₀ g, the terms with ∇_y log p and ∇_x log p take Aᵀ."""
        with jax.enable_x64(True):
            x, y = jnp.asarray(self.x), jnp.asarray(self.y)
            A = lambda x, y: self.matrix(x) @ self.kernel(x, y) @ self.matrix(y).T / self.scalar(x, y)
            g, score = self.scalar, lambda x: -(x - jnp.array([0.2, -0.1])) / 1.3**2
            M = A(x, y).T if transposed else A(x, y)
            gx, gy = jax.grad(g, 0)(x, y), jax.grad(g, 1)(x, y)
            direct = score(y) @ M @ score(x) * g(x, y) + score(y) @ M @ gx + gy @ M @ score(x)
            div_x = jnp.einsum("ili->l", jax.jacfwd(A, 0)(x, y))
            div_y = jnp.einsum("ill->i", jax.jacfwd(A, 1)(x, y))
            both = jnp.einsum("ilil->", jax.jacfwd(jax.jacfwd(A, 0), 1)(x, y))
            mixed = jnp.einsum("il,il->", A(x, y), jax.jacfwd(jax.grad(g, 0), 1)(x, y))
            rest = both * g(x, y) + div_x @ (gy + score(y) * g(x, y)) + div_y @ (gx + score(x) * g(x, y)) + mixed
            exact = self.definition()
            ratio = float((direct + rest) / exact)
        assert (abs(ratio - 1) < 1e-10) == transposed


class TestE11:
    """The U-statistic's A_n is not positive semi-definite, nor is a sum over i < j symmetric; the V-statistic's is."""

    @staticmethod
    def family(p):
        """Statistics x, …, xᵖ scaled like Hermite functions, with a Gaussian base."""
        from math import factorial

        scales = np.array([1 / np.sqrt(factorial(k)) for k in range(1, p + 1)])
        statistic = lambda x: scales * jnp.stack([x[0] ** k for k in range(1, p + 1)]) * jnp.exp(-(x[0] ** 2) / 4)
        return ms.models.ExponentialFamily(statistic, np.zeros(p), lambda x: -(x[0] ** 2) / 2)

    def smallest(self, p, n, unbiased, samples=20):
        ksd, family = ms.KSD(ms.kernels.Gaussian(1.0), unbiased=unbiased), self.family(p)
        draws = np.random.default_rng(p).standard_normal((samples, n))
        return np.array([np.linalg.eigvalsh(ms.quadratic(ksd, family, x).A)[0] for x in draws])

    @pytest.mark.slow
    def test_definiteness(self):
        assert np.all(self.smallest(5, 50, unbiased=True) < 0)
        assert np.all(self.smallest(5, 50, unbiased=False) > -1e-14)
        assert np.all(self.smallest(1, 50, unbiased=True) > 0)

    def test_symmetry(self):
        """A(x, y) = φ(x) k(x, y) φ(y)ᵀ, summed over i < j, is not symmetric; over i ≠ j it is what we have."""
        x = np.random.default_rng(1).standard_normal(6)
        k = np.exp(-((x[:, None] - x) ** 2) / 2)
        with jax.enable_x64(True):
            statistic = self.family(3).statistic
            phi = np.asarray(jax.vmap(lambda x: jax.jacfwd(statistic)(x)[:, 0])(jnp.asarray(x[:, None])))
        upper = np.triu(k, 1)
        printed = phi.T @ upper @ phi / (6 * 5 / 2)
        ours = ms.quadratic(ms.KSD(ms.kernels.Gaussian(1.0)), self.family(3), x).A
        assert not np.allclose(printed, printed.T, rtol=1e-3)
        np.testing.assert_allclose(ours, (printed + printed.T) / 2, rtol=1e-11)


class TestE15:
    """SM-hat of the paper carries a half that DSM-hat does not; the quadratic scoring rule gives half of DSM."""

    def test_factor_two(self):
        x = np.random.default_rng(2).standard_normal(50)
        loc, scale = 0.3, 1.4
        printed_sm = np.mean(-1 / scale**2 + 0.5 * ((x - loc) / scale**2) ** 2)
        loss = ms.SM()(ms.models.Gaussian(loc, scale), x)
        np.testing.assert_allclose(loss, 2 * printed_sm, rtol=1e-12)
        np.testing.assert_allclose(loss, ms.DSM(np.eye(1))(ms.models.Gaussian(loc, scale), x), rtol=1e-14)

    def test_scoring_rule(self):
        """S(x, P) = Δlog p + ½‖∇log p‖² has E_Q S(P) − E_Q S(Q) = ½ E_Q‖∇log p − ∇log q‖²."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        rule = lambda loc, scale: -1 / scale**2 + 0.5 * ((nodes - loc) / scale**2) ** 2
        gap = weights @ (rule(0.5, 1.3) - rule(0.0, 1.0)) / weights.sum()
        dsm = weights @ (-(nodes - 0.5) / 1.69 + nodes) ** 2 / weights.sum()
        assert gap == pytest.approx(dsm / 2, rel=1e-12)
        losses = [
            weights @ np.array([ms.SM()(model, node[None]) for node in nodes[:, None]]) / weights.sum()
            for model in (ms.models.Gaussian(0.5, 1.3), ms.models.Gaussian(0.0, 1.0))
        ]
        assert losses[0] - losses[1] == pytest.approx(dsm, rel=1e-12)


class TestE8:
    """The intractable model: with x₁x₂ in ψ and the weights in Liu et al.'s order it is a density."""

    def test_order_of_the_weights(self):
        """−log p is a quadratic form but for a bounded term, so that its Hessian far out decides."""

        def smallest(x1x2, others):
            base = lambda x: -0.5 * x @ x + x1x2 * x[0] * x[1] + others * x[0] * (x[2] + x[3] + x[4])
            return np.linalg.eigvalsh(-jax.hessian(base)(jnp.zeros(5)))[0]

        assert smallest(0.2, 0.6) == pytest.approx(-0.0583, abs=1e-4)
        assert smallest(0.6, 0.2) == pytest.approx(0.3072, abs=1e-4)

    def test_pole_of_the_diffusion(self):
        """A third of the draws of x₄ lie beyond the pole of 1/(1 + x); and the draws are right: x₄ by quadrature."""
        from studies.paper import liu

        x4 = np.asarray(liu.sample(jax.random.key(8), 20_000))[:, 3]
        density = lambda x: np.exp(-(x**2) / (2 * liu.COVARIANCE[3, 3]) - np.tanh(x))
        expected = lambda f: quad(lambda x: f(x) * density(x), -12, 12)[0] / quad(density, -12, 12)[0]
        beyond = quad(density, -12, -1)[0] / quad(density, -12, 12)[0]
        assert beyond == pytest.approx(0.335, abs=0.001)
        assert np.mean(x4 < -1) == pytest.approx(beyond, abs=4 * np.sqrt(0.335 * 0.665 / 20_000))
        assert np.tanh(x4).mean() == pytest.approx(expected(np.tanh), abs=4 * 0.56 / np.sqrt(20_000))


class TestE16:
    """Misprints of the appendix that change a number."""

    def test_norm_of_a_diagonal_kernel(self):
        """‖f‖² = Σᵢ‖fᵢ‖²/λᵢ: for f = K(·, x)a it is aᵀK(x, x)a, and ‖fᵢ‖² = (λᵢaᵢ)²k(x, x)."""
        lam, a, x = np.array([2.0, 5.0]), np.array([1.0, -3.0]), jnp.zeros(2)
        k = ms.kernels.Gaussian(1.0)
        norm = a @ np.asarray(ms.kernels.Separable(np.diag(lam), k)(x, x)) @ a
        parts = (lam * a) ** 2 * float(k(x, x))
        assert norm == pytest.approx((parts / lam).sum())
        assert all(abs(norm - parts.sum() / each) > 1 for each in lam)

    def test_an_integrable_positive_function_need_not_be_a_kernel(self):
        """Φ(x) = exp(−x⁴) > 0 is in L¹, yet its Gram matrices have negative eigenvalues."""
        x = np.linspace(-3, 3, 13)
        assert np.linalg.eigvalsh(np.exp(-((x[:, None] - x) ** 4)))[0] < -0.05


class TestE17:
    """O(d²) for a pair needs a radial kernel, and no product of matrices."""

    def test_trace(self):
        """tr(m(y)m(x)ᵀ∂ₓ∂ᵧk) = a⟨m(x), m(y)⟩ + b⟨m(x)ᵀu, m(y)ᵀu⟩ for ∂ₓ∂ᵧk = aI + buuᵀ."""
        rng = np.random.default_rng(17)
        x, y, mx, my = rng.normal(size=5), rng.normal(size=5), rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
        with jax.enable_x64(True):
            k = lambda x, y: ms.kernels.IMQ(1.5)(x, y)
            mixed = np.asarray(jax.jacfwd(jax.grad(k), 1)(jnp.asarray(x), jnp.asarray(y)))
        u = x - y
        q = 1.5**2 + u @ u
        a, b = q**-1.5, -3 * q**-2.5
        np.testing.assert_allclose(mixed, a * np.eye(5) + b * np.outer(u, u), rtol=1e-12)
        short = a * np.sum(mx * my) + b * (mx.T @ u) @ (my.T @ u)
        assert np.trace(my @ mx.T @ mixed) == pytest.approx(short, rel=1e-12)


class TestE18:
    """α ≥ θ₂ − 1 bounds the influence, but less does: θ₂ − 3/2 for DSM, θ₂ − 1 + 2β for DKSD with (c² + r²)^β."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("discrepancy", "sharp", "power"),
        [(ms.DSM, 3.5, 2), (lambda m: ms.DKSD(ms.kernels.IMQ(1.0), m), 3.0, 1)],
        ids=["DSM", "DKSD"],
    )
    def test_rate(self, discrepancy, sharp, power):
        x = ms.models.GeneralisedGamma(0.0, 5.0).sample(jax.random.key(18), 50)
        z = np.array([[1e3], [1e4]])
        for alpha in (sharp - 0.5, sharp, sharp + 0.5):
            fit = ms.fit(ms.models.GeneralisedGamma(0.1, 5.0), x, discrepancy(ms.diffusions.decay(alpha)))
            near, far = np.abs(np.asarray(ms.influence(fit, x, z))[:, 0])
            assert np.log10(far / near) == pytest.approx(power * (sharp - alpha), abs=0.02)
