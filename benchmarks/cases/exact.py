"""Every pair of a large sample: CPU time of value and gradient, and memory above that of the imported packages."""

from collections.abc import Iterator
from itertools import starmap

import minstein as ms

from ..errors import difference
from ..problems import moving_dksd, student_t, student_t_reference
from ..processes import peaks
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timing

N = 32_000
SECONDS = {1: 8, 5: 12, 50: 40}
"""The gates, by dimension."""


def rows() -> Iterator[Row]:
    before = peaks()
    results = {}
    for d, gate in SECONDS.items():
        x, model, dksd = heavy_tailed(N, d), student_t(d), moving_dksd(backend="tiles")
        time = timing(lambda d=d, args=(dksd, model, x): results.update({d: ms.value_and_grad(*args)}), repeats=2)
        growth = max(starmap(lambda after, start: after - start, zip(peaks(), before, strict=True)))
        yield Row(f"value and gradient, n={N}, d={d}", time, at_most(gate, time.cpu, "CPU s"))
        yield Row(
            f"its memory, d={d}", None, at_most(1.0, growth, "GB"), note=f"above {max(before):.2f} GB after import"
        )
    for d, result in results.items():
        yield Row(f"its number, d={d}", error=difference(result, student_t_reference(heavy_tailed(N, d))))
