"""The objective: stored matrices and tiles agree, and the second derivatives and projections are the exact ones."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.data.boundary import run

from ..truth import golden
from ..truth.golden import agree
from .test_golden import kernel, plain

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 2))
T3 = ms.models.StudentT([0.2, -0.1], [1.0, 1.5], 3.0)
IMQ = ms.kernels.IMQ(1.2)

KERNELS = {
    "radial": IMQ,
    "elliptical": ms.kernels.Elliptical([[1.0, 0.3], [0.0, 0.7]], IMQ),
    "tilted": ms.kernels.Tilted(IMQ, lambda x: 1 / (1 + jnp.sum(x**2))),
    "separable": ms.kernels.Separable([[1.0, 0.4], [0.4, 2.0]], IMQ),
    "sum": ms.kernels.Diagonal([IMQ, ms.kernels.Gaussian(0.7)], [1.0, 0.5]) + IMQ,
    "function": lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)),
}
FIELDS = {
    "identity": None,
    "scalar": ms.diffusions.decay(2.0),
    "diagonal": lambda x: (1 + x**2) ** -0.5,
    "full": lambda x: jnp.eye(2) + jnp.outer(jnp.sin(x), jnp.cos(x)) / 10,
}


def evaluate(compute, discrepancy, model, x, **options):
    """compute(objective, η or θ) in double precision."""
    to_vector = ms.params.theta if options.get("natural") else ms.params.to_real

    def on_sample(tree, model, sample):
        return compute(tree[0].objective(model, sample, **options), tree[1])

    return run(on_sample, (discrepancy, to_vector(model)), model, x)


@pytest.mark.parametrize(
    ("k", "m", "unbiased"),
    [
        ("radial", "identity", False),
        ("tilted", "diagonal", True),
        pytest.param("elliptical", "scalar", False, marks=pytest.mark.slow),
        pytest.param("separable", "full", True, marks=pytest.mark.slow),
        pytest.param("sum", "scalar", False, marks=pytest.mark.slow),
    ],
)
def test_stored_matrices_give_the_same_jet(k, m, unbiased):
    dksd = ms.DKSD(KERNELS[k], FIELDS[m], unbiased=unbiased)
    both = lambda o, v: (o.jet(v), jax.value_and_grad(o)(v))
    jets = [evaluate(both, dksd, T3, X, keep=keep) for keep in (True, False)]
    for stored, fresh in zip(jax.tree.leaves(jets[0]), jax.tree.leaves(jets[1]), strict=True):
        np.testing.assert_allclose(stored, fresh, rtol=1e-10, atol=1e-14)


def test_the_jet_is_that_of_the_loss():
    dksd = ms.DKSD(IMQ, FIELDS["scalar"])
    jet = evaluate(lambda o, v: o.jet(v), dksd, T3, X, natural=True)
    loss, gradient = ms.value_and_grad(dksd, T3, X)
    np.testing.assert_allclose(jet.value, loss, rtol=1e-10)
    np.testing.assert_allclose(jet.gradient, gradient, rtol=1e-10)
    np.testing.assert_allclose(jet.curvature, ms.information(dksd, T3, X), rtol=1e-10, atol=1e-13)
    as_v = ms.DKSD(IMQ, FIELDS["scalar"], unbiased=False)
    np.testing.assert_allclose(jet.metric, ms.information(as_v, T3, X), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(jet.noise, np.trace(ms.stein_matrix(dksd, T3, X)) / 40**2, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case["id"])
def test_hessian_and_projections_are_exact(case):
    p, x, exact = len(case["theta"]), np.array(case["x"]), case["outputs"]
    m = golden.field(case["m"], case["d"], p)
    moving = ms.diffusions.of_model(lambda model, x: m(x, ms.params.theta(model)[:p]), moving=True)
    dksd = ms.DKSD(kernel(case["kernel"]), moving)
    second = evaluate(lambda o, v: o.second(v), dksd, plain(case), x, natural=True)
    agree(second.hessian, exact["hess_u"])
    h = np.array(exact["proj_grad"])
    agree(second.projections[:, : len(x)].T, 2 * h)
    agree(second.gradient, exact["grad_u"])
    assert not second.projections[:, len(x) :].any()
    agree(ms.sandwich(dksd, plain(case), x) * len(x), exact["sandwich_hess_u"], rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("case", golden.CASES[:2], ids=lambda case: case["id"])
def test_the_hessian_of_a_v_statistic_is_exact(case):
    m = golden.field(case["m"], case["d"], len(case["theta"]))
    moving = ms.diffusions.of_model(lambda model, x: m(x, ms.params.theta(model)[: len(case["theta"])]), moving=True)
    dksd = ms.DKSD(kernel(case["kernel"]), moving, unbiased=False)
    second = evaluate(lambda o, v: o.second(v), dksd, plain(case), np.array(case["x"]), natural=True)
    agree(second.hessian, case["outputs"]["hess_v"])


@pytest.mark.parametrize("case", golden.with_dsm(), ids=lambda case: case["id"])
def test_dsm_hessian_and_projections_are_exact(case):
    x, exact = np.array(case["x"]), case["outputs"]["dsm"]
    m = golden.field(case["m"], case["d"], len(case["theta"]))
    dsm = ms.DSM(lambda x: m(x, case["theta"]))
    second = evaluate(lambda o, v: o.second(v), dsm, plain(case), x, natural=True)
    agree(second.hessian, exact["hess"])
    agree(second.projections[:, : len(x)].T, exact["grad_F"])
    agree(second.gradient, exact["grad"])
    agree(ms.sandwich(dsm, plain(case), x) * len(x), exact["sandwich_hess"], rtol=1e-7)


@pytest.mark.slow
def test_function_kernels_have_the_same_second_order():
    """A kernel written as a function against the shipped one."""
    shipped = ms.DKSD(ms.kernels.Gaussian(0.5**0.5), FIELDS["scalar"])
    written = ms.DKSD(KERNELS["function"], FIELDS["scalar"])
    a, b = (evaluate(lambda o, v: o.second(v), d, T3, X, natural=True) for d in (shipped, written))
    np.testing.assert_allclose(a.hessian, b.hessian, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.projections, b.projections, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("discrepancy", [ms.KSD(IMQ), ms.KSD(IMQ, unbiased=False), ms.SM()])
def test_minibatches_are_unbiased(discrepancy):
    """The mean over all minibatches of three out of six is the loss itself."""
    subsets = np.array(list(itertools.combinations(range(6), 3)))

    def compute(target, eta):
        losses = jax.lax.map(lambda rows: target.part(rows, eta, None, ())[0](eta), jnp.asarray(subsets))
        everything = target.part(jnp.arange(16), eta, None, ())[0](eta)  # padding and all
        return jnp.mean(losses), everything, target(eta)

    mean, everything, loss = evaluate(compute, discrepancy, T3, X[:6])
    np.testing.assert_allclose(mean, loss, rtol=1e-11)
    np.testing.assert_allclose(everything, loss, rtol=1e-11)


def test_the_standard_errors_of_moments():
    """SM of a Gaussian is the sample mean and deviation, whose delta-method variances are textbook."""
    x = RNG.gamma(3.0, size=100)
    fit = ms.fit(ms.models.Gaussian(0.0, 1.0), x, ms.SM())
    z, s = x - x.mean(), x.std()
    shares = np.stack([z, (z**2 - s**2) / (2 * s)])
    np.testing.assert_allclose(fit.cov, shares @ shares.T / 100**2, rtol=1e-7)


def test_dataclass_replace_keeps_what_is_stored():
    """The V-statistic after a failed U-statistic uses the same matrices."""
    dksd = ms.KSD(IMQ)

    def compute(target, eta):
        return dataclasses.replace(target, diagonal=jnp.ones_like(target.diagonal))(eta)

    np.testing.assert_allclose(
        evaluate(compute, dksd, T3, X, keep=True), ms.KSD(IMQ, unbiased=False)(T3, X), rtol=1e-12
    )
