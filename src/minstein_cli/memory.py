"""The total memory that this process may use; the library computes what is left, but loads JAX."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
"""Where /proc and /sys are."""


def total() -> float:
    """Return the least of what the machine has and what control groups and `ulimit -v` allow."""
    return min([_physical(), *_groups(), _address_space()])


def _physical() -> float:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _groups() -> Iterator[int]:
    """Yield the limit of each control group of this process, in version 2 or 1."""
    for line in _read("proc/self/cgroup").splitlines():
        number, kinds, group = line.split(":", 2)
        place = "" if number == "0" else "/memory" if "memory" in kinds.split(",") else None
        if place is None:
            continue
        parts = [part for part in group.split("/") if part not in ("", "..")]
        for count in range(len(parts), -1, -1):
            directory = f"sys/fs/cgroup{place}" + "".join(f"/{part}" for part in parts[:count])
            limit = _read(
                f"{directory}/{'memory.limit_in_bytes' if place else 'memory.max'}"
            ).strip()
            if limit.isdigit():
                yield int(limit)


def _address_space() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit


def _read(path: str) -> str:
    try:
        return (_ROOT / path).read_text()
    except OSError:
        return ""
