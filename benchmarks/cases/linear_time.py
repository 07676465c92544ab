"""A million observations of one variable: linear-time pair sums, checked against the sum over every pair of fewer.

Where every pair of a million cannot be summed, the error is that of a hundredth of the data against NumPy's, or where
there is no such opponent, the tiles'.
"""

from collections.abc import Iterator

import numpy as np

import minstein as ms

from ..errors import difference
from ..problems import DF, growing, student_t, student_t_reference
from ..rows import Row, amount, at_most
from ..samples import heavy_tailed
from ..timing import timing, timings

N, FEWER = 1_000_000, 10_000
CROSSOVER = (4_000, 16_000)


def rows() -> Iterator[Row]:
    yield from _passes()
    yield from _crossover()
    yield from _fit()


def _moving(kernel: ms.kernels.AbstractKernel, backend: str | None = None) -> ms.DKSD:
    return ms.DKSD(kernel, ms.diffusions.of_model(growing, moving=True), backend=backend)


def _passes() -> Iterator[Row]:
    cauchy = np.random.default_rng(1).standard_cauchy((N, 1))
    cases = (
        ("Matern 5/2", ms.kernels.Matern(1.0), heavy_tailed(N, 1), 0.5),
        ("Gaussian", ms.kernels.Gaussian(1.0), heavy_tailed(N, 1), 1.0),
        ("IMQ, Cauchy data", ms.kernels.IMQ(1.0), cauchy, 2.5),
    )
    model = student_t(1)
    for name, kernel, x, gate in cases:
        dksd = _moving(kernel)
        calls = {
            "both": lambda dksd=dksd, x=x: ms.value_and_grad(dksd, model, x),
            "value": lambda dksd=dksd, x=x: dksd(model, x),
            "fewer": lambda dksd=dksd, x=x: ms.value_and_grad(dksd, model, x[: N // 10]),
        }
        times = timings(calls, repeats=5)
        extent = f"range {np.ptp(x):.1e}"
        yield Row(
            f"{name}, value and gradient, n={N}",
            times["both"],
            at_most(gate, times["both"].cpu, "CPU s"),
            _error(kernel, x),
            extent,
        )
        yield Row(f"{name}, over the value alone", None, at_most(1.25, times["both"].cpu / times["value"].cpu))
        yield Row(f"{name}, over n={N // 10}", None, at_most(14, times["both"].cpu / times["fewer"].cpu))


def _error(kernel: ms.kernels.AbstractKernel, x: np.ndarray) -> float:
    """Of value and gradient on part of the data."""
    part = x[:: N // FEWER]
    ours = ms.value_and_grad(_moving(kernel, "lines"), student_t(1), part)
    if isinstance(kernel, ms.kernels.IMQ):
        return difference(ours, student_t_reference(part))
    return difference(ours, ms.value_and_grad(_moving(kernel, "tiles"), student_t(1), part))


def _crossover() -> Iterator[Row]:
    """How much faster than the tiles, where both can be run."""
    for n in CROSSOVER:
        for kernel in (ms.kernels.Matern(1.0), ms.kernels.IMQ(1.0)):
            calls = {
                backend: lambda backend=backend, kernel=kernel, n=n: ms.value_and_grad(
                    _moving(kernel, backend), student_t(1), heavy_tailed(n, 1)
                )
                for backend in ("lines", "tiles")
            }
            times = timings(calls, repeats=3)
            ratio = times["tiles"].cpu / times["lines"].cpu
            yield Row(f"{type(kernel).__name__}, lines, n={n}", times["lines"], amount(ratio, "x less than tiles"))


def _fit() -> Iterator[Row]:
    x = 25 + 10 * heavy_tailed(N, 1)
    fits: list[ms.Fit] = []
    time = timing(lambda: fits.append(ms.fit(ms.models.StudentT(20.0, 5.0, DF), x, "ksd")), repeats=1)
    away = np.max(np.abs(fits[0].theta - [25, 10]) / np.sqrt(np.diagonal(fits[0].cov)))
    note = f"{int(fits[0].steps)} steps, two starts; {away:.1f} standard errors from the truth"
    yield Row(f"ms.fit, t, n={N}, with standard errors", time, at_most(30, time.cpu, "CPU s"), note=note)
