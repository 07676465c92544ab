"""Score matching and its relatives against their formulas, and the choices each discrepancy offers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

RNG = np.random.default_rng(11)
X = RNG.standard_normal((30, 3))


def test_score_matching_of_a_gaussian():
    """‖s‖² + 2Δlog p = ‖Σ⁻¹(x − μ)‖² − 2 tr Σ⁻¹."""
    covariance = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])
    precision = np.linalg.inv(covariance)
    exact = (((X - 0.2) @ precision) ** 2).sum(1).mean() - 2 * np.trace(precision)
    model = ms.models.Gaussian.from_covariance(np.full(3, 0.2), covariance)
    np.testing.assert_allclose(ms.SM()(model, X), exact, rtol=1e-13)


def test_diffusion_score_matching_with_a_full_field():
    """‖mᵀs‖² + 2∇·(mmᵀs) by central differences of the vector field."""
    matrix = lambda x: np.eye(3) + 0.1 * np.outer(np.sin(x), np.cos(x))
    score = lambda x: -(x - 0.2) / 1.5**2
    v = lambda x: matrix(x) @ matrix(x).T @ score(x)
    h = 1e-5
    divergence = lambda x: sum((v(x + h * e)[i] - v(x - h * e)[i]) / (2 * h) for i, e in enumerate(np.eye(3)))
    exact = np.mean([np.sum((matrix(x).T @ score(x)) ** 2) + 2 * divergence(x) for x in X])
    dsm = ms.DSM(lambda x: jnp.eye(3) + 0.1 * jnp.outer(jnp.sin(x), jnp.cos(x)))
    np.testing.assert_allclose(dsm(ms.models.Gaussian(np.full(3, 0.2), 1.5), X), exact, rtol=1e-8)


def test_non_negative_score_matching():
    """m = x gives Hyvärinen's loss for non-negative data: x²s² + 2(2xs + x²s′), for an exponential-type density."""
    x = RNG.gamma(2.0, 1.0, 50)
    theta = 1.3
    s, slope = 1 / x - theta, -1 / x**2
    exact = np.mean(x**2 * s**2 + 2 * (2 * x * s + x**2 * slope))
    model = ms.models.from_log_density(lambda p, x: jnp.log(x[0]) - p * x[0], theta)
    np.testing.assert_allclose(ms.DSM(lambda x: x)(model, x), exact, rtol=1e-12)


def test_dsm_is_the_limit_of_dksd():
    """With the kernel Φ_γ(x − y)/√(q(x)q(y)) the population DKSD tends to DSM as γ → 0 (q = N(0,1), p = N(.5,1.3²))."""
    grid = np.linspace(-8, 8, 2001)
    step = grid[1] - grid[0]
    q = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    delta = -(grid - 0.5) / 1.69 + grid
    dsm = np.sum(delta**2 * q) * step
    x = np.random.default_rng(0).standard_normal(200_000)
    model = ms.models.Gaussian(0.5, 1.3)
    constant = np.mean((x) ** 2) - 2  # SM loss of the data's own density, up to which DSM is the loss
    error = 4 * np.std(((x - 0.5) / 1.69) ** 2 - x**2) / np.sqrt(len(x))
    assert abs(ms.SM()(model, x) - constant - dsm) < error
    previous = np.inf
    for gamma in (1.0, 0.3, 0.1, 0.03):
        smooth = np.exp(-((grid[:, None] - grid) ** 2) / (2 * gamma**2)) / (gamma * np.sqrt(2 * np.pi))
        dksd = (delta * np.sqrt(q)) @ smooth @ (delta * np.sqrt(q)) * step**2
        assert abs(dksd - dsm) < previous
        previous = abs(dksd - dsm)
    assert previous < 1e-4


class TestRandomDirections:
    """Hutchinson's and sliced estimates are unbiased, and need no d×d Hessian."""

    model = ms.models.from_log_density(
        lambda p, x: -jnp.sum((x - p) ** 4) - x[0] * x[1] * x[2] - 0.5 * x[0] * x[2] ** 2, np.array([0.1, 0.0, -0.2])
    )

    @pytest.mark.parametrize("estimate", [ms.Hutchinson, ms.Sliced])
    def test_unbiased(self, estimate):
        field = lambda x: 1 + 0.1 * jnp.sin(x)
        exact = ms.DSM(field)(self.model, X)
        draws = np.array([ms.DSM(field, divergence=estimate(jax.random.key(i), 4))(self.model, X) for i in range(200)])
        assert draws.std() > 0
        assert abs(draws.mean() - exact) < 4 * draws.std() / np.sqrt(len(draws))

    def test_random_signs_are_exact_for_a_diagonal_hessian(self):
        model = ms.models.Gaussian(np.zeros(3), [1.0, 2.0, 0.5])
        sliced = ms.SM(divergence=ms.Hutchinson(jax.random.key(3)))
        np.testing.assert_allclose(sliced(model, X), ms.SM()(model, X), rtol=1e-13)

    def test_the_same_key_gives_the_same_loss_whatever_the_padding(self):
        loss = ms.SM(divergence=ms.Hutchinson(jax.random.key(3)))
        np.testing.assert_array_equal(loss(self.model, X), loss(self.model, X))
        last = lambda x: loss(self.model, x[:17]) * 17 - loss(self.model, x[:16]) * 16  # buckets of 32 and of 16
        others = np.concatenate([X[13:29], X[16:17]])
        np.testing.assert_allclose(last(X), last(others), rtol=1e-9)

    def test_images_of_784_pixels(self):
        """The trace of a 784×784 Hessian is never formed: a matrix of that size for each row would be 4.9 GB."""
        x = np.random.default_rng(1).standard_normal((1000, 784))
        energy = ms.models.from_log_density(lambda p, x: -p * jnp.sum(jnp.cosh(x / 10)) * 100, 1.0)
        loss, gradient = ms.value_and_grad(ms.SM(divergence=ms.Hutchinson(jax.random.key(0))), energy, x)
        exact = np.mean((10 * np.sinh(x / 10)).__pow__(2).sum(1) - 2 * np.cosh(x / 10).sum(1))
        np.testing.assert_allclose(loss, exact, rtol=1e-12)
        np.testing.assert_allclose(
            gradient[0],
            np.mean(2 * (10 * np.sinh(x / 10)) ** 2 @ np.ones(784) - 2 * np.cosh(x / 10).sum(1)),
            rtol=1e-12,
        )


def test_blocks_of_rows_do_not_show():
    """Enough rows and coordinates that the Hessians come in several blocks."""
    x = RNG.standard_normal((700, 60))
    scale = np.linspace(0.5, 2.0, 60)
    loss, gradient = ms.value_and_grad(ms.SM(), ms.models.Gaussian(np.zeros(60), ms.fixed(scale)), x)
    np.testing.assert_allclose(loss, ((x / scale**2) ** 2).sum(1).mean() - 2 * np.sum(scale**-2.0), rtol=1e-12)
    np.testing.assert_allclose(gradient, -2 * x.mean(0) / scale**4, rtol=1e-10, atol=1e-13)


class TestDiffusions:
    x = X[:8]
    model = ms.models.StudentT([0.1, -0.2, 0.0], 1.2, 5.0)
    kernel = ms.kernels.IMQ(1.0)

    def test_constants(self):
        matrix = np.array([[1.0, 0.2, 0.0], [0.0, 2.0, 0.1], [0.3, 0.0, 1.0]])
        for constant in (2.0, np.array([1.0, 2.0, 3.0]), matrix):
            as_function = ms.DKSD(self.kernel, lambda x, c=constant: jnp.asarray(c, x.dtype))
            np.testing.assert_allclose(
                ms.DKSD(self.kernel, constant)(self.model, self.x), as_function(self.model, self.x), rtol=1e-13
            )
        four = ms.DKSD(self.kernel, 2.0)(self.model, self.x)
        np.testing.assert_allclose(four, 4 * ms.KSD(self.kernel)(self.model, self.x), rtol=1e-13)

    def test_decay(self):
        centre = np.array([0.5, 0.0, -0.5])
        with jax.enable_x64(True):
            values = jax.vmap(ms.diffusions.decay(1.5, centre))(jnp.asarray(self.x))
        np.testing.assert_allclose(values, 1 / (1 + np.linalg.norm(self.x - centre, axis=1) ** 1.5), rtol=1e-13)

    def test_a_held_field_is_not_differentiated(self):
        fn = lambda model, x: 1 + jnp.sum((x - model.loc) ** 2) / model.scale**2
        held, moving = ms.diffusions.of_model(fn), ms.diffusions.of_model(fn, moving=True)
        frozen = ms.DKSD(self.kernel, held.at(self.model))
        losses = {
            name: ms.value_and_grad(ms.DKSD(self.kernel, m), self.model, self.x)
            for name, m in {"held": held, "moving": moving}.items()
        }
        loss, gradient = ms.value_and_grad(frozen, self.model, self.x)
        np.testing.assert_allclose(losses["held"][0], loss, rtol=1e-13)
        np.testing.assert_allclose(losses["held"][1], gradient, rtol=1e-12)
        np.testing.assert_allclose(losses["moving"][0], loss, rtol=1e-13)
        assert not np.allclose(losses["moving"][1], gradient, rtol=1e-3)

    def test_dsm_refuses_a_field_of_the_model(self):
        with pytest.raises(TypeError, match="does not depend on the model, because its θ-dependent terms"):
            ms.DSM(ms.diffusions.of_model(lambda model, x: 1.0))

    def test_a_field_at_the_origin_of_its_decay_has_a_gradient(self):
        x = np.array([0.0, 1.0, -2.0])
        for alpha in (1.0, 1.5, 2.0, 4.0):
            dksd = ms.DKSD(self.kernel, ms.diffusions.decay(alpha))
            assert np.isfinite(ms.value_and_grad(dksd, ms.models.Gaussian(0.1, 1.0), x)[1]).all()


def test_v_statistic_is_non_negative_and_u_may_be_negative():
    x = ms.models.Gaussian(0.0, 1.0).sample(jax.random.key(0), 20)
    model = ms.models.Gaussian(0.0, 1.0)
    samples = RNG.standard_normal((30, 20))
    assert min(ms.KSD(ms.kernels.IMQ(1.0), unbiased=False)(model, s) for s in samples) > 0
    assert min(ms.KSD(ms.kernels.IMQ(1.0))(model, s) for s in samples) < 0
    assert x.dtype == np.float64


@pytest.mark.slow
def test_u_statistic_is_unbiased_at_the_truth():
    model = ms.models.StudentT(0.0, 1.0, 5.0)
    samples = model.sample(jax.random.key(5), 6000).reshape(300, 20)
    values = np.array([ms.KSD(ms.kernels.IMQ(1.0))(model, s) for s in samples])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.slow
def test_hessian_is_twice_the_information_at_the_truth():
    """At the truth H → 2g, whether m moves with θ or not; the tolerance is Monte-Carlo error over replications."""
    model = ms.models.StudentT(0.0, 1.0, 5.0)
    m = ms.diffusions.of_model(lambda model, x: 1 + ((x[0] - model.loc) / model.scale) ** 2 / model.df, moving=True)
    dksd = ms.DKSD(ms.kernels.IMQ(1.0), m)
    gaps = []
    for key in jax.random.split(jax.random.key(2), 40):
        x = model.sample(key, 250)
        gaps.append(ms.hessian(dksd, model, x) - 2 * ms.information(dksd, model, x))
    gaps = np.array(gaps)
    assert np.all(np.abs(gaps.mean(0)) < 4 * gaps.std(0) / np.sqrt(len(gaps)))
    assert np.all(np.diag(ms.information(dksd, model, x)) > 5 * np.diag(np.abs(gaps.mean(0))))


def test_quadratic_refuses_what_is_not():
    with pytest.raises(ValueError, match="not quadratic in θ"):
        ms.quadratic(ms.KSD(ms.kernels.IMQ(1.0)), ms.models.StudentT(0.3, 1.0, 5.0), RNG.standard_normal(10))


def test_quadratic_is_not_deceived_by_the_point_it_starts_from():
    """The expansion at 0 is exact at 0 for every loss: the check looks elsewhere."""
    model = ms.models.from_log_density(lambda p, x: -(x[0] ** 2) / 2 + jnp.sin(p) * x[0] + p**3 * x[0] ** 2, 0.0)
    with pytest.raises(ValueError, match="not quadratic in θ"):
        ms.quadratic(ms.SM(), model, RNG.standard_normal(10))


def test_ksd_gaussian_location_has_a_closed_form():
    """θ̂ = Σ_{i≠j} k_ij xᵢ / Σ_{i≠j} k_ij for a Gaussian kernel."""
    x = RNG.standard_normal(25)
    k = np.exp(-((x[:, None] - x) ** 2) / (2 * 0.7**2))
    np.fill_diagonal(k, 0)
    A, v, _ = ms.quadratic(ms.KSD(ms.kernels.Gaussian(0.7)), ms.models.Gaussian(0.0, ms.fixed(1.0)), x)
    np.testing.assert_allclose(-v[0] / (2 * A[0, 0]), k.sum(1) @ x / k.sum(), rtol=1e-11)
