"""Markov kernels on finite alphabets: Gibbs sampling, single flips, block Gibbs for an RBM."""

from functools import reduce
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._types import Array, LogDensity, Point
from ...data.spaces import BINARY, Finite
from ...models.enumeration import alphabet, probabilities
from ...models.rbm import RBM
from ...params import unwrap
from ._transition import AbstractFiniteTransition


@runtime_checkable
class HasSiteLogits(Protocol):
    """A model with a formula for log p, up to a constant, as a function of one coordinate."""

    def site_logits(self, x: Any, i: Any, /) -> Any: ...


def _site_logits(model: LogDensity, space: Finite, x: Point, i: Array) -> Float[Array, " a"]:
    """log p as a function of coordinate i, by the model's own formula if it has one."""
    if isinstance(model, HasSiteLogits):
        return model.site_logits(x, i)
    return jax.vmap(lambda value: model(jnp.asarray(x).at[i].set(value)))(
        jnp.asarray(space.values, x.dtype)
    )


class Gibbs(AbstractFiniteTransition):
    """Gibbs sampling: draw a coordinate given all the others.

    Args:
        scan: 'sweep' to draw every coordinate in turn, which leaves p invariant; 'random' to draw
            one coordinate at random, which is also reversible.

    >>> P = ms.markov.Gibbs().matrix(ms.models.Ising(0.1, 0.3, ms.models.grid(1, 2)), 2)
    >>> np.allclose(P.sum(1), 1)
    True
    """

    scan: str = eqx.field(static=True, default="sweep")

    def __check_init__(self):
        if self.scan not in ("sweep", "random"):
            raise ValueError(f"Gibbs: scan must be 'sweep' or 'random', got {self.scan!r}.")

    def __call__(self, model, x, key):
        space = alphabet(model)
        if self.scan == "random":
            which, draw = jax.random.split(key)
            i = jax.random.randint(which, (), 0, x.shape[0])
            return _redraw(
                model, space, x, i, jax.random.gumbel(draw, (len(space.values),), x.dtype)
            )
        noise = jax.random.gumbel(key, (x.shape[0], len(space.values)), x.dtype)
        return jax.lax.fori_loop(
            0, x.shape[0], lambda i, x: _redraw(model, space, x, i, noise[i]), x
        )

    def matrix(self, model, d):
        space, p = alphabet(model), probabilities(model, d)
        sites = (_site_matrix(space, p, d, i) for i in range(d))
        return reduce(np.matmul, sites) if self.scan == "sweep" else sum(sites) / d


def _redraw(
    model: LogDensity, space: Finite, x: Point, i: Array, gumbel: Float[Array, " a"]
) -> Point:
    """Draw coordinate i given the others."""
    chosen = jnp.argmax(_site_logits(model, space, x, i) + gumbel)
    return jnp.asarray(x).at[i].set(jnp.asarray(space.values, x.dtype)[chosen])


class SingleFlip(AbstractFiniteTransition):
    """Metropolis sampling that proposes a new value for a coordinate chosen at random.

    >>> P = ms.markov.SingleFlip().matrix(ms.models.Ising(0.1, 0.3, ms.models.grid(1, 2)), 2)
    >>> np.allclose(P.sum(1), 1)
    True
    """

    def __call__(self, model, x, key):
        space = alphabet(model)
        site, shift, accept = jax.random.split(key, 3)
        i = jax.random.randint(site, (), 0, x.shape[0])
        k = jax.random.randint(shift, (), 1, len(space.values))
        here = space.codes(x[i])
        there = (here + k) % len(space.values)
        logits = _site_logits(model, space, x, i)
        moves = jnp.log(jax.random.uniform(accept, dtype=x.dtype)) < logits[there] - logits[here]
        return jnp.where(
            moves, jnp.asarray(x).at[i].set(jnp.asarray(space.values, x.dtype)[there]), x
        )

    def matrix(self, model, d):
        space, p = alphabet(model), probabilities(model, d)
        proposals = d * (len(space.values) - 1)
        P = (
            sum(_neighbours(space, d, i) for i in range(d))
            * np.minimum(1, p[None, :] / p[:, None])
            / proposals
        )
        return P + np.diag(1 - P.sum(axis=1))


class BlockGibbs(AbstractFiniteTransition):
    """Block Gibbs sampling for an RBM: draw all hidden units, then all visible units.

    >>> machine = ms.models.RBM(jnp.zeros(2), jnp.zeros(2), jnp.ones((2, 2)))
    >>> ms.markov.BlockGibbs()(machine, jnp.zeros(2), jax.random.key(0)).shape
    (2,)
    """

    def check(self, model, space):
        if not isinstance(model, RBM):
            raise TypeError(
                f"BlockGibbs needs ms.models.RBM, got {type(model).__name__}. Use ms.markov.Gibbs()."
            )

    def __call__(self, model: Any, x, key):
        return model.alternate(x, key)

    def matrix(self, model, d):
        model = unwrap(model)
        b, c, W = (
            np.asarray(part, np.float64) for part in (model.visible, model.hidden, model.weights)
        )
        visible, hidden = BINARY.states(d), BINARY.states(len(c))
        return _bernoulli(c + visible @ W, hidden) @ _bernoulli(b + hidden @ W.T, visible)


def _bernoulli(
    logits: Float[np.ndarray, "s m"], outcomes: Float[np.ndarray, "o m"]
) -> Float[np.ndarray, "s o"]:
    """The probability of each outcome given each row of logits."""
    return np.exp(logits @ outcomes.T - np.logaddexp(0, logits).sum(axis=1, keepdims=True))


def _neighbours(space: Finite, d: int, i: int) -> Float[np.ndarray, "s s"]:
    """The matrix that is one for pairs of states that differ in coordinate i alone, else zero."""
    states = space.states(d)
    others = np.delete(states, i, axis=1)
    same = (others[:, None, :] == others[None, :, :]).all(axis=2)
    return (same & ~np.eye(len(states), dtype=bool)).astype(float)


def _site_matrix(space: Finite, p: np.ndarray, d: int, i: int) -> Float[np.ndarray, "s s"]:
    """The transition matrix of a draw of coordinate i given the others."""
    P = (_neighbours(space, d, i) + np.eye(len(p))) * p
    return P / P.sum(axis=1, keepdims=True)
