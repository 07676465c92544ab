"""One peer in this process, at growing sizes: prints one JSON line for each. Its environment need not hold minstein."""

import argparse
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..processes import peaks
from ..samples import heavy_tailed
from ..timing import Timing, once, timing
from . import CHECKED, Measured

SECONDS, GIGABYTES = 1.0, 4.0
"""After a call that took longer, or where twice the rows would need more, no more rows are tried."""

QUICK = 0.1
"""CPU seconds up to which every variant is tried again."""


def main(module: str, d: int, sizes: list[int], patient: bool) -> None:
    calls, before, last = importlib.import_module(f"{__package__}.{module}").calls, peaks(), None
    for n in sizes:
        x = heavy_tailed(n, d)
        only = None if last is None or last.time.cpu < QUICK else last.variant
        variant, time, result = _best({name: call for name, call in calls(x).items() if only in (None, name)})
        value, gradient = result if n <= CHECKED else calls(_repeated(n, d))[variant]()
        memory = max(after - start for after, start in zip(peaks(), before, strict=True))
        stopped = "" if patient or n == sizes[-1] else _stopped(time.cpu, memory)
        gradient = None if gradient is None else np.asarray(gradient).tolist()
        last = Measured(n, d, variant, time, float(value), gradient, memory, stopped)
        print(json.dumps(asdict(last)), flush=True)
        if stopped:
            return


def _best(calls: Mapping[str, Callable]) -> tuple[str, Timing, tuple[Any, Any]]:
    """The fastest of several calls, its time and what it returned."""
    found = [(name, *_timed(call)) for name, call in calls.items()]
    return min(found, key=lambda one: one[1].cpu)


def _timed(call: Callable) -> tuple[Timing, tuple[Any, Any]]:
    """The first call, another, and as many more as 0.3 CPU s allow."""
    (result, first), (_, again) = once(call), once(call)
    best = Timing(again.cpu, again.wall, first.cpu)
    repeats = min(10, int(0.3 / max(again.cpu, 1e-3)))
    return (best.least(timing(call, repeats=repeats)) if repeats else best), result


def _repeated(n: int, d: int) -> np.ndarray:
    """CHECKED rows, repeated."""
    return np.tile(heavy_tailed(CHECKED, d), (n // CHECKED, 1))


def _stopped(cpu: float, memory: float) -> str:
    if cpu > SECONDS:
        return f"a call took more than {SECONDS:g} CPU s"
    return f"twice the rows would need more than {GIGABYTES:g} GB" if 4 * memory > GIGABYTES else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("d", type=int)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--patient", action="store_true")
    given = parser.parse_args()
    main(given.module, given.d, given.sizes, given.patient)
