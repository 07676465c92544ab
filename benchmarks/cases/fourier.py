"""A million observations of two variables by Fourier series, checked against the tiles.

The V-statistic of rows that are each repeated r times is that of the rows, so that a million can be checked by
8000. The same is done with fewer observations, none repeated.
"""

from collections.abc import Iterator

import numpy as np

import minstein as ms

from ..errors import difference
from ..problems import growing, student_t
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timing

N, FEWER, D = 1_000_000, 8_000, 2


def rows() -> Iterator[Row]:
    x, few, model = heavy_tailed(N, D), heavy_tailed(FEWER, D), student_t(D)
    fourier, tiles = (_dksd(backend) for backend in ("fourier", "tiles"))
    try:
        time = timing(lambda: ms.value_and_grad(fourier, model, x), repeats=3)
    except ImportError as reason:
        yield Row("Gaussian kernel", note=f"cannot be run here: {reason}")
        return
    yield Row(f"Gaussian kernel, value and gradient, n={N}, d={D}", time, at_most(3, time.cpu, "CPU s"))
    right = ms.value_and_grad(tiles, model, few)
    repeated = np.tile(few, (N // FEWER, 1))
    for what, data in ((f"{FEWER} rows repeated, n={N}", repeated), (f"n={FEWER}", few)):
        error = difference(ms.value_and_grad(fourier, model, data), right)
        yield Row(f"its difference from tiles, {what}", None, at_most(1e-8, error), error)


def _dksd(backend: str) -> ms.DKSD:
    """As a V-statistic."""
    diffusion = ms.diffusions.of_model(growing, moving=True)
    return ms.DKSD(ms.kernels.Gaussian(1.0), diffusion, unbiased=False, backend=backend)
