"""Standard errors: what they cost after a fit, the memory they take, and a thousand fits with them."""

from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np

import minstein as ms

from ..problems import DF
from ..processes import peaks
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timing, timings

LARGE, N, D = 32000, 4000, 5
SAMPLE, REPLICATIONS = 300, 1000


def rows() -> Iterator[Row]:
    yield from _memory()
    yield from _passes()
    yield from _replications()


def _location() -> ms.models.StudentT:
    """Five parameters."""
    return ms.models.StudentT(np.zeros(D), ms.fixed(1.2), DF)


def _memory() -> Iterator[Row]:
    before, x = peaks(), heavy_tailed(LARGE, D)
    time = timing(lambda: ms.sandwich(ms.KSD(ms.kernels.IMQ(1.0)), _location(), x), repeats=1)
    growth = max(after - start for after, start in zip(peaks(), before, strict=True))
    yield Row(f"covariance of {D} parameters, n={LARGE}, d={D}", time, at_most(1.0, growth, "GB"))


def _passes() -> Iterator[Row]:
    x, ksd = heavy_tailed(N, D), ms.KSD(ms.kernels.IMQ(1.0))
    one = ms.models.StudentT(ms.fixed(np.zeros(D)), 1.2, DF)
    for model in (one, _location()):
        q = len(ms.params.names(model))
        calls = {
            "pass": lambda model=model: ms.value_and_grad(ksd, model, x),
            "covariance": lambda model=model: ms.sandwich(ksd, model, x),
        }
        times = timings(calls, repeats=5)
        ratio = times["covariance"].cpu / times["pass"].cpu
        yield Row(f"value and gradient in {q}, n={N}, d={D}", times["pass"])
        yield Row(f"covariance of {q}, n={N}, d={D}", times["covariance"], at_most(4.0, ratio, "passes"))


def _replications() -> Iterator[Row]:
    """Fits with standard errors by the discrepancy of default, to samples drawn anew."""
    truth, start = ms.models.StudentT(25.0, 10.0, DF), ms.models.StudentT(20.0, 5.0, DF)

    @eqx.filter_jit
    def study(keys):
        return jax.lax.map(lambda key: ms.fit(start, truth.sample(key, SAMPLE), "ksd", throw=False), keys)

    def run() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(study(jax.random.split(jax.random.key(0), REPLICATIONS)).cov)

    time = timing(run, repeats=1)
    yield Row(f"{REPLICATIONS} fits with standard errors, t, n={SAMPLE}", time, at_most(60, time.cpu, "CPU s"))
