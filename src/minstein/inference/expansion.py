"""The derivatives of a loss at a model: gradient, Hessian, information tensor and sandwich.

Everything is in the coordinates θ = params.theta(model), in the order of params.names(model).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity, is_traced
from ..data.boundary import run
from ..data.checks import no_parameters
from ..data.reading import read, read_or_leave
from ..data.sample import AnySample, Sample
from ..data.spaces import space_of
from ..discrepancies.base import AbstractDiscrepancy
from ..params import names, theta, unwrap
from ..solvers import sandwich as inference
from ..solvers.objective import objective


def value_and_grad(
    discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any, *, key: Any = None
) -> tuple[Any, Any]:
    """The loss and its gradient in θ, at about the cost of the loss alone.

    For contrastive divergence, which needs a `key`, the gradient is its update.

    >>> x = np.array([0.0, 1.0, 3.0])
    >>> loss, gradient = ms.value_and_grad(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), x)
    >>> gradient.round(6)                                    # −2 times the mean
    array([-2.666667])
    """
    return _evaluate(_value_and_grad, "gradient", discrepancy.with_key(key), model, x)


def hessian(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """The matrix of second derivatives of the loss in θ.

    >>> ms.hessian(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([0.0, 1.0, 3.0]))   # of mean (x − θ)²
    array([[2.]])
    """
    return _evaluate(_hessian, "Hessian", discrepancy, model, x)[1]


def information(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """The information tensor g in θ, estimated on the data.

    For DKSD `g = mean over pairs of (mᵀ∂_θ∇log p)ᵀ K (mᵀ∂_θ∇log p)`, for DSM `g = mean of
    ‖mᵀ∂_θ∇log p‖²`. At the truth the Hessian of the loss is 2g, whether m depends on θ or not. The
    U-statistic of a small sample need not be positive definite.

    >>> ms.information(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([0.0, 1.0, 3.0]))
    array([[1.]])
    """
    return _evaluate(_information, "information tensor", discrepancy, model, x)[1]


def sandwich(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """H⁻¹ΣH⁻¹/n in θ at this model; at a fitted model, the covariance of the estimates.

    H is the Hessian of the loss and Σ the second moment of the contributions of the observations to
    its gradient: ∂F for DSM, 2/(n − 1) Σⱼ ∂k⁰(xᵢ, xⱼ) for DKSD. Away from a minimum it has no
    statistical meaning.

    >>> x = np.array([0.0, 1.0, 3.0, 4.0])
    >>> cov = ms.sandwich(ms.SM(), ms.models.Gaussian(x.mean(), ms.fixed(1.0)), x)
    >>> bool(np.isclose(cov[0, 0], x.var() / 4))                         # of a mean
    True
    """
    if discrepancy.irregular:
        raise TypeError(discrepancy.irregular)
    return _evaluate(_sandwich, "covariance", discrepancy, model, x)[1]


class Quadratic(NamedTuple):
    """A loss θᵀAθ + vᵀθ + c.

    >>> ms.Quadratic(A=np.eye(1), v=np.zeros(1), c=0.0).c
    0.0
    """

    A: Float[Array, "p p"]
    v: Float[Array, " p"]
    c: Any


_QUADRATIC, _QUADRATIC_SINGLE = 1e-6, 1e-2
"""The relative error of the predicted loss up to which a loss counts as quadratic, in double and in
single precision: well above the rounding error of sums that cancel.
"""


def quadratic(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Quadratic:
    """The coefficients of a loss that is quadratic in θ.

    Its minimiser is −A⁻¹v/2 if A is positive definite. The loss is quadratic for an exponential
    family, if the kernel and the diffusion do not depend on θ, and for a Gaussian location.

    >>> model = ms.models.ExponentialFamily(lambda x: jnp.array([x[0], -x[0] ** 2 / 2]), [0.0, 1.0])
    >>> A, v, c = ms.quadratic(ms.SM(), model, np.array([0.0, 1.0, 3.0, 4.0]))
    >>> np.linalg.solve(A, -v / 2).round(6)                  # mean/variance, 1/variance
    array([0.8, 0.4])
    """
    value, (A, v, c), predicted = _evaluate(_quadratic, None, discrepancy, model, x)
    rtol = _QUADRATIC if value.dtype == np.float64 else _QUADRATIC_SINGLE
    if not is_traced(value) and not np.allclose(predicted, value, rtol=rtol):
        raise ValueError(
            "The loss of this model is not quadratic in θ, so it has no coefficients A, v, c. "
            "It is quadratic for an ExponentialFamily if the kernel and the diffusion do not depend on θ; "
            "fix the other parameters with ms.fixed(...)."
        )
    return Quadratic(A, v, c)


def stein_matrix(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """The matrix k⁰(xᵢ, xⱼ), for inspecting a few thousand observations.

    It needs memory for n² numbers and the features of each observation. A kernel given as a plain
    function is differentiated pair by pair, which is slow in many dimensions.

    >>> ms.stein_matrix(ms.KSD(ms.kernels.Gaussian(1.0)), ms.models.Gaussian(0.0, 1.0), np.array([0.0, 2.0])).round(4)
    array([[ 1.    , -0.9473],
           [-0.9473,  5.    ]])
    """
    x = read(x, space_of(model))
    discrepancy = discrepancy.ready(model, x)
    return run(_stein_matrix, discrepancy, model, x, often=True)[: x.shape[0], : x.shape[0]]


def _evaluate(
    compute: Callable, what: str | None, discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any
) -> Any:
    """Validate the arguments, run `compute`, and raise if the loss or the result is not finite."""
    x = read_or_leave(x, space_of(model))
    discrepancy = discrepancy.ready(model, x)
    if not names(model):
        raise no_parameters()
    result = run(compute, discrepancy, model, x, often=True)
    if is_traced(result):
        return result
    if not np.isfinite(result[0]):
        discrepancy.explain(model, x, float(result[0]))
    finite = all(np.isfinite(part).all() for part in jax.tree.leaves(result))
    if what is not None and not finite:
        raise _bad_derivative(what)
    return result


def _value_and_grad(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample
) -> tuple[Array, Array]:
    return jax.value_and_grad(objective(discrepancy, model, sample, natural=True))(theta(model))


def _hessian(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample
) -> tuple[Array, Array]:
    target = objective(discrepancy, model, sample, natural=True)
    return target(theta(model)), target.second(theta(model)).hessian


def _sandwich(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample
) -> tuple[Array, Array]:
    target = objective(discrepancy, model, sample, natural=True)
    return target(theta(model)), inference.sandwich(target.second(theta(model)), sample.size)[0]


def _information(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample
) -> tuple[Array, Array]:
    return discrepancy.loss(unwrap(model), sample), discrepancy.information(model, sample)


def _quadratic(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample
) -> tuple[Array, tuple, Array]:
    """The loss at an arbitrary θ, the coefficients from θ = 0, and the loss that they predict."""
    target, here = objective(discrepancy, model, sample, natural=True), theta(model)
    elsewhere = here + 1 + jnp.arange(here.size) / (1 + here.size)
    c, v, A, *_ = target.jet(jnp.zeros_like(here))
    return target(elsewhere), (A, v, c), elsewhere @ A @ elsewhere + v @ elsewhere + c


def _stein_matrix(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: Sample) -> Array:
    return discrepancy.stein_matrix(unwrap(model), sample)


@errors.explained("your-own-model.md")
def _bad_derivative(what: str) -> ValueError:
    return ValueError(
        f"The {what} is not finite although the loss is. "
        "Usual cause: an observation exactly on a kink of log p, where the score has no derivative: "
        "move the location a little."
    )
