"""Numbers that could mislead: data far from zero, overflow beside an edge, kernels in many dimensions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.data.boundary import in_precision
from minstein.data.in_memory import as_rows
from minstein.discrepancies.default import standardised_ksd
from minstein.inference.expansion import _stein_matrix
from minstein_cli.discrepancy import build, wish
from studies.paper import bessel, experts

STUDENT = ms.models.StudentT(0.0, 1.0, 5.0)


class TestDataFarFromZero:
    """x + a gives the estimates of x, the location moved by a, as far as a double has digits for it."""

    Z = np.random.default_rng(0).standard_t(5, 200)

    @pytest.mark.parametrize("offset", [1e8, -1e10])
    @pytest.mark.parametrize(
        ("discrepancy", "solver"),
        [
            (ms.SM(), None),
            *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((None, None), (ms.SM(), ms.LBFGS()))),
        ],
    )
    def test_estimates(self, offset, discrepancy, solver):
        x = self.Z + offset
        here = ms.fit(STUDENT, x - offset, discrepancy)  # the difference is exact: the same data, rounded alike
        there = ms.fit(STUDENT, x, discrepancy, solver=solver)
        se, gaps = np.array(list(here.bse.values())), there.theta - here.theta - [offset, 0]
        # twice the spacing of numbers at the location, and what LBFGS leaves
        assert there.converged
        np.testing.assert_array_less(np.abs(gaps) / se, 1e-6 + 2 * np.spacing(abs(offset)) / se)
        np.testing.assert_allclose(there.cov, here.cov, rtol=1e-4)

    def test_a_location_without_digits_is_not_found(self):
        """At 1e15 numbers are 0.125 apart, two standard errors of the location."""
        x = self.Z + 1e15
        fit = ms.fit(STUDENT, x, ms.SM(), throw=False)
        assert not fit.converged
        with pytest.raises(ms.NotConverged) as caught:
            ms.fit(STUDENT, x, ms.SM())
        assert "float64" not in str(caught.value)


def test_an_overflow_is_not_an_edge():
    """exp(−x²/2 + exp(x)/10) grows beyond all numbers at x = 712: it has no edge there, and is not a density."""
    x = np.random.default_rng(0).standard_normal(50)
    model = lambda b: ms.models.from_log_density(lambda b, x: -(x[0] ** 2) / 2 - b * jnp.exp(x[0]), b)
    for discrepancy in (ms.SM(), ms.KSD(ms.kernels.IMQ(1.0))):
        grows = ms.stein_class(discrepancy, model(-0.1), x)
        assert [(edge.side, edge.at) for edge in grows.edges] == [(1, np.inf)]
        assert "does not fall as x[0] → ∞" in grows.message
        assert "ends at x[0] = 7" not in grows.message
        assert ms.stein_class(discrepancy, model(0.1), x).holds


def test_an_edge_is_still_an_edge():
    """The arcsine density on (0, 1), which is infinite at both ends, and the exponential."""
    x = np.random.default_rng(0).beta(0.5, 0.5, 50)
    arcsine = ms.models.from_log_density(lambda a, x: -a * jnp.log(x[0] * (1 - x[0])), 0.5)
    edges = ms.stein_class(ms.KSD(ms.kernels.IMQ(1.0)), arcsine, x).edges
    np.testing.assert_allclose(sorted(edge.at for edge in edges), [0, 1], atol=1e-6)


class TestMedianDistance:
    X = np.random.default_rng(2).standard_t(3, (3000, 1))

    def test_one_number(self):
        """Between every third row, by hand."""
        rows = self.X[np.linspace(0, 2999, 1000).astype(int), 0]
        exact = np.median(np.abs(rows[:, None] - rows)[np.triu_indices(1000, 1)])
        mad = 1.4826 * np.median(np.abs(self.X - np.median(self.X)))
        assert ms.kernels.median_heuristic(self.X) == pytest.approx(exact, rel=1e-12)
        assert standardised_ksd(self.X).kernel.kernel.c == pytest.approx(exact / mad, rel=1e-12)

    @pytest.mark.parametrize("lengthscale", [None, "median"])
    def test_the_kernel_of_the_command_line_is_that_of_the_default(self, lengthscale):
        found = build(wish(None, "imq", lengthscale, None, "v", None), self.X, STUDENT)[0]
        default = standardised_ksd(self.X)
        assert float(found.kernel.kernel.c) == float(default.kernel.kernel.c)
        assert found(STUDENT, self.X) == default(STUDENT, self.X)

    def test_rows_that_are_mostly_tied(self):
        x = np.zeros((3000, 1))
        x[1] = 3.0
        assert standardised_ksd(x).kernel.kernel.c * x.std() == pytest.approx(3.0)


def stein_kernel_as_defined(model, m, kernel, d):
    """∇_y·∇_x·(p(x) m(x) K(x, y) m(y)ᵀ p(y)) / (p(x) p(y)) from all d⁴ second derivatives."""
    matrix = lambda h: h if jnp.ndim(h) == 2 else jnp.diag(jnp.broadcast_to(h, (d,)))

    def k0(x, y):
        A = lambda x, y: matrix(m(x)) @ matrix(kernel(x, y)) @ matrix(m(y)).T
        s, s_ = jax.grad(model)(x), jax.grad(model)(y)
        dx, dy, dxy = jax.jacfwd(A, 0)(x, y), jax.jacfwd(A, 1)(x, y), jax.jacfwd(jax.jacfwd(A, 0), 1)(x, y)
        return jnp.einsum("ijij", dxy) + jnp.einsum("iji,j", dx, s_) + jnp.einsum("ijj,i", dy, s) + s @ A(x, y) @ s_

    return k0


DIFFUSIONS = {
    "scalar": lambda x: 1 / (1 + jnp.vdot(x, x)),
    "diagonal": lambda x: jnp.exp(-(x**2) / 4),
    "matrix": lambda x: jnp.eye(x.size) + 0.1 * jnp.outer(x, jnp.cos(x)),
}


def kernels(d):
    B = np.eye(d) + 0.2
    imq = ms.kernels.IMQ(1.3)
    return {
        "radial": imq,
        "elliptical": ms.kernels.Elliptical(B, ms.kernels.Gaussian(1.1)),
        "separable": ms.kernels.Separable(B, imq),
        "sum": imq + 0.5 * ms.kernels.Matern(0.9, 3.5),
        "function": lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)) * (1 + jnp.vdot(x, y)),
    }


class TestSteinMatrix:
    RNG = np.random.default_rng(5)

    @pytest.mark.parametrize(
        ("d", "kernel", "diffusion"),
        [
            (5, "separable", "matrix"),  # by terms
            (5, "function", "matrix"),  # by autodiff
            pytest.param(5, "radial", "scalar", marks=pytest.mark.slow),
            pytest.param(5, "elliptical", "scalar", marks=pytest.mark.slow),
            pytest.param(5, "sum", "diagonal", marks=pytest.mark.slow),
            pytest.param(3, "function", "diagonal", marks=pytest.mark.slow),
        ],
    )
    def test_values(self, d, kernel, diffusion):
        """By both routes, with derivatives taken together and one after another."""
        x = self.RNG.standard_normal((4, d))
        model, m, k = ms.models.StudentT(np.zeros(d), 1.0, 5.0), DIFFUSIONS[diffusion], kernels(d)[kernel]
        with jax.enable_x64(True):
            over = lambda k0: jax.jit(jax.vmap(jax.vmap(k0, (None, 0)), (0, None)))(x, x)
            exact = over(stein_kernel_as_defined(model, m, k, d))
            by_autodiff = over(ms.stein_kernel(model, m, k))
        scale = np.abs(exact).max()
        np.testing.assert_allclose(by_autodiff, exact, rtol=1e-12, atol=1e-13 * scale)
        np.testing.assert_allclose(ms.stein_matrix(ms.DKSD(k, m), model, x), exact, rtol=1e-12, atol=1e-13 * scale)

    @pytest.mark.parametrize("kernel", ["separable", "function"])
    def test_memory(self, kernel):
        """250 observations of 20 variables: n² d⁴ numbers would be 80 GB."""
        n, d = 250, 20
        sample = as_rows(self.RNG.standard_normal((n, d)).astype(np.float32)).sample()
        tree = in_precision(
            (ms.DKSD(kernels(d)[kernel], DIFFUSIONS["matrix"]), ms.models.Gaussian(np.zeros(d), 1.0)), np.float32
        )
        arrays, rest = eqx.partition((*tree, sample), eqx.is_array)
        compiled = jax.jit(lambda arrays: _stein_matrix(*eqx.combine(arrays, rest))).lower(arrays).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < 5e8  # half of what doubles would take


class TestVerdictsAboutThePaper:
    def test_what_three_fits_do_not_decide(self):
        """Nats that score matching loses, 0.43 ± 0.34: neither the claim nor its contrary is shown."""
        nats = {(name, kind): np.zeros(3) for name in experts.SEEN for kind in experts.KINDS}
        shapes = {(name, "clean"): 0.5 + np.zeros((3, 2)) for name in experts.SEEN}
        moved = {name: np.arange(3.0) for name in experts.SEEN}
        loses = lambda lost: (
            experts._claims_of_patches(shapes, np.ones(2), {**nats, ("SM", "saturated"): -np.array(lost)}, moved)[
                -1
            ].verdict
        )
        assert loses([0.0, 0.19, 1.1]) == "undecided"
        assert loses([1.0, 1.1, 1.2]) == "holds"
        assert loses([-1.0, -1.1, -1.2]) == "does not hold"

    def test_bessel_compares_by_the_same_search(self):
        """Score matching is bad on the grid and KSD good from the median, but each search serves both alike."""
        draws = np.random.default_rng(0).standard_normal(50)
        names = ["SM", *(f"KSD, ℓ = {ell:g}" for ell in bessel.LENGTHSCALES)]
        e = {
            (p, s, name): bessel.VALUES[p] + draws / 10
            for p in bessel.VALUES
            for s in bessel.SMOOTHNESS
            for name in names
        }
        e["location", 0.6, "SM"] = e["location", 0.6, f"KSD as V, ℓ = 1{bessel.GLOBAL}"] = draws
        e["location", 0.6, f"SM{bessel.LOCAL}"] = draws / 10
        told = lambda: {claim.name: claim.verdict for claim in bessel._claims(e)}["bessel location: s = 0.6"]
        assert told() == "does not hold"
        e["location", 0.6, f"SM{bessel.LOCAL}"] = draws
        assert told() == "holds partly"
        e["location", 0.6, f"KSD as V, ℓ = 1{bessel.GLOBAL}"] = draws / 10
        assert told() == "holds"
