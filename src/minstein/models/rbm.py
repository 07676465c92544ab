"""The restricted Boltzmann machine."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, Point
from ..data.spaces import BINARY, Finite
from ..params import parameter
from ._family import AbstractSampler, as_array, plain

SWEEPS = 1000
"""Alternating draws of hidden and visible units from a random state to a draw: a round number,
enough for small weights; chains mix slowly if the weights are large.
"""


class RBM(AbstractSampler):
    """log p(v) = b·v + Σ_h log(1 + exp(c_h + (vW)_h)) for visible units v in {0, 1}ᵈ.

    The hidden units are summed out. The parameters are not identified: renumbering the hidden units
    does not change p, nor does the bias of a hidden unit whose weights are zero.

    Args:
        visible: b, of shape (d,).
        hidden: c, of shape (m,).
        weights: W, of shape (d, m).

    >>> machine = ms.models.RBM(np.zeros(3), np.zeros(2), np.zeros((3, 2)))
    >>> round(float(machine(jnp.zeros(3))), 4)                                           # 2 log 2
    1.3863
    """

    visible: Any = parameter()
    hidden: Any = parameter()
    weights: Any = parameter()
    space: Finite = eqx.field(repr=False, default=BINARY)

    def __init__(self, visible: Any, hidden: Any, weights: Any):
        self.visible, self.hidden = as_array(visible), as_array(hidden)
        self.weights = as_array(weights)
        d, m, shape = (np.shape(plain(part)) for part in (self.visible, self.hidden, self.weights))
        if len(d) != 1 or len(m) != 1 or shape != d + m:
            raise ValueError(
                f"RBM: shapes must be (d,), (m,) and (d, m), got {d}, {m} and {shape}."
            )

    @property
    def d(self) -> int:
        return np.shape(plain(self.visible))[0]

    @classmethod
    def random(cls, d: int, m: int, key: Any, *, scale: float = 0.01) -> "RBM":
        """Return a machine with small random weights and zero biases, a common starting point."""
        weights = scale * np.asarray(jax.random.normal(key, (d, m)), np.float64)
        return cls(np.zeros(d), np.zeros(m), weights)

    def log_density(self, x):
        return jnp.vdot(self.visible, x) + jnp.sum(jax.nn.softplus(self.hidden + x @ self.weights))

    def flips(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """log p(x with unit i flipped) − log p(x) for every unit i of every row x.

        Flipping unit i adds row i of W to the hidden inputs or subtracts it from them.
        """

        def row(x: Point) -> Point:
            inputs, change = self.hidden + x @ self.weights, 1 - 2 * x
            there = jax.nn.softplus(inputs + change[:, None] * self.weights)
            return change * self.visible + jnp.sum(there - jax.nn.softplus(inputs), axis=1)

        block = max(1, _ENTRIES // max(1, self.weights.size))
        if block >= x.shape[0]:
            return jax.vmap(row)(x)
        return jax.lax.map(jax.checkpoint(row), x, batch_size=block)

    def alternate(self, x: Point, key: Any) -> Point:
        """Draw the hidden units given x, then the visible units given the hidden ones."""
        up, down = jax.random.split(key)
        hidden = _bernoulli(up, self.hidden + x @ self.weights)
        return _bernoulli(down, self.visible + self.weights @ hidden)

    def draw(self, key, n):
        start, chain = jax.random.split(key)
        x = jax.random.bernoulli(start, 0.5, (n, self.d)).astype(self.weights.dtype)
        step = lambda t, x: jax.vmap(self.alternate)(
            x, jax.random.split(jax.random.fold_in(chain, t), n)
        )
        return jax.lax.fori_loop(0, SWEEPS, step, x)


_ENTRIES = 1 << 22
"""The most hidden inputs in memory at once: 32 MB in float64."""


def _bernoulli(key: Any, logits: Array) -> Array:
    return jax.random.bernoulli(key, jax.nn.sigmoid(logits)).astype(logits.dtype)
