"""How much memory is available, and how much a fit will take at its peak."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PASS = 22
"""The number of copies of a batch of features that a pass over the pairs holds at its peak, sources
and sums included, as measured.
"""


def available() -> int:
    """Return the number of bytes that this process can still allocate.

    It is the least of what the machine, the control groups and `ulimit -v` leave.
    """
    return max(0, min([_free(), *_in_groups(), _in_address_space()]))


_UNKNOWN = 1 << 50
"""Taken as available if the system does not tell, so that nothing is refused."""

_ROOT = Path("/")
"""Where /proc and /sys are."""


def _free() -> int:
    lines = dict(line.split(":", 1) for line in _read("proc/meminfo").splitlines() if ":" in line)
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else _UNKNOWN


def _in_groups() -> Iterator[int]:
    """Yield what each control group of this process leaves, in version 2 or 1.

    The system counts cached files as used, but drops them when memory is needed, so they are
    counted as free here.
    """
    for line in _read("proc/self/cgroup").splitlines():
        number, kinds, group = line.split(":", 2)
        if number == "0":
            place, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            place, names = (
                "sys/fs/cgroup/memory",
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            )
        else:
            continue
        for directory in _upwards(group):
            limit, used = (_read(f"{place}{directory}/{name}").strip() for name in names[:2])
            if limit.isdigit() and used.isdigit():
                cached = _cached(f"{place}{directory}/memory.stat", names[2])
                yield int(limit) - int(used) + cached


def _upwards(group: str) -> Iterator[str]:
    """Yield a control group and those around it; in a container only the last may be visible."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield "".join(f"/{part}" for part in parts[:count])


def _cached(path: str, name: str) -> int:
    facts = dict(line.split()[:2] for line in _read(path).splitlines())
    return int(facts.get(name, 0))


def _in_address_space() -> int:
    """Return what `ulimit -v` leaves."""
    try:
        import resource
    except ImportError:  # not on Windows
        return _UNKNOWN
    limit, used = resource.getrlimit(resource.RLIMIT_AS)[0], _read("proc/self/statm").split()
    if limit == resource.RLIM_INFINITY or not used:
        return _UNKNOWN
    return limit - int(used[0]) * resource.getpagesize()


def _read(path: str) -> str:
    try:
        return (_ROOT / path).read_text()
    except OSError:
        return ""


def tangents_at_once(rows: int, width: int, dtype: Any, p: int) -> int:
    """Return how many of the p derivatives of the features are held in memory at once.

    Each has `width` numbers for each observation. All p are held if, together with the features,
    they fit into half of the available memory. Otherwise as many as fit are held, and the pairs are
    visited once for each group of derivatives.
    """
    one = _bytes_of_pass(rows, width, dtype)
    return p if (p + 1) * one <= available() // 2 else min(p, max(1, available() // 2 // one))


def for_pairs(rows: int, width: int, dtype: Any, p: int) -> int:
    """Return the number of bytes that a fit by pair sums takes at its peak, in addition to the data."""
    together = tangents_at_once(rows, width, dtype, p)
    held = together + (1 if together == p else 0)
    return _bytes_of_pass(rows, width, dtype) * held


def _bytes_of_pass(rows: int, width: int, dtype: Any) -> int:
    return PASS * rows * width * np.dtype(dtype).itemsize
