"""CPU and wall seconds of a call, as the least of several: what is left when other processes disturb least."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: CPU time of the process, wall time, and CPU time of the first call, which compiles."""

    cpu: float
    wall: float
    first: float

    def least(self, other: "Timing") -> "Timing":
        """The lesser times of two measurements of the same call; the first call is this one's."""
        return Timing(min(self.cpu, other.cpu), min(self.wall, other.wall), self.first)

    def scaled(self, factor: float) -> "Timing":
        """The time of a call with `factor` times the work; the first call is left as it was."""
        return replace(self, cpu=factor * self.cpu, wall=factor * self.wall)


def timings(calls: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, Timing]:
    """The least times of each call, taken in turns so that a disturbance falls on all of them alike."""
    first = {name: _seconds(call)[0] for name, call in calls.items()}
    rounds = [{name: _seconds(call) for name, call in calls.items()} for _ in range(repeats)]
    return {
        name: Timing(min(r[name][0] for r in rounds), min(r[name][1] for r in rounds), first[name]) for name in calls
    }


def timing(call: Callable[[], object], *, repeats: int) -> Timing:
    """The least time of one call."""
    return timings({"": call}, repeats=repeats)[""]


def once(call: Callable[[], Any]) -> tuple[Any, Timing]:
    """What a call returns, and its time when made but once."""
    kept: list[Any] = []
    cpu, wall = _seconds(lambda: kept.append(call()))
    return kept[0], Timing(cpu, wall, cpu)


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds of one call, which must return only when it is done."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall
