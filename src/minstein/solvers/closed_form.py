"""The minimum of a quadratic loss."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from .._types import Theta
from ..data.compiling import compiled
from ..discrepancies.base import AbstractObjective
from . import status
from ._solver import AbstractSolver, Candidates, single_candidate
from ._spectrum import Spectrum


class ClosedForm(AbstractSolver):
    """The minimum θ̂ = −½A⁻¹v of a quadratic loss θᵀAθ + vᵀθ + c.

    The loss is quadratic for an exponential family or a Gaussian location if the kernel and the
    diffusion do not depend on θ. The coefficients come from one pass over the pairs at the start,
    and no ridge is added to A. A second pass verifies that the gradient at θ̂ vanishes, except for
    rounding.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM(), solver=ms.ClosedForm())
    >>> round(fit.params["loc"], 6), int(fit.steps)
    (3.0, 1)
    """

    depends_on_start: ClassVar[bool] = False
    keeps: ClassVar[bool] = False

    def search(self, objective, etas, key, progress):
        return _solve(objective, etas[-1])


@compiled
def _solve(objective: AbstractObjective, eta: Theta) -> Candidates:
    jet = objective.jet(eta)
    s = Spectrum.of(jet.curvature)
    step = -s.solve(jet.gradient) / 2  # the Hessian is 2A
    value, gradient = jax.value_and_grad(objective)(eta + step)
    correction = -s.solve(gradient) / 2
    found = jnp.where(jnp.isfinite(step + correction), eta + step + correction, eta)
    as_predicted = s.square(correction) <= 1e-8 * s.square(step) + 1e-6 * jet.noise
    code = jnp.where(as_predicted, status.CONVERGED, status.NOT_QUADRATIC)
    code = jnp.where(s.w[0] < 0, status.SADDLE, code)
    code = jnp.where(
        jnp.min(jnp.abs(s.w)) < 10 * eta.size * jnp.finfo(eta.dtype).eps, status.SINGULAR, code
    )
    code = jnp.where(jnp.isfinite(jet.value), code, status.NOT_FINITE)
    trace = jnp.stack([jet.value, value])
    condition = jnp.where(s.w[0] > 0, s.w[-1] / s.w[0], jnp.inf)
    return single_candidate(found, value, code, 1, trace, condition)
