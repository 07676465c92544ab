"""Against autodiff over pairs: a Stein kernel vmapped twice, its mean differentiated in θ.

Two Stein kernels are opponents: the package's own yardstick, straight from the definition, and a lean one for scalar
kernels and diffusions, as somebody would write it who cares for speed. Each is run from the whole matrix of pairs, at
as many rows as fit in memory, and a few checkpointed rows at a time.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import minstein as ms

from ..errors import difference
from ..problems import moving_dksd, student_t
from ..processes import peaks
from ..rows import Row, at_least
from ..samples import heavy_tailed
from ..timing import timing

N = 2000
GATES = {1: 20, 5: 100}
"""By dimension, how many times less CPU time than each opponent."""


def lean_stein_kernel(model: Any, m: Any, kernel: Callable) -> Callable:
    """k⁰ = k bₓ·bᵧ + mᵧ bₓ·∇ᵧk + mₓ bᵧ·∇ₓk + mₓmᵧ ∇ₓ·∇ᵧk with b = m∇log p + ∇m, for scalar k and m."""
    model = ms.params.unwrap(model)
    field = m.at(model)
    b = lambda x: field(x) * jax.grad(model)(x) + jax.grad(field)(x)

    def k0(x: jax.Array, y: jax.Array) -> jax.Array:
        k, (kx, ky) = jax.value_and_grad(kernel, (0, 1))(x, y)
        trace = jnp.trace(jax.jacfwd(jax.grad(kernel), 1)(x, y))
        bx, by, mx, my = b(x), b(y), field(x), field(y)
        return k * bx @ by + my * bx @ ky + mx * by @ kx + mx * my * trace

    return k0


def plain_mean(k0: Callable, x: jax.Array) -> jax.Array:
    """The mean of k⁰ over i ≠ j, from the whole matrix."""
    matrix = jax.vmap(lambda a: jax.vmap(lambda b: k0(a, b))(x))(x)
    return (jnp.sum(matrix) - jnp.trace(matrix)) / (len(x) * (len(x) - 1))


def checkpointed_mean(k0: Callable, x: jax.Array) -> jax.Array:
    """The mean of k⁰ over i ≠ j, a few rows at a time, remembering none of them for the gradient."""

    @jax.checkpoint
    def row(i: jax.Array) -> jax.Array:
        return jnp.vdot(jnp.arange(len(x)) != i, jax.vmap(lambda b: k0(x[i], b))(x))

    return jnp.sum(jax.lax.map(row, jnp.arange(len(x)), batch_size=16)) / (len(x) * (len(x) - 1))


class Opponent(NamedTuple):
    """A way to the same number by autodiff over pairs, and on how many rows to time it."""

    what: str
    stein_kernel: Callable
    mean: Callable
    n: int

    def evaluate(self, x: np.ndarray) -> tuple[Any, Any]:
        """Value and gradient in θ, in 64 bits."""
        with jax.enable_x64(True):
            return jax.block_until_ready(
                _oracle(self.stein_kernel, self.mean, ms.params.theta(student_t(x.shape[1])), x)
            )


@partial(jax.jit, static_argnums=(0, 1))
def _oracle(stein_kernel: Callable, mean: Callable, theta: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    model, dksd = student_t(x.shape[1]), moving_dksd()

    def loss(theta: jax.Array) -> jax.Array:
        return mean(stein_kernel(ms.params.with_theta(model, theta), dksd.diffusion, dksd.kernel), x)

    return jax.value_and_grad(loss)(theta)


OPPONENTS = (
    Opponent("vmap of ms.stein_kernel, checkpointed", ms.stein_kernel, checkpointed_mean, 250),
    Opponent("vmap of ms.stein_kernel", ms.stein_kernel, plain_mean, 250),
    Opponent("vmap of a lean Stein kernel, checkpointed", lean_stein_kernel, checkpointed_mean, N),
    Opponent("vmap of a lean Stein kernel", lean_stein_kernel, plain_mean, N),
)


def rows() -> Iterator[Row]:
    for d in GATES:
        yield from _rows(d)


def _rows(d: int) -> Iterator[Row]:
    x, model, dksd = heavy_tailed(N, d), student_t(d), moving_dksd()
    ours = lambda x: ms.value_and_grad(dksd, model, x)
    before = timing(lambda: ours(x), repeats=10)
    times, errors = {}, []
    for opponent in OPPONENTS:
        few = x[: opponent.n]
        times[opponent] = timing(lambda opponent=opponent, few=few: opponent.evaluate(few), repeats=2)
        errors.append(difference(ours(few), opponent.evaluate(few)))
    best = before.least(timing(lambda: ours(x), repeats=10))
    note = f"memory of the opponents up to d={d}: {max(peaks()):.1f} GB"
    yield Row(f"minstein, n={N}, d={d}", best, error=max(errors), note=note)
    for opponent, time in times.items():
        factor = (N / opponent.n) ** 2
        note = f"{opponent.what} was timed at n={opponent.n} and scaled by {factor:g}" if factor > 1 else ""
        ratio = at_least(GATES[d], factor * time.cpu / best.cpu)
        yield Row(f"{opponent.what}, d={d}", time.scaled(factor), ratio, note=note)
