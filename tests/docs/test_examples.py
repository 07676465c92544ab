"""The worked examples run, and what they claim is so."""

import importlib.util
from pathlib import Path
from types import ModuleType

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

pytestmark = [pytest.mark.slow, pytest.mark.optimised]


def example(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_idea(tmp_path):
    """Near the truth, and near maximum likelihood, in units of the standard error."""
    fit, best = example("idea").main(tmp_path)
    assert abs(fit.params["theta"] - 1.0) < 3 * fit.bse["theta"]
    assert abs(fit.params["theta"] - best) < fit.bse["theta"]
    assert (tmp_path / "idea.png").stat().st_size > 10_000


def test_efficiency(tmp_path):
    """Score matching of a normal is maximum likelihood; t and Gumbel against an independent quadrature."""
    module = example("efficiency")
    found = module.main(tmp_path, n=400)
    assert found["normal, location and scale"][0] == pytest.approx(1, abs=0.05)
    at = lambda name: found[name][1][[2, 4]]  # at one and at four median distances
    np.testing.assert_allclose(at("t with 5 df, location and scale"), [0.794, 0.972], atol=0.02)
    np.testing.assert_allclose(at("Gumbel, scale alone"), [0.544, 0.237], atol=0.05)
    t = next(case for case in module.CASES if case.name.startswith("t with"))
    fisher = module.fisher(t.model, t.quantiles((np.arange(4000) + 0.5) / 4000))
    np.testing.assert_allclose(np.diag(fisher), [6 / 8, 10 / 8], rtol=0.01)  # (ν+1)/(ν+3) and 2ν/(ν+3)
    assert (tmp_path / "efficiency.png").stat().st_size > 10_000


def test_newcomb(tmp_path, capsys):
    assert example("newcomb").main(tmp_path).stat().st_size > 10_000
    assert "Without the two:     mean 27.8" in capsys.readouterr().out


def test_contamination(tmp_path):
    module = example("contamination")
    shares, found = module.SHARES, module.study(3)
    n = 3 * module.N
    # The mean of a contaminated sample is share · AT; both parts have variances of at most one.
    means = found["Maximum likelihood"][..., 0].mean(1)
    assert np.abs(means - shares * module.AT).max() < 4 / np.sqrt(n)
    # The robust fit stays at 0 and 1 whatever the share: within four of its standard deviations, measured as 0.13 here.
    assert np.abs(found["Robust DKSD"].mean(1) - [0, 1]).max() < 4 * 0.13 / np.sqrt(3)
    assert found["Huber"][-1, :, 0].mean() > 1
    assert module.main(tmp_path, replications=2).stat().st_size > 10_000


def test_wine_graph(tmp_path):
    module = example("wine_graph")
    x, d = module.wines(), module.D
    fit = module.fitted(x)
    np.testing.assert_allclose(fit.theta, _by_normal_equations(x, module.ROWS, module.COLUMNS), rtol=1e-6)
    _, value, low, _ = next(e for e in module.edges(fit, 0.05 / 28) if e[0] == "phenols – flavanoids")
    assert value > low > 0
    assert fit.params[f"theta[{2 * d + list(zip(module.ROWS, module.COLUMNS, strict=True)).index((1, 2))}]"] == value
    assert module.main(tmp_path).stat().st_size > 10_000


def _by_normal_equations(x, rows, columns):
    """θ = −A⁻¹v of score matching with m = diag(x), from derivatives of x, −x²/2 and xᵢxⱼ written out."""
    n, d = x.shape
    A, v = 0, 0
    for k in range(d):
        first = np.concatenate(
            [
                np.tile(np.eye(d)[k], (n, 1)),
                -np.eye(d)[k] * x[:, k : k + 1],
                (rows == k) * x[:, columns] + (columns == k) * x[:, rows],
            ],
            axis=1,
        )
        second = np.concatenate([np.zeros(d), -np.eye(d)[k], np.zeros(len(rows))])
        w = x[:, k : k + 1]
        A = A + (w * first).T @ (w * first) / n
        v = v + (2 * w * first + w**2 * second).mean(0)
    return -np.linalg.solve(A, v)


def test_rings(tmp_path):
    module = example("rings")
    points, axis = module.grid()
    q, cell = module.truth(points), (axis[1] - axis[0]) ** 2
    assert q.sum() * cell == pytest.approx(1, abs=0.01)
    plain = stats.multivariate_normal(cov=module.draw(np.random.default_rng(1), 2000).var() * np.eye(2)).pdf(points)
    far = np.abs(plain - q).sum() * cell / 2  # a Gaussian's distance to the truth: what a fit that learnt nothing has
    assert module.main(tmp_path, steps=1500) < far / 2
    assert (tmp_path / "rings.png").stat().st_size > 10_000


def test_ising(tmp_path):
    """On a smaller grid: each within four standard errors of the truth, all closer to each other than to it."""
    module = example("ising")
    model = module.truth(4)
    found = module.fits(model, model.sample(jax.random.key(0), 1000))
    reference = found["Pseudo-likelihood"][0]
    error = np.array(list(reference.bse.values()))
    for name, (fit, _) in found.items():
        gap = np.abs(fit.theta - model.coupling)
        own = error if fit.cov is None else np.array(list(fit.bse.values()))
        assert (gap < 4 * own).all(), name
        assert name == "Discrete KSD" or module.rms(fit.theta - reference.theta) < module.rms(error), name
    assert module.main(tmp_path, side=3, n=200).stat().st_size > 10_000
