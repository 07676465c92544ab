"""Pair sums in two and three dimensions by Fourier series, against the tiles."""

import jax
import numpy as np
import pytest

import minstein as ms

pytest.importorskip("jax_finufft")

kernels = ms.kernels


def sample(d, n=300):
    return np.random.default_rng(d).standard_t(5, size=(n, d)) * np.array([1.0, 3.0, 0.5])[:d]


@pytest.mark.parametrize(
    ("d", "kernel", "diffusion"),
    [
        (2, kernels.Gaussian(1.5) + 0.5 * kernels.Gaussian(3.0), None),
        pytest.param(2, kernels.IMQ(2.0), lambda x: 1 / (1 + x @ x), marks=pytest.mark.slow),
        pytest.param(
            2,
            kernels.Elliptical(np.diag([1.0, 1 / 3]), kernels.IMQ(1.0, -1.5)),
            np.array([1.0, 3.0]),
            marks=pytest.mark.slow,
        ),
        pytest.param(3, kernels.Gaussian(2.0), lambda x: 1 / (1 + x**2), marks=pytest.mark.slow),
        pytest.param(
            2, kernels.Diagonal([kernels.Gaussian(2.0), kernels.IMQ(2.0)]), lambda x: 1 + x**2, marks=pytest.mark.slow
        ),
    ],
)
def test_value_gradient_and_standard_errors_are_those_of_the_tiles(d, kernel, diffusion):
    model, x = ms.models.StudentT(0.1 * np.ones(d), 1.1, 5.0), sample(d)
    by = {name: ms.DKSD(kernel, diffusion, backend=name) for name in ("tiles", "fourier")}
    value, gradient = ms.value_and_grad(by["tiles"], model, x)
    value_, gradient_ = ms.value_and_grad(by["fourier"], model, x)
    np.testing.assert_allclose(value_, value, rtol=1e-9)
    np.testing.assert_allclose(gradient_, gradient, atol=1e-9 * np.abs(gradient).max())
    covariances = [ms.sandwich(by[name], model, x) for name in by]
    np.testing.assert_allclose(covariances[1], covariances[0], rtol=1e-7)


def test_it_is_chosen_for_many_observations_near_together():
    model = ms.models.StudentT(np.zeros(2), 1.0, 5.0)
    ready = lambda x, kernel: ms.KSD(kernel).ready(model, x).pairing(*x.shape)
    many = sample(2, 20_000)
    assert ready(many, kernels.Gaussian(1.0)) == "fourier"
    assert ready(many[:2000], kernels.Gaussian(1.0)) == "stored"
    assert ready(many, kernels.Matern(1.0)) == "stored"
    assert ready(np.append(many, [[1e5, 0.0]], 0), kernels.Gaussian(1.0)) == "stored"
    assert ready(sample(3, 20_000)[:, :1], kernels.Gaussian(1.0)) == "lines"


@pytest.mark.slow
def test_influence_at_points_beyond_the_data():
    x = sample(2)
    fits = [
        ms.fit(ms.models.Gaussian(np.zeros(2), ms.fixed(1.0)), x, ms.KSD(kernels.IMQ(3.0), backend=name))
        for name in ("tiles", "fourier")
    ]
    np.testing.assert_allclose(fits[1].theta, fits[0].theta, rtol=1e-8)
    z = np.array([[60.0, -50.0], [0.0, 1.0]])
    tiles, fourier = (ms.influence(fit, x, z) for fit in fits)
    np.testing.assert_allclose(fourier, tiles, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("discrepancy", "d", "why"),
    [
        (ms.KSD(kernels.Gaussian(1.0), backend="fourier"), 1, "1 coordinates"),
        (ms.KSD(kernels.Matern(1.0), backend="fourier"), 2, "Matern"),
        (ms.DKSD(kernels.Gaussian(1.0), np.eye(2) + 0.5, backend="fourier"), 2, "matrix"),
        (ms.KSD(kernels.Gaussian(1e-4), backend="fourier"), 2, "frequencies"),
    ],
)
def test_what_it_cannot_do_is_refused(discrepancy, d, why):
    with pytest.raises(ValueError, match=why):
        discrepancy(ms.models.StudentT(np.zeros(d) if d > 1 else 0.0, 1.0, 5.0), sample(d))


def test_traced_data_are_left_to_the_tiles():
    """The number of frequencies must be known when the program is compiled."""
    with jax.enable_x64(True), pytest.raises(ValueError, match="traced"):
        jax.jit(lambda x: ms.KSD(kernels.Gaussian(1.0), backend="fourier")(ms.models.Gaussian(np.zeros(2), 1.0), x))(
            sample(2)
        )
