"""Fresh processes, so that neither memory nor caches are shared, and the JSON lines they print."""

import json
import os
import subprocess
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


class ProcessError(Exception):
    """A process that failed, and the last line it wrote about it."""


def json_lines(python: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> list[Any]:
    """What `python -m module arguments` printed, run in the checkout in a fresh process."""
    result = run([python, "-m", module, *arguments], environment=environment)
    return [json.loads(line) for line in result.splitlines() if line.startswith("{")]


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """The standard output of a command; raises ProcessError where it fails."""
    variables = {**os.environ, **_COMMON, **(environment or {})}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ProcessError(lines[-1])
    return done.stdout
