"""Linear time against tiles at one size: small enough for the check of every change."""

from collections.abc import Iterator

import minstein as ms

from ..errors import difference
from ..problems import student_t
from ..rows import Row, at_least
from ..samples import heavy_tailed
from ..timing import timings

N = 8000


def rows() -> Iterator[Row]:
    x, model = heavy_tailed(N, 1), student_t(1)
    ksds = {backend: ms.KSD(ms.kernels.Matern(1.0), backend=backend) for backend in ("lines", "tiles")}
    calls = {name: lambda ksd=ksd: ms.value_and_grad(ksd, model, x) for name, ksd in ksds.items()}
    times = timings(calls, repeats=5)
    ratio = times["tiles"].cpu / times["lines"].cpu
    error = difference(calls["lines"](), calls["tiles"]())
    yield Row(f"Matern, lines against tiles, n={N}, d=1", times["lines"], at_least(10, ratio), error)
