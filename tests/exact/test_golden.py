"""Every quantity of the mathematics against exact values."""

import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

from ..truth import golden
from ..truth.golden import agree, number


def kernel(spec):
    match spec["type"]:
        case "gauss":
            return ms.kernels.Gaussian(number(spec["l"]))
        case "imq":
            return ms.kernels.IMQ(number(spec["c"]), number(spec["beta"]))
        case "B":
            return ms.kernels.Separable([[number(b) for b in row] for row in spec["B"]], kernel(spec["kernel"]))
        case "diag":
            return ms.kernels.Diagonal([kernel(k) for k in spec["kernels"]], [number(w) for w in spec["lambda"]])


def shipped(case):
    """The family of the package that a case is about, with its θ."""
    theta = case["theta"]
    match case["model"]["name"]:
        case "gaussian_location_scale":
            return ms.models.Gaussian(*theta)
        case "student_t":
            return ms.models.StudentT(*theta, case["model"]["nu"])
        case "symmetric_bessel":
            return ms.models.SymmetricBessel(*theta, case["model"]["s"])
        case "generalised_gamma_location":
            return ms.models.GeneralisedGamma(*theta, case["model"]["theta2"])
        case "gaussian_location":
            covariance = np.linalg.inv(case["model"]["precision"])
            return ms.models.Gaussian(theta, ms.fixed(np.linalg.cholesky(covariance)))
        case _:
            return ms.models.ExponentialFamily(lambda x: jnp.array([x[0], x[0] ** 2]), theta)


def plain(case):
    """The same model from its log-density as printed in the case."""
    log_p = golden.function(case["logp"], case["d"], len(case["theta"]))
    return ms.models.from_log_density(lambda theta, x: log_p(x, theta), np.array(case["theta"]))


@pytest.fixture(params=golden.CASES, ids=lambda case: case["id"], scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def diffusion(case):
    """m as a function of x and of θ, which it reads off the model in either form."""
    m = golden.field(case["m"], case["d"], len(case["theta"]))
    p = len(case["theta"])
    return ms.diffusions.of_model(lambda model, x: m(x, ms.params.theta(model)[:p]), moving=True)


@pytest.mark.parametrize(
    ("make", "statistic"),
    [(plain, "u"), *(pytest.param(*both, marks=pytest.mark.slow) for both in ((plain, "v"), (shipped, "u")))],
)
def test_dksd(case, make, diffusion, statistic):
    x, exact, model = np.array(case["x"]), case["outputs"], make(case)
    dksd = ms.DKSD(kernel(case["kernel"]), diffusion, unbiased=statistic == "u")
    loss, gradient = ms.value_and_grad(dksd, model, x)
    agree(loss, exact[f"dksd_{statistic}"])
    agree(gradient, exact[f"grad_{statistic}"])
    agree(ms.hessian(dksd, model, x), exact[f"hess_{statistic}"])
    agree(ms.information(dksd, model, x), exact[f"g_{statistic}"])


def test_stein_kernel_by_autodiff(case, diffusion):
    dksd = ms.DKSD(kernel(case["kernel"]), diffusion)
    agree(ms.stein_matrix(dksd, plain(case), np.array(case["x"])), case["outputs"]["k0"])


@pytest.mark.parametrize("make", [pytest.param(plain, marks=pytest.mark.slow), shipped], ids=["function", "family"])
@pytest.mark.parametrize("case", golden.with_dsm(), ids=lambda case: case["id"])
def test_dsm(case, make):
    """The cases whose diffusion does not depend on θ."""
    x, exact, model = np.array(case["x"]), case["outputs"]["dsm"], make(case)
    m = golden.field(case["m"], case["d"], len(case["theta"]))
    dsm = ms.DSM(lambda x: m(x, case["theta"]))
    loss, gradient = ms.value_and_grad(dsm, model, x)
    agree(loss, exact["loss"])
    agree(gradient, exact["grad"])
    agree(ms.hessian(dsm, model, x), exact["hess"])
    agree(ms.information(dsm, model, x), exact["g"])
    agree([dsm(model, row[None]) for row in x], exact["F"])


@pytest.mark.parametrize("case", [c for c in golden.CASES if c["expfam"]], ids=lambda case: case["id"], indirect=False)
def test_exponential_family(case):
    x, model = np.array(case["x"]), shipped(case)
    m = golden.field(case["m"], case["d"], len(case["theta"]))
    m0 = lambda x: m(x, case["theta"])
    for discrepancy, exact in [
        (ms.DKSD(kernel(case["kernel"]), m0), case["outputs"]["expfam"]),
        (ms.DSM(m0), case["outputs"]["dsm"]),
    ]:
        A, v, c = ms.quadratic(discrepancy, model, x)
        agree(A, exact["A_n"])
        agree(v, exact["v_n"])
        agree(c, exact["c_n"])
        agree(np.linalg.solve(A, -v / 2), exact["theta_hat"], rtol=1e-7)
