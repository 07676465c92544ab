"""Random keys, as users may write them."""

from typing import Any

import jax
import numpy as np

from .. import errors


def as_key(key: Any) -> Any:
    """Return a key or None unchanged, or the key whose seed is this integer."""
    if key is None or isinstance(key, jax.Array):
        return key
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise ValueError(f"A seed must fit into 64 bits, got {key}.")
        return jax.random.key(int(key))
    # The data of a key, as jax.random.PRNGKey makes them.
    if isinstance(key, np.ndarray) and key.dtype == np.uint32:
        return jax.numpy.asarray(key)
    raise TypeError(f"key must be an integer or a JAX key, such as jax.random.key(0), got {key!r}.")


@errors.explained("fitting.md")
def no_key(solver: str) -> ValueError:
    return ValueError(f"{solver} draws at random here, so it needs a key: key=jax.random.key(0).")
