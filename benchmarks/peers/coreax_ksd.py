"""The time and value of coreax's KSD, as one line of JSON; runs in an environment that has coreax, not minstein.

Arguments: n, d.
"""

import json
import sys
from dataclasses import asdict
from functools import partial
from importlib.metadata import version

import equinox as eqx
import jax
import jax.numpy as jnp
from coreax import Data
from coreax.kernels import PCIMQKernel, SteinKernel
from coreax.metrics import KSD

from ..samples import normal
from ..timing import timings

BLOCKS = (8, 16, 32, 64, 256, 1000)
"""Sizes of coreax's blocks; the fastest on few cores is far below the largest that fits in memory."""


def main(n: int, d: int) -> None:
    jax.config.update("jax_enable_x64", True)
    kernel = PCIMQKernel(length_scale=0.5**0.5)  # (1 + r²/2ℓ²)^(−1/2), so that this is (1 + r²)^(−1/2)
    metric = KSD(SteinKernel(kernel, lambda x: -x))
    data = Data(jnp.asarray(normal(n, d)))

    @eqx.filter_jit
    def ksd(data: Data, block: int) -> jax.Array:
        return metric.compute(data, data, block_size=block)

    calls = {str(block): partial(lambda block: float(ksd(data, block)), block) for block in BLOCKS}
    times = timings(calls, repeats=3)
    best = min(times, key=lambda name: times[name].cpu)
    result = {"block": best, "time": asdict(times[best]), "square": calls[best]() ** 2, "version": version("coreax")}
    print(json.dumps(result))


main(*map(int, sys.argv[1:]))
