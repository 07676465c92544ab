"""Newton's method with a Hessian that is nearly known beforehand, for data that are slow to go
through.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Scalar, Theta
from ..data.compiling import compiled
from . import status
from ._solver import AbstractSolver, Candidates
from .gauss_newton import GaussNewton
from .objective import AbstractObjective
from .progress import bar


class QuasiNewton(AbstractSolver):
    """Newton steps with the Hessian of some rows at their own minimum, corrected by what each step
    finds (BFGS).

    It differs from the Hessian of all rows by chance, so that with k rows a step leaves a fraction
    of order 1/√k of the distance to the minimum: a few passes for value and gradient, where
    Gauss–Newton takes ten or more for the metric as well. Where steps do not shrink, another solver
    takes over.

    Args:
        max_steps: the iteration limit.
        tolerance: of the last step, in units of the noise of the loss; √ε of the precision if None.
        otherwise: the solver where this one fails, or has not been told a Hessian.
        known: the Hessian in η, and the noise of the loss.
    """

    max_steps: int = eqx.field(static=True, default=20)
    tolerance: float | None = None
    otherwise: AbstractSolver = eqx.field(default=GaussNewton(), repr=False)
    known: tuple[Float[Array, "p p"], Scalar] | None = eqx.field(default=None, repr=False)

    @property
    def keeps(self):
        return True

    @property
    def slack(self):
        return 0.01

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
                H = H if last is None else _corrected(H, last[0], gradient - last[1])
                step = -np.linalg.solve(H, gradient)
                square = step @ H @ step / 2
                if square <= tolerance**2 * noise:
                    return _found(eta + step, values)
                if not square < before / 4:
                    return None
                eta, before, last = eta + step, square, (step, gradient)
        return None


@compiled(often=True)
def _value_and_grad(objective: AbstractObjective, eta: Theta) -> tuple[Scalar, Theta]:
    return jax.value_and_grad(objective)(eta)


def _corrected(H: Float[Array, "p p"], step: Theta, change: Theta) -> Float[Array, "p p"]:
    """The nearest Hessian that explains a change of the gradient."""
    along = H @ step
    return H + np.outer(change, change) / (change @ step) - np.outer(along, along) / (step @ along)


def _found(eta: Theta, values: list[Scalar]) -> Candidates:
    """The end of the search; the loss there is the last one but for less than rounding."""
    trace = jnp.stack([*values, values[-1]])
    as_one = lambda value: jnp.asarray(value)[None]
    unknown = as_one(jnp.full_like(values[-1], jnp.nan))
    return Candidates(
        eta[None],
        as_one(values[-1]),
        as_one(status.CONVERGED),
        as_one(len(values)),
        trace[None],
        unknown,
    )
