"""How much memory a fit takes at its peak, known before it takes it, and what there is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PASS = 22
"""Copies of a batch of features that a pass over the pairs holds at its peak, sources and sums
included; measured.
"""


def available() -> int:
    """Bytes that this process can still have: the least of what the machine, its control groups and
    its limit leave.
    """
    return max(0, min([_free(), *_in_groups(), _in_address_space()]))


_UNKNOWN = 1 << 50
"""Where the system does not tell, nothing is refused."""

_ROOT = Path("/")
"""Where /proc and /sys are."""


def _free() -> int:
    lines = dict(line.split(":", 1) for line in _read("proc/meminfo").splitlines() if ":" in line)
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else _UNKNOWN


def _in_groups() -> Iterator[int]:
    """What each control group above this process leaves, of version 2 and of version 1.

    Files that have been read and can be forgotten count as used, but are given up when memory is
    needed.
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
                yield (
                    int(limit)
                    - int(used)
                    + _forgettable(f"{place}{directory}/memory.stat", names[2])
                )


def _upwards(group: str) -> Iterator[str]:
    """A control group and those around it; in a container only the last may be seen."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        yield "".join(f"/{part}" for part in parts[:count])


def _forgettable(path: str, name: str) -> int:
    return next(
        (int(line.split()[1]) for line in _read(path).splitlines() if line.split()[0] == name), 0
    )


def _in_address_space() -> int:
    """What `ulimit -v` leaves."""
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
    """Return how many of the p derivatives of the features are held at once; each has `width`
    numbers for each observation.

    All of them together with the features in half of the memory there is; else as many as fit, and
    then the pairs are visited once for each group.
    """
    one = PASS * rows * width * np.dtype(dtype).itemsize
    return p if (p + 1) * one <= available() // 2 else min(p, max(1, available() // 2 // one))


def for_pairs(rows: int, width: int, dtype: Any, p: int) -> int:
    """Bytes that a fit by sums over pairs takes at its peak, beside the data."""
    together = tangents_at_once(rows, width, dtype, p)
    held = together + (1 if together == p else 0)
    return PASS * rows * width * np.dtype(dtype).itemsize * held
