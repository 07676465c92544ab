"""Plots: what is drawn is what the fit says."""

import jax
import matplotlib
import numpy as np
import pytest

import minstein as ms

matplotlib.use("Agg")
import matplotlib.pyplot as plt

T5 = ms.models.StudentT(25.0, 10.0, 5.0)
X = T5.sample(jax.random.key(1), 100)


@pytest.fixture(scope="module")
def fit():
    return ms.fit(T5, X)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_intervals(fit):
    ax = ms.plot.intervals(fit)
    drawn = [tuple(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2]
    assert tuple(fit.conf_int()["scale"]) in drawn
    assert [label.get_text() for label in ax.get_yticklabels()] == ["loc", "scale"]


def test_trace(fit):
    ax = ms.plot.trace(fit)
    assert ax.get_xlabel() == "step"
    assert ax.get_title() == fit.solver_kind == "GaussNewton"
    assert ax.lines[0].get_ydata().max() == fit.trace[0] - fit.trace.min()


def test_influence(fit):
    ax = ms.plot.influence(fit, X, parameter="loc")
    z, curve = ax.lines[0].get_data()
    np.testing.assert_allclose(curve, ms.influence(fit, X, z)[:, 0])
    with pytest.raises(ValueError, match="no parameter 'mu'; there are loc, scale"):
        ms.plot.influence(fit, X, parameter="mu")


def test_density(fit):
    ax = ms.plot.density(fit, X)
    grid, p = ax.lines[0].get_data()
    np.testing.assert_allclose(np.trapezoid(p, grid), 1, atol=0.01)
    assert abs(grid[p.argmax()] - fit.params["loc"]) < 0.5


def test_loss(fit):
    _, ax = plt.subplots()
    assert ms.plot.loss(fit, X, ("loc",), points=9, ax=ax) is ax
    grid, losses = ax.lines[0].get_data()
    assert abs(grid[losses.argmin()] - fit.params["loc"]) <= grid[1] - grid[0]
    with pytest.raises(ValueError, match="one parameter or two, got 0"):
        ms.plot.loss(fit, X, ())


def test_observations_far_out_do_not_hide_the_others(fit):
    x = np.append(X[:, 0], [1e6, -1e8])
    ax = ms.plot.density(fit, x)
    assert ax.get_xlim()[1] < 200
    assert "2 of them beyond the edges" in ax.get_title()
    values, edges, _ = ax.patches[0].get_data()
    np.testing.assert_allclose(values @ np.diff(edges), 100 / 102)  # the share of the data that is shown


def test_edges_are_few_and_cover_the_data():
    for values in (np.array([3.0, 3.0]), np.random.default_rng(0).standard_cauchy(5000), np.arange(5.0)):
        edges = ms.plot.histogram_edges(values)
        assert 2 <= len(edges) <= 201
        assert edges[0] <= values.min()
        assert values.max() <= edges[-1]
