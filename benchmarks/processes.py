"""Fresh processes, so that neither memory nor caches are shared, and the JSON lines they print."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

XLA_ON_ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
"""Variables under which JAX computes with one thread."""

_COMMON = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Compilations are not kept between runs; NumPy has one thread, because threads that wait would count as CPU time."""


RUNNING = "running "
"""How a line about progress begins."""


class ProcessError(Exception):
    """A process that failed, and the last line it wrote about it."""


def json_lines(python: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> list[Any]:
    """What `python -m module arguments` printed, run in the checkout in a fresh process."""
    result = run([python, "-m", module, *arguments], environment=environment)
    return [json.loads(line) for line in result.splitlines() if line.startswith("{")]


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """The standard output of a command; raises ProcessError where it fails. Lines about progress are passed on."""
    variables = {**os.environ, **_COMMON, **(environment or {})}
    with tempfile.TemporaryFile("w+") as out:
        with subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=out, stderr=subprocess.PIPE, text=True
        ) as process:
            lines = [line.rstrip() for line in map(_passed_on, process.stderr or ()) if line.strip()]
        if process.returncode != 0:
            raise ProcessError(lines[-1] if lines else f"exit code {process.returncode}")
        out.seek(0)
        return out.read()


def progress(what: str) -> None:
    """Say on the standard error what is run now."""
    print(f"{RUNNING}{what} ...", file=sys.stderr, flush=True)


def _passed_on(line: str) -> str:
    if line.startswith(RUNNING):
        print(line, end="", file=sys.stderr, flush=True)
    return line


def peaks() -> list[float]:
    """The largest resident size of this process so far, in GB, as each of the system's counters has it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    high_water = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return [kilobytes / 2**20 for kilobytes in (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *high_water)]
