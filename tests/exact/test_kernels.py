"""Kernels: their values against SciPy, their derivatives against JAX, and the laws every kernel obeys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gamma, kv

import minstein as ms
from minstein.kernels import IMQ, Diagonal, Elliptical, Gaussian, Matern, RationalQuadratic, Separable, Tilted

RNG = np.random.default_rng(7)

RADIAL = [
    Gaussian(0.7),
    IMQ(1.3),
    IMQ(0.8, -1.5),
    IMQ(0.8, -0.3),
    Matern(1.1),
    Matern(0.9, 7 / 2),
    RationalQuadratic(0.6),
    RationalQuadratic(1.2, 0.4),
    (Gaussian(1.0) + IMQ(2.0)).terms()[0].profile,
    (Gaussian(1.0) * IMQ(2.0) * Matern(1.0)).terms()[0].profile,
    (3.0 * Matern(1.0)).terms()[0].profile,
]

ALL = [
    *RADIAL[:8],
    Gaussian(1.0) + 2.0 * IMQ(1.0),
    Gaussian(1.0) * Matern(2.0),
    Elliptical([[1.0, 0.5], [0.0, 2.0]], IMQ(1.0)),
    Tilted(IMQ(1.0), lambda x: 1 / (1 + x @ x)),
    Separable([[2.0, 0.5], [0.5, 1.0]], Gaussian(1.2)),
    Separable([[1.0, 2.0], [2.0, 4.0]], IMQ(1.2)),
    Diagonal([Gaussian(0.9), IMQ(1.3, -0.6)], [0.7, 1.9]),
    Diagonal([Gaussian(0.9), IMQ(1.3, -0.6)]) + IMQ(1.0),
    Tilted(Separable([[2.0, 0.5], [0.5, 1.0]], Elliptical([[1.0, 0.5]], IMQ(1.0))), lambda x: jnp.cos(x[0])),
]


def matern(r, lengthscale, nu):
    """The Matérn kernel for any smoothness, from its definition by a Bessel function."""
    z = np.sqrt(2 * nu) * r / lengthscale
    return 2 ** (1 - nu) / gamma(nu) * z**nu * kv(nu, z)


@pytest.mark.parametrize(
    ("kernel", "exact"),
    [
        (Gaussian(0.7), lambda r: np.exp(-(r**2) / (2 * 0.49))),
        (IMQ(1.3), lambda r: 1 / np.sqrt(1.69 + r**2)),
        (IMQ(0.8, -1.5), lambda r: (0.64 + r**2) ** -1.5),
        (IMQ(0.8, -0.3), lambda r: (0.64 + r**2) ** -0.3),
        (Matern(1.1), lambda r: matern(r, 1.1, 2.5)),
        (Matern(0.9, 7 / 2), lambda r: matern(r, 0.9, 3.5)),
        (RationalQuadratic(1.2, 0.4), lambda r: (1 + r**2 / (0.8 * 1.44)) ** -0.4),
    ],
    ids=lambda value: str(value) if isinstance(value, ms.kernels.AbstractKernel) else "",
)
def test_values(kernel, exact):
    with jax.enable_x64(True):
        y = RNG.standard_normal((20, 3))
        values = jax.vmap(kernel, (None, 0))(jnp.zeros(3), jnp.asarray(y))
    np.testing.assert_allclose(values, exact(np.linalg.norm(y, axis=1)), rtol=1e-12)


@pytest.mark.parametrize("kernel", RADIAL, ids=str)
def test_profile_derivatives_equal_autodiff(kernel):
    with jax.enable_x64(True):
        u = jnp.asarray([1e-3, 0.1, 1.0, 7.0, 300.0])
        kappa = lambda u: kernel.profile(u)[0]
        _, first, second = kernel.profile(u)
        np.testing.assert_allclose(first, jax.vmap(jax.grad(kappa))(u), rtol=1e-9)
        np.testing.assert_allclose(second, jax.vmap(jax.grad(jax.grad(kappa)))(u), rtol=1e-7)


@pytest.mark.parametrize("kernel", RADIAL, ids=str)
def test_second_derivatives_exist_at_coincident_points(kernel):
    """∂_x∂_y k = −2κ′(0) I at x = y."""
    with jax.enable_x64(True):
        x = jnp.array([0.3, -0.2])
        mixed = jax.jacfwd(jax.grad(kernel), argnums=1)(x, x)
        slope = (kernel.profile(jnp.asarray(1e-12))[0] - kernel.profile(jnp.asarray(0.0))[0]) / 1e-12
        np.testing.assert_allclose(mixed, -2 * kernel.profile(jnp.asarray(0.0))[1] * np.eye(2), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(kernel.profile(jnp.asarray(0.0))[1], slope, rtol=1e-3)


@pytest.mark.parametrize("kernel", [Gaussian(0.7), IMQ(1.3), Matern(1.1), RationalQuadratic(1.2)], ids=str)
def test_lengthscale_can_be_differentiated(kernel):
    with jax.enable_x64(True):
        x, y = jnp.array([0.3, -0.2]), jnp.array([1.0, 0.4])
        value = lambda kernel: kernel(x, y)
        gradient = jax.tree.leaves(jax.grad(value)(kernel))[0]
        moved = lambda h: value(jax.tree.map(lambda leaf: leaf + h, kernel))
        np.testing.assert_allclose(gradient, (moved(1e-6) - moved(-1e-6)) / 2e-6, rtol=1e-7)


def as_matrix(h, d=2):
    h = np.asarray(h)
    return h if h.ndim == 2 else np.diag(np.broadcast_to(h, d))


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_terms_add_up_to_the_kernel(kernel):
    """K = Σ w(x) w(y) κ(‖A(x − y)‖²) LLᵀ."""
    with jax.enable_x64(True):
        x, y = jnp.array([0.3, -0.2]), jnp.array([1.0, 0.4])
        total = np.zeros((2, 2))
        for term in kernel.terms():
            A = np.eye(2) if term.whiten is None else term.whiten
            L = np.eye(2) if term.mix is None else term.mix
            L = L if term.column is None else term.mix * np.eye(2)[:, [term.column]]
            w = 1.0 if term.weight is None else term.weight(x) * term.weight(y)
            total += w * term.profile.profile(jnp.sum((A @ (x - y)) ** 2))[0] * (L @ L.T)
        np.testing.assert_allclose(total, as_matrix(kernel(x, y)), rtol=1e-13)


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_kernel_is_symmetric_and_positive_semidefinite(kernel):
    with jax.enable_x64(True):
        x = jnp.asarray(RNG.standard_normal((12, 2)))
        blocks = jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(x))(x)
    gram = np.block([[as_matrix(blocks[i, j]) for j in range(12)] for i in range(12)])
    np.testing.assert_allclose(gram, gram.T, atol=1e-14)
    assert np.linalg.eigvalsh(gram)[0] > -1e-11


class TestMedianHeuristic:
    @settings(deadline=None, max_examples=30)
    @given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1))
    def test_it_is_the_median_of_non_zero_distances(self, values):
        distances = [abs(a - b) for i, a in enumerate(values) for b in values[:i] if (a - b) ** 2 > 0]
        if distances:
            assert ms.kernels.median_heuristic(np.array(values)) == pytest.approx(np.median(distances), rel=1e-12)

    def test_ties_never_make_it_zero(self):
        assert ms.kernels.median_heuristic(np.array([0.0] * 50 + [2.0])) == 2.0
        mostly_tied = np.zeros(100_000)
        mostly_tied[1] = 3.0
        assert ms.kernels.median_heuristic(mostly_tied) == 3.0

    def test_a_subset_stands_for_large_samples(self):
        """The median distance of a standard normal sample is √2 · 0.6745; its standard error here is about 0.01."""
        x = np.random.default_rng(0).standard_normal(200_000)
        assert ms.kernels.median_heuristic(x) == pytest.approx(np.sqrt(2) * 0.6744897501960817, abs=0.05)

    def test_equal_rows_are_an_error(self):
        with pytest.raises(ValueError, match="all rows of x are equal"):
            ms.kernels.median_heuristic(np.ones((5, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0.0), "Gaussian: lengthscale must be a positive number, got 0"),
        (lambda: Gaussian(-1.0), "lengthscale must be a positive number, got -1"),
        (lambda: Gaussian(np.nan), "lengthscale must be a positive number, got nan"),
        (lambda: Gaussian([1.0, 2.0]), r"got an array of shape \(2,\)"),
        (lambda: IMQ(0.0), "IMQ: c must be a positive number"),
        (lambda: IMQ(-2.0), "c must be a positive number, got -2"),
        (lambda: IMQ(1.0, 0.0), "beta must be negative, got 0"),
        (lambda: IMQ(1.0, 0.5), "beta must be negative, got 0.5"),
        (lambda: Matern(0.0), "Matern: lengthscale"),
        (lambda: Matern(1.0, 1.5), "smoothness must be 5/2 or 7/2, got 1.5"),
        (lambda: RationalQuadratic(1.0, -1.0), "alpha must be a positive number"),
        (lambda: Separable([[1.0, 0.5], [0.2, 1.0]], IMQ(1.0)), "B must be symmetric"),
        (lambda: Separable([[1.0, 2.0], [2.0, 1.0]], IMQ(1.0)), "smallest eigenvalue is -1"),
        (lambda: Separable([1.0, 2.0], IMQ(1.0)), r"B must have shape \(d, d\), got \(2,\)"),
        (lambda: Diagonal([IMQ(1.0)], [1.0, 2.0]), "1 kernels need 1 weights, got 2"),
        (lambda: Diagonal([IMQ(1.0), IMQ(2.0)], [1.0, 0.0]), "weights must be positive"),
        (lambda: Elliptical([1.0, 2.0], IMQ(1.0)), r"matrix must have shape \(e, d\)"),
        (lambda: 0.0 * IMQ(1.0), "factor must be a positive number"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_matrix_kernel_cannot_be_made_a_matrix_again():
    with pytest.raises(TypeError, match="Separable needs a scalar kernel"):
        Separable(np.eye(2), Separable(np.eye(2), IMQ(1.0))).terms()
