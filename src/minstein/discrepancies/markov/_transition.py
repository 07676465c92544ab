"""The interface of a Markov kernel: one step from a point, leaving a model invariant."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ... import errors
from ..._text import as_call
from ..._types import Array, LogDensity, Point
from ...data.spaces import AbstractSpace
from ...models.enumeration import as_alphabet
from ...params import as_function


class AbstractTransition(eqx.Module):
    """A Markov kernel P_θ: `kernel(model, x, key)` draws the next point of a chain that is at x.

    The model must have no marks.
    """

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def __call__(self, model: LogDensity, x: Point, key: Any) -> Point: ...

    def check(self, model: LogDensity, space: AbstractSpace) -> None:
        """Raise if the kernel cannot be used with this model; by default any model will do."""
        return


class AbstractFiniteTransition(AbstractTransition):
    """A kernel on a finite space, with a transition matrix."""

    def check(self, model, space):
        as_alphabet(space, type(self).__name__)

    @abc.abstractmethod
    def matrix(self, model: LogDensity, d: int) -> Float[np.ndarray, "s s"]:
        """The matrix P_θ(x, y) over all states in the order of `space.states(d)`, for small d."""


class Function(AbstractTransition):
    """A kernel that the user has written as a function of a model, a point and a key."""

    fn: Callable = eqx.field(converter=as_function)

    def __call__(self, model, x, key):
        return self.fn(model, x, key)


def as_transition(kernel: Any) -> AbstractTransition:
    """Convert a function `kernel(model, x, key)` to a kernel; kernels are returned unchanged."""
    if isinstance(kernel, AbstractTransition):
        return kernel
    if not callable(kernel) or isinstance(kernel, type):
        raise _not_a_transition(kernel)
    return Function(kernel)


def run(
    kernel: AbstractTransition, model: LogDensity, x: Float[Array, "n d"], key: Any, steps: int
) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """Run a chain from each row of x; return its end and the share of its steps that moved it.

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
            raise _bad_transition(y.shape[1:], x.shape[1])
        return y.astype(x.dtype), moved + jnp.any(x != y, axis=1).astype(x.dtype)

    start = (jnp.asarray(x), jnp.zeros(x.shape[0], x.dtype))
    x, moved = (
        step(jnp.asarray(0), start) if steps == 1 else jax.lax.fori_loop(0, steps, step, start)
    )
    return x, moved / steps


@errors.explained("discrete.md")
def _not_a_transition(kernel: Any) -> TypeError:
    return TypeError(
        "A Markov kernel must be an instance of a kernel of ms.markov, such as ms.markov.RandomWalk(0.5), or a "
        f"function kernel(model, x, key) that returns the next point; got {kernel!r}."
    )


@errors.explained("discrete.md")
def _bad_transition(shape: tuple[int, ...], d: int) -> ValueError:
    return ValueError(
        f"The Markov kernel must return a point of shape ({d},) for a point of that shape, got {shape}."
    )
