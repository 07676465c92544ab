"""The Stein operator has mean zero under its model, and its kernel is the operator applied twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import minstein as ms

FAMILIES = {
    "gaussian": ms.models.Gaussian(0.3, 1.2),
    "student t": ms.models.StudentT(0.3, 1.2, 5.0),
    "bessel": ms.models.SymmetricBessel(0.3, 1.2, 2.0),
    "laplace": ms.models.SymmetricBessel(0.3, 1.2, 1.0),
    "generalised gamma": ms.models.GeneralisedGamma(0.3, 3.0),
    "quartic": ms.models.ExponentialFamily(lambda x: jnp.array([x[0], x[0] ** 2]), [0.5, 1.0], lambda x: -(x[0] ** 4)),
}
FIELDS = {
    "identity": None,
    "decay": ms.diffusions.decay(1.5),
    "x": lambda x: x,
    "of the model": ms.diffusions.of_model(lambda model, x: 1 + (x[0] - 0.2) ** 2),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_mean_zero_in_one_dimension(family):
    """E_P[S g] = 0 by quadrature, for every diffusion, with a g that falls fast enough for all of them."""
    model = FAMILIES[family]
    with jax.enable_x64(True):
        g = lambda x: jnp.exp(-0.1 * x**2) * jnp.sin(x + 1)
        operators = [ms.stein(model, m, g) for m in FIELDS.values()]
        integrands = jax.jit(lambda x: jnp.exp(model(x)) * jnp.stack([1.0, *(s(x) for s in operators)]))
        at = lambda x: np.asarray(integrands(jnp.array([x])))
        totals = [
            sum(quad(lambda x, i=i: at(x)[i], a, b, epsabs=1e-11, limit=200)[0] for a, b in [(-40, 0.3), (0.3, 40)])
            for i in range(1 + len(operators))
        ]
    np.testing.assert_allclose(np.array(totals[1:]) / totals[0], 0, atol=1e-8)


@pytest.mark.slow
def test_mean_zero_in_three_dimensions():
    """E_P[S g] = 0 by Gauss–Hermite quadrature for a Gaussian with any covariance and a full matrix field."""
    L = np.array([[1.0, 0, 0], [0.5, 0.8, 0], [-0.3, 0.2, 1.1]])
    model = ms.models.Gaussian([0.1, 0.2, -0.3], L)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    z = np.stack(np.meshgrid(nodes, nodes, nodes), -1).reshape(-1, 3)
    w = np.stack(np.meshgrid(weights, weights, weights), -1).reshape(-1, 3).prod(1)
    with jax.enable_x64(True):
        m = lambda x: jnp.eye(3) + jnp.outer(jnp.sin(x / 2), x) / 4
        s = ms.stein(model, m, lambda x: jnp.array([x[0] * x[1], jnp.cos(x[2]), x[0] ** 2]))
        values = np.asarray(jax.vmap(s)(jnp.asarray(np.array([0.1, 0.2, -0.3]) + z @ L.T)))
    assert abs(w @ values / w.sum()) < 1e-9
    assert np.sqrt(w @ values**2 / w.sum()) > 1


@pytest.mark.parametrize(
    "m", [None, ms.diffusions.decay(2.0), lambda x: 1 + x**2], ids=["identity", "decay", "diagonal"]
)
def test_stein_kernel_has_mean_zero_in_each_argument(m):
    model = ms.models.StudentT(0.3, 1.2, 7.0)
    with jax.enable_x64(True):
        k0 = jax.jit(ms.stein_kernel(model, m, ms.kernels.Gaussian(1.0)))
        y = jnp.array([0.9])
        density = jax.jit(lambda x: model(x))
        f = lambda x: float(k0(jnp.array([x]), y) * jnp.exp(density(jnp.array([x]))))
        assert abs(quad(f, -60, 60, epsabs=1e-11, limit=400)[0]) < 1e-8


def test_features_are_all_the_operator_needs():
    """S[g] = ⟨b, g⟩ + ⟨m, ∇g⟩."""
    model = ms.models.StudentT([0.3, -0.1], 1.2, 5.0)
    with jax.enable_x64(True):
        m = lambda x: jnp.array([[1.0, x[0]], [jnp.sin(x[1]), 2.0]])
        g = lambda x: jnp.array([x[0] * x[1], jnp.cos(x[0])])
        x = jnp.array([0.7, -1.1])
        b, field = ms.features(model, m, x)
        inner = b @ g(x) + jnp.einsum("jr,rj->", field, jax.jacfwd(g)(x))
        np.testing.assert_allclose(ms.stein(model, m, g)(x), inner, rtol=1e-13)


def test_dksd_is_a_divergence_between_scores():
    """DKSD² = ∫∫ δ(x)ᵀ k(x, y) δ(y) dQ dQ with δ = m(∇log p − ∇log q), by quadrature, against its U-statistic."""
    p, q = ms.models.Gaussian(0.5, 1.3), ms.models.Gaussian(0.0, 1.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    w = weights / weights.sum()
    field = 1 / (1 + nodes**2)
    delta = field * (-(nodes - 0.5) / 1.69 + nodes)
    k = np.exp(-((nodes[:, None] - nodes) ** 2) / 2)
    population = (w * delta) @ k @ (w * delta)
    dksd = ms.DKSD(ms.kernels.Gaussian(1.0), ms.diffusions.decay(2.0))
    x = q.sample(jax.random.key(1), 4000)
    values = [dksd(p, block) for block in x.reshape(20, 200, 1)]
    assert abs(np.mean(values) - population) < 4 * np.std(values) / np.sqrt(20)
