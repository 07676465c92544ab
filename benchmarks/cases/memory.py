"""The memory of value and gradient on a large sample, above what the imported packages take."""

import resource
from collections.abc import Iterator
from pathlib import Path

import minstein as ms

from ..problems import difference, moving_dksd, student_t, student_t_reference
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timing

N, D = 32000, 5


def rows() -> Iterator[Row]:
    before = peaks()
    x, model, dksd = heavy_tailed(N, D), student_t(D), moving_dksd()
    results = []
    time = timing(lambda: results.append(ms.value_and_grad(dksd, model, x)), repeats=2)
    growth = max(after - start for after, start in zip(peaks(), before, strict=True))
    error = difference(results[-1], student_t_reference(x))
    note = f"above {max(before):.2f} GB after import"
    yield Row(f"value and gradient, n={N}, d={D}", time, at_most(1.0, growth, "GB"), error, note)


def peaks() -> list[float]:
    """The largest resident size of this process so far, in GB, as each of the system's counters has it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    high_water = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return [kilobytes / 2**20 for kilobytes in (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *high_water)]
