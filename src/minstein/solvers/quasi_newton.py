"""Newton's method with an approximate Hessian from a few rows, for data that are slow to read."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Scalar, Theta
from ..data.compiling import compiled
from ..discrepancies.base import AbstractObjective
from . import status
from ._solver import AbstractSolver, Candidates, single_candidate
from .gauss_newton import GaussNewton
from .progress import bar


class QuasiNewton(AbstractSolver):
    """Newton steps with the Hessian of some rows at their own minimum, corrected by what each step
    finds (BFGS).

    It differs from the Hessian of all rows by chance, so that with k rows a step leaves a fraction
    of order 1/√k of the distance to the minimum: a few passes for value and gradient, where
    Gauss–Newton takes ten or more for the metric as well. If the steps do not shrink, another solver
    takes over.

    Args:
        max_steps: the iteration limit.
        tolerance: of the last step, in units of the noise of the loss; √ε of the precision if None.
        otherwise: the solver to use if this one fails or does not know a Hessian.
        known: the Hessian in η, and the noise of the loss.
    """

    max_steps: int = eqx.field(static=True, default=20)
    tolerance: float | None = None
    otherwise: AbstractSolver = eqx.field(default=GaussNewton(), repr=False)
    known: tuple[Float[Array, "p p"], Scalar] | None = eqx.field(default=None, repr=False)

    @property
    def for_few_rows(self):
        return self.otherwise

    def prepare(self, curvature):
        """Return a copy that starts from this Hessian, or self if it is not positive definite."""
        hessian, noise = curvature()
        fine = np.isfinite(hessian).all() and np.linalg.eigvalsh(hessian)[0] > 0
        return dataclasses.replace(self, known=(hessian, np.asarray(noise))) if fine else self

    def search(self, objective, etas, key, progress):
        found = (
            None if self.known is None else self._search(objective, etas[0], *self.known, progress)
        )
        return self.otherwise.search(objective, etas, key, progress) if found is None else found

    def _search(
        self,
        objective: AbstractObjective,
        eta: Theta,
        H: Float[Array, "p p"],
        noise: Scalar,
        progress: bool | None,
    ) -> Candidates | None:
        tolerance = np.sqrt(np.finfo(H.dtype).eps) if self.tolerance is None else self.tolerance
        values, before, last = [], np.inf, None
        with bar(progress, self.max_steps, type(self).__name__) as shown:
            for _ in range(self.max_steps):
                value, gradient = _value_and_grad(objective, eta)
                values.append(value)
                shown.update(1)
                shown.set_postfix(loss=f"{float(value):.4g}")
                H = H if last is None else _update_hessian(H, last[0], gradient - last[1])
                step = -np.linalg.solve(H, gradient)
                square = step @ H @ step / 2
                if square <= tolerance**2 * noise:
                    # the last step changes the loss by less than rounding
                    trace = jnp.stack([*values, value])
                    return single_candidate(eta + step, value, status.CONVERGED, len(values), trace)
                if not square < before / 4:
                    return None
                eta, before, last = eta + step, square, (step, gradient)
        return None


@compiled(often=True)
def _value_and_grad(objective: AbstractObjective, eta: Theta) -> tuple[Scalar, Theta]:
    return jax.value_and_grad(objective)(eta)


def _update_hessian(H: Float[Array, "p p"], step: Theta, change: Theta) -> Float[Array, "p p"]:
    """The BFGS update: the nearest Hessian that explains a change of the gradient."""
    along = H @ step
    return H + np.outer(change, change) / (change @ step) - np.outer(along, along) / (step @ along)
