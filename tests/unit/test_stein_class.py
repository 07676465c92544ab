"""The boundary term of the Stein identity: found where there is one, cured, and no alarm where there is none."""

import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

RNG = np.random.default_rng(12)
K = ms.kernels.IMQ(1.0)
POSITIVE = RNG.exponential(size=400)
PLAIN = ms.models.from_log_density(lambda rate, x: -rate * x[0], ms.positive(2.0))
CUT = ms.models.from_log_density(lambda rate, x: jnp.where(x[0] > 0, -rate * x[0], -jnp.inf), ms.positive(2.0))
VANISHING = {
    "m = x": ms.DSM(lambda x: x),
    "m = x²": ms.DSM(lambda x: x**2),
    "m = √min(x, 1)": ms.DSM(lambda x: jnp.sqrt(jnp.minimum(x[0], 1.0))),
    "bounded": ms.DKSD(K, ms.diffusions.bounded(low=0.0)),
    "a kernel that vanishes": ms.KSD(ms.kernels.Tilted(K, lambda x: x[0])),
}


def gamma(shape):
    return ms.models.from_log_density(lambda rate, x: (shape - 1) * jnp.log(x[0]) - rate * x[0], ms.positive(1.0))


@pytest.mark.parametrize("discrepancy", [ms.SM(), ms.KSD(K)], ids=["SM", "KSD"])
def test_a_density_that_ends_abruptly(discrepancy):
    (edge,) = ms.stein_class(discrepancy, CUT, POSITIVE).edges
    assert (edge.axis, edge.side, edge.at) == (0, -1, 0.0)
    assert abs(edge.rate) < 1e-3
    (edge,) = ms.stein_class(discrepancy, PLAIN, POSITIVE).edges  # the formula goes on, and grows without end
    assert (edge.axis, edge.side, edge.at) == (0, -1, -np.inf)


@pytest.mark.parametrize("name", VANISHING)
@pytest.mark.parametrize("model", [PLAIN, CUT], ids=["formula only", "cut"])
def test_what_vanishes_at_the_edge(name, model):
    assert ms.stein_class(VANISHING[name], model, POSITIVE).holds


@pytest.mark.parametrize(("shape", "ksd", "sm"), [(1.5, False, False), (2.5, True, False), (4.5, True, True)])
def test_a_density_that_vanishes_at_the_edge(shape, ksd, sm):
    """The density x^(a−1) must make up for the square of the score, x^(−2), and of the contributions, x^(−4)."""
    x = RNG.gamma(shape, size=100)
    assert ms.stein_class(ms.KSD(K), gamma(shape), x).holds is ksd
    assert ms.stein_class(ms.SM(), gamma(shape), x).holds is sm


def test_the_sides_of_a_box():
    model = ms.models.from_log_density(
        lambda p, x: jnp.where(jnp.all(jnp.abs(x - 5) < 1), p @ x, -jnp.inf), np.array([0.3, 0.2])
    )
    x = RNG.uniform(4, 6, (50, 2))
    found = ms.stein_class(ms.KSD(K), model, x)
    assert {(edge.axis, edge.side, edge.at) for edge in found.edges} == {(0, -1, 4), (0, 1, 6), (1, -1, 4), (1, 1, 6)}
    assert "bounded(low=..., high=...)" in found.message
    half = ms.diffusions.bounded([4.0, -np.inf], [6.0, np.inf])
    assert {edge.axis for edge in ms.stein_class(ms.DKSD(K, half), model, x).edges} == {1}
    assert ms.stein_class(ms.DKSD(K, ms.diffusions.bounded(4.0, 6.0)), model, x).holds


@pytest.mark.parametrize(
    "model",
    [
        ms.models.StudentT(0.0, 1.0, 1.0),
        ms.models.Gaussian(0.0, 1.0),
        ms.models.from_log_density(lambda p, x: -(x[0] - p) - jnp.exp(p - x[0]), 0.0),
    ],
    ids=["Cauchy", "normal", "Gumbel"],
)
def test_no_false_alarm(model):
    x = RNG.standard_normal(30)
    growing = ms.DKSD(K, lambda x: 1 + x[0] ** 2)
    assert all(ms.stein_class(discrepancy, model, x).holds for discrepancy in (ms.SM(), ms.KSD(K), growing))


def test_fit_warns_and_the_cure_cures():
    """A normal distribution cut at zero: score matching gives the mean of what is left, with m = x Σ(x³ − 2x)/Σx²."""
    x = RNG.normal(0.5, 1, 2000)
    x = x[x > 0]
    model = ms.models.from_log_density(lambda loc, x: jnp.where(x[0] > 0, -((x[0] - loc) ** 2) / 2, -jnp.inf), 0.0)
    with pytest.warns(ms.BoundaryWarning, match=r"the support ends at x\[0\] = 0,.*bounded\(low=\.\.\.\)"):
        biased = ms.fit(model, x, ms.SM())
    np.testing.assert_allclose(biased.params["theta"], x.mean(), rtol=1e-9)
    assert "boundary term" in str(biased.summary())
    cured = ms.fit(model, x, ms.DSM(ms.diffusions.bounded(low=0.0)))
    np.testing.assert_allclose(cured.params["theta"], (x**3 - 2 * x).sum() / (x**2).sum(), rtol=1e-9)
    assert abs(biased.params["theta"] - 0.5) > 10 * biased.bse["theta"]
    assert abs(cured.params["theta"] - 0.5) < 3 * cured.bse["theta"]


@pytest.mark.slow
def test_a_failed_fit_says_it_too():
    """The KSD of an exponential rate is proportional to the rate's square, whatever the data."""
    with pytest.raises(ms.NotConverged, match="boundary term"):
        ms.fit(PLAIN, POSITIVE, ms.KSD(K, unbiased=False))
    failed = ms.fit(PLAIN, POSITIVE, ms.KSD(K, unbiased=False), throw=False)
    assert any("boundary term" in note for note in failed.notes)


def test_bounded():
    m = ms.diffusions.bounded([0.0, -np.inf, 0.0, -np.inf], [np.inf, 1.0, 2.0, np.inf])
    np.testing.assert_allclose(m(jnp.array([0.3, 0.4, 0.5, 0.6])), [0.3, 0.6, 0.375, 1.0], rtol=1e-6)
    with pytest.raises(ValueError, match="low must be below high"):
        ms.diffusions.bounded(1.0, 0.0)
