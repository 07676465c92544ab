"""Metropolis–Hastings kernels on ℝᵈ: random walk, Langevin and Hamiltonian."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import errors
from ..._types import Array, LogDensity, Point, Scalar
from ...params import POSITIVE, as_float, check_value
from ._transition import AbstractTransition


class AbstractMetropolis(AbstractTransition):
    """A Metropolis–Hastings kernel on ℝᵈ."""

    step: eqx.AbstractVar[Any]

    def check(self, model, space):
        if space.discrete:
            raise _continuous_kernel(type(self).__name__, space)


def _check_step(kernel: AbstractMetropolis) -> None:
    check_value(f"{type(kernel).__name__}: step", kernel.step, POSITIVE)


def _accept(key: Any, log_ratio: Scalar, there: Point, here: Point) -> Point:
    """Return the proposal with probability min(1, ratio), else the current point; NaN is zero."""
    ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    return jnp.where(jnp.log(jax.random.uniform(key, dtype=here.dtype)) < ratio, there, here)


class RandomWalk(AbstractMetropolis):
    """Random-walk Metropolis: propose x + εz with z normal.

    Args:
        step: ε > 0, one number, or one for each coordinate.

    >>> kernel = ms.markov.RandomWalk(0.5)
    >>> kernel(ms.models.Gaussian(0.0, 1.0), jnp.zeros(1), jax.random.key(0)).shape
    (1,)
    """

    step: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        _check_step(self)

    def __call__(self, model, x, key):
        propose, accept = jax.random.split(key)
        y = x + self.step * jax.random.normal(propose, x.shape, x.dtype)
        return _accept(accept, model(y) - model(x), y, x)


class MALA(AbstractMetropolis):
    """The Metropolis-adjusted Langevin algorithm: propose x + ½ε²∇log p(x) + εz with z normal.

    Args:
        step: ε > 0, one number, or one for each coordinate.

    >>> kernel = ms.markov.MALA(0.2)
    >>> kernel(ms.models.Gaussian(0.0, 1.0), jnp.zeros(1), jax.random.key(0)).shape
    (1,)
    """

    step: Any = eqx.field(converter=as_float)

    def __check_init__(self):
        _check_step(self)

    def __call__(self, model, x, key):
        propose, accept = jax.random.split(key)
        value = jax.value_and_grad(model)
        log_p, slope = value(x)
        y = self._drift(x, slope) + self.step * jax.random.normal(propose, x.shape, x.dtype)
        log_p_there, slope_there = value(y)
        forth, back = self._log_density(y, x, slope), self._log_density(x, y, slope_there)
        return _accept(accept, log_p_there - log_p + back - forth, y, x)

    def _drift(self, x: Point, slope: Point) -> Point:
        """The mean of the proposal from x."""
        return x + self.step**2 * slope / 2

    def _log_density(self, y: Point, x: Point, slope: Point) -> Scalar:
        """The log-density of the proposal y from x, up to a constant."""
        return -jnp.sum(((y - self._drift(x, slope)) / self.step) ** 2) / 2


class HMC(AbstractMetropolis):
    """Hamiltonian Monte Carlo: a leapfrog path with normal momenta.

    Args:
        step: ε > 0, one number, or one for each coordinate.
        leaps: the number of leapfrog steps in a path.

    >>> kernel = ms.markov.HMC(0.2, 5)
    >>> kernel(ms.models.Gaussian(0.0, 1.0), jnp.zeros(1), jax.random.key(0)).shape
    (1,)
    """

    step: Any = eqx.field(converter=as_float)
    leaps: int = eqx.field(static=True, default=10)

    def __check_init__(self):
        _check_step(self)
        if self.leaps < 1:
            raise ValueError(f"HMC: leaps must be at least 1, got {self.leaps}.")

    def __call__(self, model, x, key):
        propose, accept = jax.random.split(key)
        momentum = jax.random.normal(propose, x.shape, x.dtype)
        energy = lambda x, momentum: jnp.vdot(momentum, momentum) / 2 - model(x)
        y, end = self._path(model, x, momentum)
        return _accept(accept, energy(x, momentum) - energy(y, end), y, x)

    def _path(self, model: LogDensity, x: Point, momentum: Point) -> tuple[Point, Point]:
        slope = jax.grad(model)

        def leap(_: Array, state: tuple[Point, Point]) -> tuple[Point, Point]:
            x, momentum = state
            momentum = momentum + self.step * slope(x) / 2
            x = x + self.step * momentum
            return x, momentum + self.step * slope(x) / 2

        return jax.lax.fori_loop(0, self.leaps, leap, (x, momentum))


@errors.explained("discrete.md")
def _continuous_kernel(name: str, space: Any) -> TypeError:
    return TypeError(
        f"{name} is a kernel on ℝᵈ, but the model lives on {space!r}. "
        "Use ms.markov.Gibbs() or ms.markov.SingleFlip()."
    )
