"""A check, on draws from the model, that a Markov kernel leaves the model invariant."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ... import errors
from ..._types import Array, LogDensity
from ...data.reading import read
from ...data.spaces import Finite, space_of
from ...models.enumeration import exact_draws
from ...params import unwrap
from ._transition import as_transition, run

_LEVEL = 5.0
"""A change of a mean by more standard errors than this counts as real: a correct kernel exceeds it
with probability 6e-7 for each mean.
"""

_ENUMERATED = 4096
"""The most states for which exact draws are made by enumeration, as in `models.Ising`."""


def check(
    kernel: Any,
    model: LogDensity,
    key: PRNGKeyArray,
    *,
    x: Any = None,
    d: int | None = None,
    n: int = 20_000,
):
    """Raise a ValueError if a kernel visibly does not leave the model invariant, or never moves.

    Draws from the model take one step. If this changes the mean of log p, of a coordinate or of a
    squared coordinate by more than chance allows, the kernel does not leave the model invariant.

    Args:
        kernel: a kernel of `ms.markov`, or any function `kernel(model, x, key)`.
        model: log p up to a constant.
        key: the source of randomness.
        x: independent draws from the model, of shape (n, d). If None, they are made by enumeration
            (if d is given and the space is finite and small) or by `model.sample`.
        d: the number of coordinates.
        n: the number of draws, if x is None.

    >>> normal = ms.models.Gaussian(0.0, 1.0)
    >>> ms.markov.check(ms.markov.RandomWalk(1.0), normal, jax.random.key(0))
    >>> ms.markov.check(lambda model, x, key: 0.9 * x, normal, jax.random.key(0))
    Traceback (most recent call last):
    ValueError: The kernel does not leave the model invariant: one step from draws of the model ...
    """
    draw, step = jax.random.split(key)
    kernel = as_transition(kernel)
    kernel.check(unwrap(model), space_of(model))
    with jax.enable_x64(True):
        rows = jnp.asarray(
            _draws(model, draw, d, n) if x is None else read(x, space_of(model)), float
        )
        after, moved = jax.jit(lambda rows: run(kernel, unwrap(model), rows, step, 1))(rows)
        before, after = _functions(unwrap(model), rows), _functions(unwrap(model), after)
    if not np.asarray(moved).any():
        raise _never_moves(
            f"The chain rejected everything: none of {len(rows)} steps moved (acceptance rate 0)."
        )
    names = [
        "log p",
        *(f"x[{i}]" for i in range(rows.shape[1])),
        *(f"x[{i}]²" for i in range(rows.shape[1])),
    ]
    for name, change in zip(names, (after - before).T, strict=True):
        error = max(change.std() / np.sqrt(len(change)), 1e-300)  # not zero, if all change alike
        z = abs(change.mean()) / error if change.any() else 0.0
        if not np.isfinite(change).all() or z > _LEVEL:
            raise _not_invariant(f"the mean of {name}", z)


def _draws(model: Any, key: Any, d: int | None, n: int) -> Array:
    space = space_of(model)
    if d is not None and isinstance(space, Finite) and len(space.values) ** d <= _ENUMERATED:
        return exact_draws(unwrap(model), d, key, n)
    if not hasattr(model, "sample"):
        raise TypeError(
            "The check needs draws from the model: pass x=..., or d=... if the space is finite and small."
        )
    return model.sample(key, n)


def _functions(model: LogDensity, x: Float[Array, "n d"]) -> Float[np.ndarray, "n q"]:
    """log p, the coordinates and their squares at each row."""
    return np.asarray(jnp.concatenate([jax.vmap(model)(x)[:, None], x, x**2], axis=1))


@errors.explained("discrete.md")
def _not_invariant(what: str, z: float) -> ValueError:
    return ValueError(
        f"The kernel does not leave the model invariant: one step from draws of the model changes {what} by "
        f"{z:.1f} standard errors. The acceptance ratio of a Metropolis kernel must contain the model at both "
        "points and the proposal in both directions. Contrastive divergence with this kernel would not estimate the "
        "model's parameters."
    )


@errors.explained("discrete.md")
def _never_moves(text: str) -> ValueError:
    return ValueError(
        f"{text} Use a smaller step, start the model nearer to the data, or use another kernel: a chain that never "
        "moves carries no information about the model."
    )
