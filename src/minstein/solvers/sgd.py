"""Stochastic gradient descent by an optimiser of Optax."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .stochastic import AbstractStochastic, check_settings


class SGD(AbstractStochastic):
    """Stochastic gradient descent by any optimiser of Optax, on the unconstrained scale of the
    parameters.

    For models with more parameters than `GaussNewton` can handle, such as energy networks, and for
    samples too large for all their pairs. It takes all its steps. If standard errors are requested,
    Newton steps follow, and the fit has converged if it is then within a fiftieth of a standard
    error of the minimum.

    Args:
        optimiser: an Optax optimiser, `optax.adam(1e-2)` if None.
        steps: the number of steps.
        batch: observations in a minibatch.
        average: the share of the last steps over which the estimate is averaged; 0 takes the last
            vector itself.
        checkpoint: a file to which the state is saved regularly. If it exists, the descent continues
            from it, and gives the same result as without the interruption.
        every: steps between checkpoints.

    >>> import optax
    >>> solver = ms.SGD(optax.adam(0.1), steps=100, batch=32)     # ms.fit(model, x, solver=solver, key=key)
    >>> solver.needs_key
    True
    """

    optimiser: Any = eqx.field(default=None, repr=False)
    steps: int = eqx.field(static=True, default=1000)
    batch: int = eqx.field(static=True, default=100)
    average: float = eqx.field(static=True, default=0.0)
    checkpoint: str | None = eqx.field(static=True, default=None)
    every: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        check_settings(self)

    def begin(self, eta):
        return self._optimiser().init(eta)

    def move(self, objective, eta, inner, t):
        value, gradient = jax.value_and_grad(objective)(eta)
        updates, inner = self._optimiser().update(gradient, inner, eta)
        return jnp.asarray(optax.apply_updates(eta, updates)), inner, value

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(1e-2) if self.optimiser is None else self.optimiser
