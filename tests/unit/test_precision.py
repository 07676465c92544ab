"""float64 data are handled in double precision with nothing configured, and nobody's settings are touched."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

X = np.random.default_rng(3).standard_normal((30, 2))
MODEL = ms.models.StudentT([0.1, 1 / 3], 1.2, 5.0)
KSD = ms.KSD(ms.kernels.IMQ(1.0))


def in_double(discrepancy):
    """The loss in JAX's own 64-bit mode."""
    with jax.enable_x64(True):
        return float(discrepancy(MODEL, jnp.asarray(X)))


@pytest.mark.parametrize("discrepancy", [KSD, ms.SM(), ms.DKSD(ms.kernels.Matern(1.0), ms.diffusions.decay(2.0))])
def test_numpy_float64_is_handled_in_double(discrepancy):
    assert not jax.config.read("jax_enable_x64")
    loss, gradient = ms.value_and_grad(discrepancy, MODEL, X)
    assert isinstance(gradient, np.ndarray)
    assert loss.dtype == gradient.dtype == np.float64
    np.testing.assert_allclose(loss, in_double(discrepancy), rtol=1e-14)
    assert not jax.config.read("jax_enable_x64")
    assert jnp.ones(3).dtype == jnp.float32


def test_float32_stays_float32():
    for x in (X.astype(np.float32), jnp.asarray(X, jnp.float32)):
        loss = KSD(MODEL, x)
        assert loss.dtype == np.float32
        np.testing.assert_allclose(loss, in_double(KSD), rtol=1e-5)


def test_jax_in_jax_out_numpy_in_numpy_out():
    assert isinstance(KSD(MODEL, jnp.asarray(X, jnp.float32)), jax.Array)
    assert isinstance(KSD(MODEL, X), np.ndarray | np.floating)


def test_a_traced_model_with_64_bit_mode_off_falls_back_and_says_so():
    loss = lambda scale: KSD(ms.models.StudentT([0.1, 1 / 3], scale, 5.0), X)
    with pytest.warns(ms.PrecisionWarning, match=r"ms\.value_and_grad"):
        gradient = jax.grad(loss)(1.2)
    exact = ms.value_and_grad(KSD, MODEL, X)[1][2]
    assert gradient.dtype == jnp.float32
    np.testing.assert_allclose(gradient, exact, rtol=1e-4)


def test_a_held_diffusion_keeps_its_digits():
    m = ms.diffusions.of_model(lambda model, x: 1 + jnp.sum((x - model.loc) ** 2) / model.df)
    held, here = ms.DKSD(ms.kernels.IMQ(1.0), m.at(MODEL)), ms.DKSD(ms.kernels.IMQ(1.0), m)
    np.testing.assert_allclose(held(MODEL, X), here(MODEL, X), rtol=1e-14)


def test_parameters_keep_their_digits():
    """A loop of SciPy over unconstrained vectors loses nothing."""
    vector = ms.params.theta(MODEL)
    assert isinstance(vector, np.ndarray)
    assert vector.tolist() == [0.1, 1 / 3, 1.2]
    again = ms.params.from_real(MODEL, ms.params.to_real(MODEL))
    np.testing.assert_allclose(KSD(again, X), KSD(MODEL, X), rtol=1e-14)
    assert KSD(ms.params.with_theta(MODEL, vector), X) == KSD(MODEL, X)


def test_samples_are_double():
    assert MODEL.sample(jax.random.key(0), 5).dtype == np.float64


def test_importing_changes_no_setting_and_loads_little():
    """Matplotlib and scipy.stats are imported only when they are used."""
    code = (
        "import sys, jax; before = dict(jax.config.values); import minstein; "
        "assert dict(jax.config.values) == before; print('unchanged'); "
        "print('matplotlib' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unchanged", "False", "False"]
