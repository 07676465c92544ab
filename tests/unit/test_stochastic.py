"""Stochastic descent: the Newton step of the metric, constraints, energy networks, checkpoints."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import minstein as ms
from minstein.solvers import status, stochastic

KEY = jax.random.key(0)
X = 3 + 2 * np.random.default_rng(2).standard_normal(64)
LOCATION = ms.models.from_log_density(lambda p, x: -((x[0] - p) ** 2) / 8, 10.0)
LOSSES = {"DSM": ms.SM(), "DKSD": ms.KSD(ms.kernels.IMQ(2.0), unbiased=False)}


def descend(model, discrepancy, **options):
    solver = ms.RiemannianSGD(ridge=0.0, batch=64, **options)
    return ms.fit(model, X, discrepancy, solver=solver, key=KEY, covariance=False)


@cache
def minimum(name):
    return ms.fit(LOCATION, X, LOSSES[name], covariance=False).theta[0]


@pytest.mark.parametrize("name", LOSSES)
class TestNewton:
    """The whole sample as a minibatch: the Hessian is 2g, so γ = ½ arrives in one step on a quadratic loss."""

    def test_half_is_a_newton_step(self, name):
        np.testing.assert_allclose(descend(LOCATION, LOSSES[name], step=0.5, steps=1).theta, minimum(name), rtol=1e-9)

    def test_one_oscillates(self, name):
        once, twice = (descend(LOCATION, LOSSES[name], step=1.0, steps=k).theta[0] for k in (1, 2))
        np.testing.assert_allclose([once, twice], [2 * minimum(name) - 10, 10], rtol=1e-8)

    def test_a_schedule(self, name):
        fit = descend(LOCATION, LOSSES[name], step=lambda t: 0.25 / (1 + t), steps=2)
        np.testing.assert_allclose(fit.theta, minimum(name) + (10 - minimum(name)) * 0.5 * 0.75, rtol=1e-8)


@pytest.mark.slow
def test_constraints_hold_after_any_step():
    """A step far beyond zero on the natural scale."""
    model = ms.models.from_log_density(lambda p, x: -(x[0] ** 2) / (2 * p**2), ms.positive(50.0))
    solver = ms.RiemannianSGD(0.9, steps=3, batch=8)
    fit = ms.fit(model, X, ms.SM(), solver=solver, key=KEY, covariance=False, throw=False)
    assert fit.params["theta"] > 0
    covariance = ms.models.from_log_density(
        lambda p, x: -x @ jnp.linalg.solve(p, x) / 2, ms.positive_definite(2.0 * np.eye(2))
    )
    x = np.random.default_rng(0).standard_normal((32, 2))
    fit = ms.fit(covariance, x, ms.SM(), solver=solver, key=KEY, covariance=False, throw=False)
    assert np.linalg.eigvalsh(fit.model.params.value)[0] > 0


@pytest.mark.slow
@pytest.mark.optimised
def test_riemannian_steps_need_no_tuning():
    """The paper's experiment: a few dozen steps to within a tenth of the truth, where plain SGD needs far more."""
    x = ms.models.StudentT(25.0, 10.0, 5.0).sample(jax.random.key(8), 1000)
    model = ms.models.from_log_density(
        lambda p, x: -3 * jnp.log1p(jnp.sum((x - p["loc"]) ** 2) / p["scale"] ** 2 / 5),
        {"loc": 15.0, "scale": ms.positive(5.0)},
    )
    ksd = ms.KSD(ms.kernels.IMQ(1.0))
    natural = ms.fit(model, x, ksd, solver=ms.RiemannianSGD(0.1, steps=40, batch=50), key=KEY, covariance=False)
    plain = ms.fit(model, x, ksd, solver=ms.SGD(optax.sgd(1.0), steps=1000, batch=50), key=KEY, covariance=False)
    away = lambda fit: np.max(np.abs(fit.theta / [25, 10] - 1))
    assert away(natural) < 0.15
    assert away(plain) > 0.15


@pytest.mark.slow
def test_a_descent_that_leads_nowhere_says_so():
    fit = ms.fit(LOCATION, X, ms.SM(), solver=ms.SGD(optax.sgd(1e-6), steps=5, batch=8), key=KEY)
    assert fit.status == status.FINISHED
    assert not fit.converged
    assert "std. error" not in repr(fit)
    with pytest.raises(ms.NotConverged, match="too large a step"):
        ms.fit(LOCATION, X, ms.SM(), solver=ms.SGD(optax.sgd(1e30), steps=50, batch=8), key=KEY)


@pytest.mark.parametrize("options", [{"batch": 1}, {"steps": 0}, {"average": 2.0}, {"every": 0}])
def test_bad_options(options):
    with pytest.raises(ValueError, match=r"at least|between 0 and 1"):
        ms.SGD(**options)


class Energy(eqx.Module):
    """−log p by a small network, with a Gaussian to hold the tails."""

    network: eqx.nn.MLP

    def __call__(self, x):
        return -jnp.sum(x**2) / 8 + self.network(x)


@pytest.fixture(scope="module")
def ring():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 500)
    return 2 * np.stack([np.cos(angle), np.sin(angle)], 1) + 0.3 * rng.standard_normal((500, 2))


@pytest.fixture(scope="module")
def energy():
    return Energy(eqx.nn.MLP(2, "scalar", 32, 2, activation=jnp.tanh, key=jax.random.key(1)))


ADAM = optax.adam(3e-3)


class TestEnergyNetwork:
    @pytest.mark.slow
    @pytest.mark.optimised
    @pytest.mark.parametrize("discrepancy", [ms.SM(), ms.KSD(ms.kernels.IMQ(1.0))], ids=["SM", "KSD"])
    def test_it_learns_the_ring(self, ring, energy, discrepancy):
        assert len(ms.params.names(energy)) > 1000
        fit = ms.fit(energy, ring, discrepancy, solver=ms.SGD(ADAM, steps=600), key=KEY, covariance=False)
        assert fit.trace.shape == (600,)
        assert np.mean(fit.trace[-50:]) < np.mean(fit.trace[:50])
        with jax.enable_x64(False):
            at = lambda r: float(fit.model(jnp.array([r, 0.0])))
            assert at(2.0) > at(0.0) + 0.5
            assert at(2.0) > at(3.5) + 0.5
        assert "more" in repr(fit)

    @pytest.mark.slow
    @pytest.mark.optimised
    def test_an_interrupted_walk_goes_on_as_if_nothing_had_happened(self, ring, energy, tmp_path, monkeypatch):
        path = tmp_path / "walk.npz"
        solver = ms.SGD(ADAM, steps=60, checkpoint=str(path), every=20)
        run = lambda solver, x=ring: ms.fit(energy, x, ms.SM(), solver=solver, key=KEY, covariance=False)
        whole = run(ms.SGD(ADAM, steps=60))
        original, calls = stochastic._advance, []

        def interrupted(*arguments):
            calls.append(1)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return original(*arguments)

        monkeypatch.setattr(stochastic, "_advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(solver)
        monkeypatch.setattr(stochastic, "_advance", original)
        assert path.exists()
        again = run(solver)
        np.testing.assert_array_equal(again.theta, whole.theta)
        np.testing.assert_array_equal(again.trace, whole.trace)
        assert again.loss == whole.loss
        with pytest.raises(ValueError, match="other data"):
            run(solver, ring + 1)
        path.write_bytes(b"damaged")
        with pytest.raises(ValueError, match="cannot be read"):
            run(solver)
        assert [entry.name for entry in tmp_path.iterdir()] == ["walk.npz"]
