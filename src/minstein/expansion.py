"""The loss around a model: value, gradient, Hessian, information tensor, and quadratic losses as a whole.

Everything here is in the coordinates of θ = params.theta(model), in the order of params.names(model).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from . import errors, inference
from ._types import Array, LogDensity, is_traced
from .discrepancies import DKSD
from .discrepancy import AbstractDiscrepancy, keyed
from .discrete_ksd import DiscreteKSD
from .objective import AbstractObjective, objective
from .operator import stein_kernel
from .pairs.shifts import stein_pairs
from .params import names, theta, unwrap
from .sample import AnySample, Sample, read, read_or_leave, run
from .spaces import space_of


def value_and_grad(
    discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any, *, key: PRNGKeyArray | None = None
) -> tuple[Any, Any]:
    """The loss and its gradient in θ, for the price of the loss; for contrastive divergence its update, with a `key`.

    >>> x = np.array([0.0, 1.0, 3.0])
    >>> loss, gradient = ms.value_and_grad(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), x)
    >>> gradient.round(6)                                    # −2 times the mean
    array([-2.666667])
    """
    return _evaluate(_value_and_grad, "gradient", keyed(discrepancy, key), model, x)


def hessian(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """The matrix of second derivatives of the loss in θ.

    >>> ms.hessian(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([0.0, 1.0, 3.0]))   # of mean (x − θ)²
    array([[2.]])
    """
    return _evaluate(_hessian, "Hessian", discrepancy, model, x)[1]


def information(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """The information tensor g in θ, estimated on the data.

    For DKSD `g = mean over pairs of (mᵀ∂_θ∇log p)ᵀ K (mᵀ∂_θ∇log p)`, for DSM `g = mean of ‖mᵀ∂_θ∇log p‖²`. At the truth
    the Hessian of the loss is 2g, whether m depends on θ or not. The U-statistic of a small sample need not be positive
    definite.

    >>> ms.information(ms.SM(), ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([0.0, 1.0, 3.0]))
    array([[1.]])
    """
    return _evaluate(_information, "information tensor", discrepancy, model, x)[1]


def sandwich(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """H⁻¹ΣH⁻¹/n in θ at this model: at a fitted one, the covariance of the estimates.

    H is the Hessian of the loss, Σ the second moment of what each observation contributes to its gradient: ∂F for DSM,
    2/(n − 1) Σⱼ ∂k⁰(xᵢ, xⱼ) for DKSD. Away from a minimum it is algebra only.

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


def quadratic(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Quadratic:
    """The coefficients of a loss that is quadratic in θ; its minimiser is −A⁻¹v/2 where A is positive definite.

    So is the loss of an exponential family under a θ-free kernel and diffusion, and of a Gaussian location.

    >>> model = ms.models.ExponentialFamily(lambda x: jnp.array([x[0], -x[0] ** 2 / 2]), [0.0, 1.0])
    >>> A, v, c = ms.quadratic(ms.SM(), model, np.array([0.0, 1.0, 3.0, 4.0]))
    >>> np.linalg.solve(A, -v / 2).round(6)                  # mean/variance, 1/variance
    array([0.8, 0.4])
    """
    value, (A, v, c), predicted = _evaluate(_quadratic, None, discrepancy, model, x)
    if not is_traced(value) and not np.allclose(predicted, value, rtol=1e-6 if value.dtype == np.float64 else 1e-2):
        raise ValueError(
            "The loss of this model is not quadratic in θ, so it has no coefficients A, v, c. "
            "It is for an ExponentialFamily with a kernel and a diffusion that do not depend on θ; "
            "fix the other parameters with ms.fixed(...)."
        )
    return Quadratic(A, v, c)


def stein_matrix(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """The matrix k⁰(xᵢ, xⱼ), pair by pair by autodiff: for looking at few observations, not for sums over many.

    >>> ms.stein_matrix(ms.KSD(ms.kernels.Gaussian(1.0)), ms.models.Gaussian(0.0, 1.0), np.array([0.0, 2.0])).round(4)
    array([[ 1.    , -0.9473],
           [-0.9473,  5.    ]])
    """
    x = read(x, space_of(model))
    discrepancy = discrepancy.ready(model, x)
    if isinstance(discrepancy, DiscreteKSD):
        return run(_shift_matrix, discrepancy, model, x)[: x.shape[0], : x.shape[0]]
    if not isinstance(discrepancy, DKSD):
        raise TypeError(f"Only DKSD, KSD and DiscreteKSD have a Stein kernel, got {type(discrepancy).__name__}.")
    return run(_stein_matrix, discrepancy, model, x)[: x.shape[0], : x.shape[0]]


def _evaluate(compute: Callable, what: str | None, discrepancy: AbstractDiscrepancy, model: LogDensity, x: Any) -> Any:
    """Run at the boundary; a loss, or else a named result, that is not finite raises an error that says why."""
    x = read_or_leave(x, space_of(model))
    discrepancy = discrepancy.ready(model, x)
    if not names(model):
        raise errors.no_parameters()
    result = run(compute, discrepancy, model, x)
    if not is_traced(result):
        if not np.isfinite(result[0]):
            discrepancy.explain(model, x, float(result[0]))
        if what is not None and not all(np.isfinite(part).all() for part in jax.tree.leaves(result)):
            raise errors.bad_derivative(what)
    return result


def _in_theta(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> AbstractObjective:
    return objective(discrepancy, model, sample, natural=True)


def _value_and_grad(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> tuple[Array, Array]:
    return jax.value_and_grad(_in_theta(discrepancy, model, sample))(theta(model))


def _hessian(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> tuple[Array, Array]:
    target = _in_theta(discrepancy, model, sample)
    return target(theta(model)), target.second(theta(model)).hessian


def _sandwich(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> tuple[Array, Array]:
    target = _in_theta(discrepancy, model, sample)
    return target(theta(model)), inference.sandwich(target.second(theta(model)), sample.size)[0]


def _information(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> tuple[Array, Array]:
    return discrepancy.loss(unwrap(model), sample), discrepancy.information(model, sample)


def _quadratic(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> tuple[Array, tuple, Array]:
    """The coefficients, from one pass at θ = 0, and what they predict for the loss at a θ that is nothing special."""
    target, here = _in_theta(discrepancy, model, sample), theta(model)
    elsewhere = here + 1 + jnp.arange(here.size) / (1 + here.size)
    c, v, A, *_ = target.jet(jnp.zeros_like(here))
    return target(elsewhere), (A, v, c), elsewhere @ A @ elsewhere + v @ elsewhere + c


def _stein_matrix(discrepancy: DKSD, model: LogDensity, sample: Sample) -> Array:
    k0 = stein_kernel(unwrap(model), discrepancy.diffusion, discrepancy.kernel)
    return jax.vmap(lambda x: jax.vmap(lambda y: k0(x, y))(sample.x))(sample.x)


def _shift_matrix(discrepancy: DiscreteKSD, model: LogDensity, sample: Sample) -> Array:
    phi = discrepancy.features(unwrap(model), sample)
    return stein_pairs(discrepancy.kernel, discrepancy.space, sample.x, phi)
