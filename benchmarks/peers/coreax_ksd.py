"""coreax's KSD, compiled, with the score in closed form: the square root of the V-statistic."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from coreax import Data
from coreax.kernels import PCIMQKernel, SteinKernel
from coreax.metrics import KSD

jax.config.update("jax_enable_x64", True)

BLOCKS = (8, 16, 64, 256)
"""Sizes of coreax's blocks; the fastest on few cores is far below the largest that fits in memory."""


@eqx.filter_jit
def ksd(data: Data, block: int) -> jax.Array:
    kernel = PCIMQKernel(length_scale=0.5**0.5)  # (1 + r²/2ℓ²)^(−1/2), so that this is (1 + r²)^(−1/2)
    return KSD(SteinKernel(kernel, lambda x: -x)).compute(data, data, block_size=block)


def calls(x: np.ndarray) -> dict[str, Callable]:
    data = Data(jnp.asarray(x))
    one = lambda block: lambda: (float(ksd(data, block)) ** 2, None)
    return {f"blocks of {block}": one(block) for block in BLOCKS if block <= len(x)}
