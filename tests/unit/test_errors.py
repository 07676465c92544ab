"""Bad input: each mistake gets one clear error that says what was given, what is needed and what to do."""

import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

X = np.random.default_rng(0).standard_normal((6, 2))
MODEL = ms.models.Gaussian([0.0, 0.0], 1.0)
KSD = ms.KSD(ms.kernels.IMQ(1.0))
CALLS = [
    lambda model, x: KSD(model, x),
    lambda model, x: ms.SM()(model, x),
    lambda model, x: ms.value_and_grad(KSD, model, x),
    lambda model, x: ms.information(KSD, model, x),
]


def with_entry(value, row=3):
    x = X.copy()
    x[row, 1] = value
    return x


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (with_entry(np.nan), ValueError, r"NaN or infinite entries in 1 of 6 rows \(row 3\)"),
        (with_entry(np.inf), ValueError, r"np\.isfinite\(x\)"),
        (np.full((20, 2), np.nan), ValueError, r"20 of 20 rows \(rows 0, 1, 2, 3, 4, 5, 6, 7, …\)"),
        (X.reshape(3, 2, 2), ValueError, r"shape \(n, d\) or \(n,\), got \(3, 2, 2\)"),
        (np.float64(1.0), ValueError, r"got \(\)"),
        (np.zeros((0, 2)), ValueError, r"no observations or no coordinates: its shape is \(0, 2\)"),
        (np.zeros((5, 0)), ValueError, r"its shape is \(5, 0\)"),
        (np.arange(12).reshape(6, 2), TypeError, r"floating point, got int64.*x\.astype\(float\)"),
        (X > 0, TypeError, "floating point, got bool"),
        (np.array([["a", "b"]]), TypeError, "floating point, got <U1"),
    ],
)
def test_data(call, x, error, message):
    with pytest.raises(error, match=message):
        call(MODEL, x)


def test_masked_data():
    with pytest.raises(ValueError, match="masked array with 1 masked entries"):
        KSD(MODEL, np.ma.masked_greater(with_entry(1e6), 1e5))
    assert KSD(MODEL, np.ma.masked_greater(X, 1e5)) == KSD(MODEL, X)


def test_other_precisions_and_byte_orders():
    for dtype in (">f8", np.longdouble):
        assert KSD(MODEL, X.astype(dtype)) == KSD(MODEL, X)
    assert KSD(MODEL, X.astype(np.float16)).dtype == np.float32


def test_a_product_of_matrix_kernels():
    diagonal = ms.kernels.Diagonal([ms.kernels.IMQ(1.0)] * 2)
    with pytest.raises(TypeError, match="one matrix kernel"):
        ms.KSD(diagonal * ms.kernels.Separable(np.eye(2), ms.kernels.IMQ(1.0)))(MODEL, X)


def test_one_stein_kernel_only():
    with pytest.raises(TypeError, match="have a Stein kernel, got DSM"):
        ms.stein_matrix(ms.SM(), MODEL, X)


def test_one_observation():
    with pytest.raises(ValueError, match=r"at least 2 observations, got 1.*unbiased=False"):
        KSD(MODEL, X[:1])
    with pytest.raises(ValueError, match="at least 2 observations"):
        ms.value_and_grad(KSD, MODEL, X[:1])
    assert ms.KSD(ms.kernels.IMQ(1.0), unbiased=False)(MODEL, X[:1]) > 0
    assert np.isfinite(ms.SM()(MODEL, X[:1]))


def test_data_of_other_kinds_are_read():
    """A list, and anything with columns, is read as NumPy would read it; one axis means one variable."""
    model = ms.models.Gaussian(0.0, 1.0)
    column = X[:, 0]
    assert KSD(model, column) == KSD(model, column[:, None]) == KSD(model, list(column))


@pytest.mark.parametrize("call", CALLS)
def test_model_that_returns_a_vector(call):
    model = ms.models.from_log_density(lambda p, x: -((x - p) ** 2), 0.0)
    with pytest.raises(ValueError, match=r"must return a scalar, got shape \(2,\).*sum over the coordinates"):
        call(model, X)
    with pytest.raises(ValueError, match=r"got shape \(1,\).*use x\[0\]"):
        call(model, X[:, 0])


@pytest.mark.parametrize("call", CALLS)
def test_score_that_is_not_finite(call):
    """The rows and the coordinate are named: log x₁ outside its support."""
    model = ms.models.from_log_density(lambda p, x: -p * jnp.sum(x**2) + jnp.log(x[1]) + jnp.sqrt(x[1]), 1.0)
    x = np.abs(X)
    x[2, 1] = -1.0
    x[5, 1] = 0.0
    with pytest.raises(ValueError, match=r"not finite at 2 of 6 rows \(rows 2, 5\), coordinate 1"):
        call(model, x)


def test_diffusion_that_is_not_finite():
    for call in (ms.DKSD(ms.kernels.IMQ(1.0), lambda x: 1 / x), ms.DSM(lambda x: 1 / x)):
        with pytest.raises(ValueError, match=r"The diffusion m is not finite at 1 of 6 rows \(row 4\)"):
            call(MODEL, with_entry(0.0, row=4))
    with pytest.raises(ValueError, match=r"The divergence of the diffusion is not finite at 1 of 6 rows"):
        ms.DKSD(ms.kernels.IMQ(1.0), lambda x: jnp.sqrt(jnp.abs(x)))(MODEL, with_entry(0.0, row=4))


def test_loss_that_overflows():
    with pytest.raises(ValueError, match=r"although every score is finite"):
        KSD(ms.models.Gaussian([0.0, 0.0], 1e-100), 1e60 * X)


def test_derivative_that_is_not_finite():
    """|x − p|^(3/2) has a score everywhere, but no second derivative at the kink."""
    model = ms.models.from_log_density(lambda p, x: -(jnp.abs(x[0] - p) ** 1.5), 0.5)
    with pytest.raises(ValueError, match="gradient is not finite although the loss is"):
        ms.value_and_grad(KSD, model, np.array([0.5, 1.0, 2.0]))


@pytest.mark.parametrize(
    ("discrepancy", "message"),
    [
        (ms.DKSD(ms.kernels.IMQ(1.0), lambda x: jnp.ones(3)), r"diffusion must return .* got shape \(3,\)"),
        (ms.DSM(lambda x: jnp.ones((2, 3))), r"diffusion must return .* got shape \(2, 3\)"),
        (ms.DSM(np.ones(3)), r"got shape \(3,\)"),
        (ms.KSD(lambda x, y: jnp.ones(3)), r"kernel must return .* got shape \(3,\)"),
        (ms.KSD(ms.kernels.Separable(np.eye(3), ms.kernels.IMQ(1.0))), r"kernel must return .* got shape \(3, 3\)"),
        (ms.KSD(ms.kernels.Elliptical(np.eye(3), ms.kernels.IMQ(1.0))), "Elliptical's matrix has 3 columns"),
        (ms.KSD(ms.kernels.Diagonal([ms.kernels.IMQ(1.0)] * 3)), r"kernel must return .* got shape \(3,\)"),
        (ms.KSD(ms.kernels.Diagonal([ms.kernels.IMQ(1.0)])), r"kernel must return .* got shape \(1,\)"),
    ],
)
def test_shapes_that_do_not_fit_the_data(discrepancy, message):
    with pytest.raises(ValueError, match=message):
        discrepancy(MODEL, X)


def test_a_model_without_parameters():
    for model in (
        ms.models.from_log_density(lambda p, x: -p * jnp.sum(x**2), 1),
        ms.models.Gaussian(ms.fixed(0.0), ms.fixed(1.0)),
    ):
        with pytest.raises(ValueError, match=r"no free parameters.*write 1\.0 instead of 1"):
            ms.value_and_grad(KSD, model, X[:, 0])
        assert np.isfinite(KSD(model, X[:, 0]))


def test_arguments_of_the_wrong_kind():
    with pytest.raises(TypeError, match=r"kernel must be a kernel or a function K\(x, y\), got float"):
        ms.KSD(1.0)
    with pytest.raises(ValueError, match="decay: alpha must be positive, got -1"):
        ms.diffusions.decay(-1.0)
    with pytest.raises(ValueError, match="scalar, a vector or a matrix"):
        ms.DSM(np.ones((2, 2, 2)))
