"""The fast pair sum against plain NumPy, against autodiff over pairs, and against its own laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.data.sample import TILE

from ..truth import dksd as truth

RNG = np.random.default_rng(20190519)


def psd(d):
    A = RNG.standard_normal((d, d))
    return A @ A.T + np.eye(d)


MATRIX = {d: psd(d) for d in (1, 2, 3, 5, 20)}

FIELDS = {
    "identity": (None, lambda d: truth.constant_field(np.eye(d))),
    "scalar": (ms.diffusions.decay(2.0), lambda d: truth.scalar_field),
    "diagonal": (lambda x: (1 + x**2) ** -0.5, lambda d: truth.diagonal_field),
    "full": (lambda x: jnp.eye(len(x)) + jnp.outer(jnp.sin(x), jnp.cos(x)) / 10, lambda d: truth.full_field),
    "constant": (lambda x: jnp.asarray(MATRIX[len(x)], x.dtype), lambda d: truth.constant_field(MATRIX[d])),
}

KERNELS = {
    "gaussian": lambda d: (
        ms.kernels.Gaussian(1.3),
        [(np.eye(d), lambda D: truth.gaussian(D, 1.3))],
    ),
    "imq": lambda d: (
        ms.kernels.IMQ(0.7, -0.6),
        [(np.eye(d), lambda D: truth.imq(D, 0.7, -0.6))],
    ),
    "separable": lambda d: (
        ms.kernels.Separable(MATRIX[d], ms.kernels.IMQ(1.1)),
        [(MATRIX[d], lambda D: truth.imq(D, 1.1, -0.5))],
    ),
    "diagonal": lambda d: (
        ms.kernels.Diagonal([ms.kernels.Gaussian(1.0 + j) for j in range(d)], np.arange(1.0, d + 1)),
        [(np.diag((j + 1.0) * (np.arange(d) == j)), lambda D, j=j: truth.gaussian(D, 1.0 + j)) for j in range(d)],
    ),
    "sum": lambda d: (
        ms.kernels.Gaussian(0.8)
        + 2.0 * ms.kernels.IMQ(1.5)
        + ms.kernels.Separable(MATRIX[d], ms.kernels.Gaussian(2.0)),
        [
            (np.eye(d), lambda D: truth.gaussian(D, 0.8)),
            (2.0 * np.eye(d), lambda D: truth.imq(D, 1.5, -0.5)),
            (MATRIX[d], lambda D: truth.gaussian(D, 2.0)),
        ],
    ),
}


def exact_matrix(x, kernel, field, df=5.0):
    loc, scale = np.linspace(-0.2, 0.3, x.shape[1]), 1.4
    score = truth.student_t_score(x, loc, scale, df)
    m, div_m = FIELDS[field][1](x.shape[1])(x)
    return truth.stein_matrix(x, score, m, div_m, KERNELS[kernel](x.shape[1])[1])


def student_t(d):
    return ms.models.StudentT(np.linspace(-0.2, 0.3, d), 1.4, 5.0)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("kernel", ["imq", *(pytest.param(k, marks=pytest.mark.slow) for k in KERNELS if k != "imq")])
def test_every_kernel_and_field_in_three_dimensions(kernel, field):
    x = RNG.standard_t(5, (11, 3))
    k0 = exact_matrix(x, kernel, field)
    k, m = KERNELS[kernel](3)[0], FIELDS[field][0]
    np.testing.assert_allclose(ms.DKSD(k, m)(student_t(3), x), truth.u_statistic(k0), rtol=1e-11)
    np.testing.assert_allclose(ms.DKSD(k, m, unbiased=False)(student_t(3), x), truth.v_statistic(k0), rtol=1e-11)


@pytest.mark.parametrize(
    ("d", "kernel", "field"),
    [
        (1, "imq", "scalar"), (1, "separable", "full"), (1, "diagonal", "diagonal"),
        (2, "gaussian", "full"), (2, "diagonal", "constant"),
        (5, "imq", "diagonal"), (5, "separable", "scalar"), (5, "sum", "full"),
        (20, "imq", "identity"), (20, "gaussian", "diagonal"), (20, "separable", "scalar"),
    ],
)  # fmt: skip
def test_other_dimensions(d, kernel, field):
    x = RNG.standard_t(5, (9, d))
    dksd = ms.DKSD(KERNELS[kernel](d)[0], FIELDS[field][0])
    np.testing.assert_allclose(dksd(student_t(d), x), truth.u_statistic(exact_matrix(x, kernel, field)), rtol=1e-10)


@pytest.mark.parametrize("n", [2, 16, 17, TILE, TILE + 1, 2 * TILE + 88])
def test_tiles_and_padding_do_not_show(n):
    x = RNG.standard_t(5, (n, 2))
    k0 = exact_matrix(x, "imq", "scalar")
    u = ms.DKSD(KERNELS["imq"](2)[0], ms.diffusions.decay(2.0))
    v = ms.DKSD(KERNELS["imq"](2)[0], ms.diffusions.decay(2.0), unbiased=False)
    np.testing.assert_allclose(u(student_t(2), x), truth.u_statistic(k0), rtol=1e-10)
    np.testing.assert_allclose(v(student_t(2), x), truth.v_statistic(k0), rtol=1e-10)


def whitening(d):
    return np.linalg.cholesky(MATRIX[d]).T


REDUCIBLE = {
    "matern": (ms.kernels.Matern(1.2), None),
    "product": (ms.kernels.Gaussian(2.0) * ms.kernels.IMQ(1.0) * ms.kernels.Matern(3.0, 7 / 2), lambda x: 1 + x**2),
    "elliptical": (ms.kernels.Elliptical(whitening(2), ms.kernels.IMQ(1.0)), lambda x: 1 + x @ x),
    "elliptical, diagonal m": (ms.kernels.Elliptical(whitening(2), ms.kernels.IMQ(1.0)), lambda x: 1 + x**2),
    "elliptical onto a line": (ms.kernels.Elliptical(np.array([[1.0, -0.4]]), ms.kernels.Gaussian(1.0)), None),
    "tilted": (
        ms.kernels.Tilted(ms.kernels.Separable(MATRIX[2], ms.kernels.IMQ(1.0)), lambda x: jnp.exp(-0.2 * x @ x)),
        lambda x: jnp.array([[1.0, x[0]], [jnp.sin(x[1]), 2.0]]),
    ),
    "tilted twice": (
        ms.kernels.Tilted(ms.kernels.Tilted(ms.kernels.IMQ(1.0), ms.diffusions.decay(2.0)), lambda x: 1 + x[0] ** 2),
        lambda x: 1 + x**2,
    ),
    "diagonal of elliptical": (
        ms.kernels.Diagonal([ms.kernels.Elliptical(whitening(2), ms.kernels.IMQ(1.0)), ms.kernels.Matern(0.5)], [2, 1]),
        lambda x: 1 + x**2,
    ),
    "low rank": (ms.kernels.Separable([[1.0, 2.0], [2.0, 4.0]], ms.kernels.RationalQuadratic(1.0, 0.7)), None),
    "moving m": (
        ms.kernels.IMQ(1.0),
        ms.diffusions.of_model(lambda model, x: 1 + jnp.sum((x - model.loc) ** 2) / model.scale**2, moving=True),
    ),
    "held m": (
        ms.kernels.IMQ(1.0),
        ms.diffusions.of_model(lambda model, x: 1 + jnp.sum((x - model.loc) ** 2) / model.scale**2),
    ),
}  # fmt: skip


QUICK = ("elliptical, diagonal m",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in REDUCIBLE]
)
def test_loss_gradient_hessian_and_information_equal_autodiff_over_pairs(name):
    kernel, m = REDUCIBLE[name]
    model, x = ms.models.StudentT([0.1, -0.3], 1.2, 5.0), RNG.standard_t(5, (7, 2))
    fast = ms.DKSD(kernel, m, unbiased=name != "tilted")
    slow = ms.DKSD(lambda x, y: kernel(x, y), m, unbiased=name != "tilted")
    assert fast.pairing(*x.shape) != "autodiff"
    assert slow.pairing(*x.shape) == "autodiff"
    twice = name in ("moving m", "held m", "tilted", "diagonal of elliptical")
    for derivative in (ms.value_and_grad, ms.information, *([ms.hessian] if twice else [])):
        ours, theirs = derivative(fast, model, x), derivative(slow, model, x)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_a_product_without_reduction_falls_back_to_autodiff():
    a = ms.kernels.Elliptical(whitening(2), ms.kernels.IMQ(1.0))
    kernel = a * ms.kernels.Gaussian(2.0)
    assert kernel.terms() is None
    x = RNG.standard_normal((5, 2))
    product = ms.KSD(lambda x, y: a(x, y) * jnp.exp(-jnp.sum((x - y) ** 2) / 8))
    np.testing.assert_allclose(ms.KSD(kernel)(student_t(2), x), product(student_t(2), x), rtol=1e-12)


@pytest.mark.slow
def test_functions_may_be_parts_of_kernels():
    fn = lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2) / 8)
    x, B = RNG.standard_normal((6, 2)), MATRIX[2]
    pairs = [
        (ms.kernels.IMQ(1.0) + fn, ms.kernels.IMQ(1.0) + ms.kernels.Gaussian(2.0)),
        (ms.kernels.IMQ(1.0) * fn, ms.kernels.IMQ(1.0) * ms.kernels.Gaussian(2.0)),
        (ms.kernels.Separable(B, fn), ms.kernels.Separable(B, ms.kernels.Gaussian(2.0))),
    ]
    for with_function, without in pairs:
        np.testing.assert_allclose(ms.KSD(with_function)(student_t(2), x), ms.KSD(without)(student_t(2), x), rtol=1e-12)


def test_a_function_without_derivatives_at_equal_points_is_fine_between_others():
    """A Matérn kernel written with a norm has no derivative at x = y; the U-statistic never asks for it."""
    scaled = lambda x, y: jnp.sqrt(5.0) * jnp.linalg.norm(x - y)
    written = lambda x, y: (1 + scaled(x, y) + scaled(x, y) ** 2 / 3) * jnp.exp(-scaled(x, y))
    x = RNG.standard_normal((6, 2))
    loss = ms.KSD(ms.kernels.Matern(1.0))(student_t(2), x)
    np.testing.assert_allclose(ms.KSD(written)(student_t(2), x), loss, rtol=1e-11)
    with pytest.raises(ValueError, match="not twice differentiable at some pair of observations"):
        ms.KSD(written)(student_t(2), np.repeat(x, 2, axis=0))


class TestLaws:
    x = RNG.standard_t(5, (40, 2))
    ksd = ms.KSD(ms.kernels.IMQ(1.0))

    def test_order_of_rows_does_not_matter(self):
        shuffled = self.x[RNG.permutation(40)]
        np.testing.assert_allclose(self.ksd(student_t(2), shuffled), self.ksd(student_t(2), self.x), rtol=1e-11)

    def test_nor_does_a_far_outlier_in_the_first_row(self):
        far = np.concatenate([[[1e9, -1e9]], RNG.standard_normal((140, 2))])
        first, last = self.ksd(student_t(2), far), self.ksd(student_t(2), far[::-1])
        np.testing.assert_allclose(first, last, rtol=1e-11)

    def test_a_constant_in_log_p_does_not_matter(self):
        log_p = lambda shift: ms.models.from_log_density(lambda p, x: -jnp.sum((x - p) ** 2) + shift, np.zeros(2))
        np.testing.assert_allclose(self.ksd(log_p(0.0), self.x), self.ksd(log_p(123.0), self.x), rtol=1e-14)

    def test_scalar_diffusion_is_a_tilted_kernel(self):
        w = ms.diffusions.decay(2.0)
        tilted = ms.KSD(ms.kernels.Tilted(ms.kernels.IMQ(1.0), w))
        dksd = ms.DKSD(ms.kernels.IMQ(1.0), w)
        np.testing.assert_allclose(dksd(student_t(2), self.x), tilted(student_t(2), self.x), rtol=1e-13)

    def test_diffusion_and_kernel_make_one_kernel(self):
        """DKSD with (K, m) is KSD with m(x) K(x, y) m(y)ᵀ."""
        m = lambda x: jnp.eye(2) + jnp.outer(jnp.sin(x), jnp.cos(x)) / 10
        K = ms.kernels.Separable(MATRIX[2], ms.kernels.IMQ(1.0))
        joint = ms.KSD(lambda x, y: m(x) @ K(x, y) @ m(y).T)
        np.testing.assert_allclose(ms.DKSD(K, m)(student_t(2), self.x), joint(student_t(2), self.x), rtol=1e-11)

    def test_gram_matrix_is_positive_semidefinite(self):
        for name in ("tilted", "diagonal of elliptical"):
            kernel, m = REDUCIBLE[name]
            eigenvalues = np.linalg.eigvalsh(ms.stein_matrix(ms.DKSD(kernel, m), student_t(2), self.x))
            assert eigenvalues[0] > -1e-12 * eigenvalues[-1]

    def test_coincident_points_are_fine(self):
        twice = np.repeat(self.x[:10], 2, axis=0)
        k0 = exact_matrix(twice, "imq", "scalar")
        dksd = ms.DKSD(KERNELS["imq"](2)[0], ms.diffusions.decay(2.0))
        np.testing.assert_allclose(dksd(student_t(2), twice), truth.u_statistic(k0), rtol=1e-11)
        assert np.isfinite(ms.value_and_grad(ms.KSD(ms.kernels.Matern(1.0)), student_t(2), twice)[1]).all()


@pytest.mark.parametrize("d", [1, 20])
def test_data_far_from_the_origin(d):
    """A location of 1e6 with unit spread costs at most 1e-7 of the value and of the gradient."""
    x = RNG.standard_normal((50, d)).round(6)
    for field in (None, lambda x: 1 + jnp.cos(x) / 2):
        shifted = None if field is None else lambda x: 1 + jnp.cos(x - 1e6) / 2
        here = ms.value_and_grad(ms.DKSD(ms.kernels.IMQ(1.0), field), ms.models.Gaussian(np.full(d, 0.1), 1.3), x)
        there = ms.value_and_grad(
            ms.DKSD(ms.kernels.IMQ(1.0), shifted), ms.models.Gaussian(np.full(d, 1e6 + 0.1), 1.3), x + 1e6
        )
        np.testing.assert_allclose(there[0], here[0], rtol=1e-7)
        np.testing.assert_allclose(there[1], here[1], rtol=1e-7, atol=1e-9 * np.abs(here[1]).max())


@pytest.mark.parametrize("field", ["identity", "diagonal", "full"])
def test_data_that_span_many_lengthscales(field):
    """Cauchy data with a cluster 1e5 lengthscales away: no digits are lost to the spread."""
    x = np.concatenate([RNG.standard_cauchy(200), 1e5 + RNG.standard_normal(20)])[:, None]
    k0 = exact_matrix(x, "imq", field)
    dksd = ms.DKSD(KERNELS["imq"](1)[0], FIELDS[field][0])
    np.testing.assert_allclose(dksd(student_t(1), x), truth.u_statistic(k0), rtol=1e-10)


class TestTransformations:
    x = RNG.standard_normal((20, 2))
    ksd = ms.KSD(ms.kernels.IMQ(1.0))

    def loss(self, vector, x):
        return self.ksd(ms.models.StudentT(vector[:2], vector[2], 5.0), x)

    def test_grad_of_the_call_is_the_gradient(self):
        with jax.enable_x64(True):
            vector = jnp.array([0.1, -0.3, 1.2])
            gradient = jax.jit(jax.grad(self.loss))(vector, self.x)
        expected = ms.value_and_grad(self.ksd, ms.models.StudentT([0.1, -0.3], 1.2, 5.0), self.x)[1]
        np.testing.assert_allclose(gradient, expected, rtol=1e-13)

    def test_grad_with_respect_to_the_model_itself(self):
        model = ms.models.StudentT([0.1, -0.3], 1.2, 5.0)
        with jax.enable_x64(True):
            gradient = jax.grad(self.ksd)(model, self.x)
        expected = ms.value_and_grad(self.ksd, model, self.x)[1]
        np.testing.assert_allclose([*gradient.loc, gradient.scale], expected, rtol=1e-13)

    @pytest.mark.slow
    def test_hessians_by_any_mode_agree(self):
        with jax.enable_x64(True):
            vector = jnp.array([0.1, -0.3, 1.2])
            forward = jax.hessian(self.loss)(vector, self.x)
            reverse = jax.jacrev(jax.jacrev(self.loss))(vector, self.x)
        np.testing.assert_allclose(forward, reverse, rtol=1e-12)
        expected = ms.hessian(self.ksd, ms.models.StudentT([0.1, -0.3], 1.2, 5.0), self.x)
        np.testing.assert_allclose(forward, expected, rtol=1e-12)

    def test_vmap_over_data_sets_and_over_parameters(self):
        with jax.enable_x64(True):
            samples = jnp.asarray(RNG.standard_normal((3, 20, 2)))
            vectors = jnp.array([[0.1, -0.3, 1.2], [0.0, 0.0, 1.0], [1.0, 1.0, 2.0]])
            together = jax.vmap(self.loss)(vectors, samples)
            each = [self.loss(vector, sample) for vector, sample in zip(vectors, samples, strict=True)]
        np.testing.assert_allclose(together, each, rtol=1e-12)

    def test_gradient_in_the_data_or_the_kernel_is_refused(self):
        model = ms.models.StudentT([0.1, -0.3], 1.2, 5.0)
        with pytest.raises(TypeError, match="not in x or in the kernel"):
            jax.grad(lambda x: self.ksd(model, x))(jnp.asarray(self.x, jnp.float32))
        with pytest.raises(TypeError, match="not in x or in the kernel"):
            jax.grad(lambda c: ms.KSD(ms.kernels.IMQ(c))(model, jnp.asarray(self.x, jnp.float32)))(1.0)

    def test_so_is_a_mixed_derivative(self):
        """Of the gradient in θ, where the rule for the value itself is not asked."""
        gradient = lambda x, c: jax.grad(lambda a: ms.KSD(ms.kernels.IMQ(c))(ms.models.Gaussian([a, a], 1.0), x))(0.1)
        x = jnp.asarray(self.x, jnp.float32)
        for argnum in (0, 1):
            for mode in (jax.jacfwd, jax.jacrev):
                with pytest.raises(TypeError, match="not in x or in the kernel"):
                    mode(gradient, argnums=argnum)(x, 1.0)

    def test_a_concrete_call_inside_jit(self):
        model = ms.models.StudentT([0.1, -0.3], 1.2, 5.0)
        x = self.x.astype(np.float32)
        inside = jax.jit(lambda s: s + self.ksd(model, x))(1.0)
        np.testing.assert_allclose(inside, 1 + self.ksd(model, x), rtol=1e-6)
