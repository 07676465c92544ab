"""JAX as one writes it first: the Stein kernel of a pair by autodiff, its mean differentiated in θ.

Rows are taken a few at a time and computed again for the gradient, because all pairs at once would need gigabytes.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def calls(x: np.ndarray) -> dict[str, Callable]:
    theta = np.append(np.zeros(x.shape[1]), 1.0)
    return {"": lambda: jax.block_until_ready(_value_and_grad(theta, x))}


def log_density(theta: jax.Array, x: jax.Array) -> jax.Array:
    """Of the normal distribution at θ = (μ, σ), without its normaliser."""
    z = (x - theta[:-1]) / theta[-1]
    return -jnp.vdot(z, z) / 2


def kernel(x: jax.Array, y: jax.Array) -> jax.Array:
    return (1 + jnp.vdot(x - y, x - y)) ** -0.5


def stein_kernel(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    score = jax.grad(log_density, 1)
    k, (kx, ky) = jax.value_and_grad(kernel, (0, 1))(x, y)
    trace = jnp.trace(jax.jacfwd(jax.grad(kernel), 1)(x, y))
    sx, sy = score(theta, x), score(theta, y)
    return k * sx @ sy + sx @ ky + sy @ kx + trace


@jax.jit
@jax.value_and_grad
def _value_and_grad(theta: jax.Array, x: jax.Array) -> jax.Array:
    row = jax.checkpoint(lambda a: jnp.mean(jax.vmap(lambda b: stein_kernel(theta, a, b))(x)))
    return jnp.mean(jax.lax.map(row, x, batch_size=16))
