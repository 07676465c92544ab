"""How much memory a fit takes at its peak, known before it takes it, and what there is."""

from pathlib import Path
from typing import Any

import numpy as np

PASS = 22
"""Copies of a batch of features that a pass over the pairs holds at its peak, sources and sums included; measured."""


def available() -> int:
    """Bytes that this process can still have: the least of what the machine and its control group have left."""
    lines = dict(line.split(":") for line in _read("/proc/meminfo").splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else _UNKNOWN
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    return min(free, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else free


_UNKNOWN = 1 << 50
"""Where the system does not tell, nothing is refused."""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def tangents_at_once(rows: int, width: int, dtype: Any, p: int) -> int:
    """How many of p derivatives of features, each a row of so many numbers for each observation, are held at once.

    All of them together with the features in half of the memory there is; else as many as fit, and then the pairs are
    visited once for each group.
    """
    one = PASS * rows * width * np.dtype(dtype).itemsize
    return p if (p + 1) * one <= available() // 2 else min(p, max(1, available() // 2 // one))


def for_pairs(rows: int, width: int, dtype: Any, p: int) -> int:
    """Bytes that a fit by sums over pairs takes at its peak, beside the data."""
    together = tangents_at_once(rows, width, dtype, p)
    held = together + (1 if together == p else 0)
    return PASS * rows * width * np.dtype(dtype).itemsize * held
