"""A designed discrepancy: what design and fit cost together, in plain fits by KSD."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

import minstein as ms
from minstein.discrepancies.default import standardised_ksd

from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timings

N = 1000


def _gumbel(p: dict, x: np.ndarray) -> np.ndarray:
    z = (x[0] - p["loc"]) / p["scale"]
    return -z - jnp.exp(-z)


def rows() -> Iterator[Row]:
    t = ms.models.StudentT(0.0, 1.0, 5.0)
    gumbel = ms.models.from_log_density(_gumbel, {"loc": 0.0, "scale": ms.positive(1.0)})
    samples = {"t": (t, heavy_tailed(N, 1)), "Gumbel": (gumbel, np.random.default_rng(0).gumbel(size=(N, 1)))}
    for name, (model, x) in samples.items():
        calls = {
            "plain": lambda model=model, x=x: ms.fit(model, x, standardised_ksd(x)),
            "designed": lambda model=model, x=x: ms.fit(model, x, ms.design(model, x)),
        }
        times = timings(calls, repeats=7)
        yield Row(f"plain KSD fit, {name}, n={N}", times["plain"])
        ratio = times["designed"].cpu / times["plain"].cpu
        yield Row(f"design and fit, {name}, n={N}", times["designed"], at_most(3.0, ratio, "plain fits"))
