"""What a Markov kernel is: one step from a point, for a model that it leaves invariant."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import errors
from .._text import as_call
from .._types import Array, LogDensity, Point
from ..params import as_function
from ..spaces import AbstractSpace


class AbstractTransition(eqx.Module):
    """P_θ: `kernel(model, x, key)` is a draw of where a chain at x goes next. The model has no marks."""

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def __call__(self, model: LogDensity, x: Point, key: Any) -> Point: ...

    @abc.abstractmethod
    def check(self, model: LogDensity, space: AbstractSpace) -> None:
        """Raise where the kernel cannot serve such a model."""


class AbstractFiniteTransition(AbstractTransition):
    """A kernel on a finite space, whose transition matrix is known."""

    @abc.abstractmethod
    def matrix(self, model: LogDensity, d: int) -> Float[np.ndarray, "s s"]:
        """P_θ(x, y) over all states of d coordinates, in the order of `space.states(d)`; for a few coordinates only."""


class Function(AbstractTransition):
    """A kernel that a user wrote as a function of a model, a point and a key."""

    fn: Callable = eqx.field(converter=as_function)

    def __call__(self, model, x, key):
        return self.fn(model, x, key)

    def check(self, model, space):
        return None


def as_transition(kernel: Any) -> AbstractTransition:
    """A kernel of `ms.markov`, or any function `kernel(model, x, key)` that returns the next point."""
    if isinstance(kernel, AbstractTransition):
        return kernel
    if not callable(kernel) or isinstance(kernel, type):
        raise errors.no_transition(kernel)
    return Function(kernel)


def run(
    kernel: AbstractTransition, model: LogDensity, x: Float[Array, "n d"], key: Any, steps: int
) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """Chains from each row of x after so many steps, and the share of each one's steps that moved it.

    >>> walk, model = ms.markov.RandomWalk(0.5), ms.models.Gaussian(0.0, 1.0)
    >>> ends, moved = ms.markov.run(walk, model, jnp.zeros((3, 1)), jax.random.key(0), 2)
    >>> ends.shape, moved.shape
    ((3, 1), (3,))
    """

    def step(t: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, moved = state
        keys = jax.random.split(jax.random.fold_in(key, t), x.shape[0])
        y = jax.vmap(lambda x, key: kernel(model, x, key))(x, keys)
        if y.shape != x.shape:
            raise errors.bad_transition(y.shape[1:], x.shape[1])
        return y.astype(x.dtype), moved + jnp.any(x != y, axis=1).astype(x.dtype)

    start = (jnp.asarray(x), jnp.zeros(x.shape[0], x.dtype))
    x, moved = step(jnp.asarray(0), start) if steps == 1 else jax.lax.fori_loop(0, steps, step, start)
    return x, moved / steps
