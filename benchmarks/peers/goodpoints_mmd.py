"""goodpoints' discrepancy of a kernel of mean zero, which for its Stein kernel is the V-statistic of KSD²."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from goodpoints.jax.kernel.precond_stein import PrecondSteinKernel
from goodpoints.jax.kernel.scalar import imq
from goodpoints.jax.mmd import compute_mmd

jax.config.update("jax_enable_x64", True)

BATCHES = (8, 32, 128)


def calls(x: np.ndarray) -> dict[str, Callable]:
    kernel = PrecondSteinKernel(imq, np.eye(x.shape[1]), 1.0)  # (1 + r²)^(−1/2)
    points = kernel.prepare_input(jnp.asarray(x), -jnp.asarray(x))
    one = lambda batch: lambda: (float(compute_mmd(kernel, points, batch_size=batch)), None)
    return {f"batches of {batch}": one(batch) for batch in BATCHES}
