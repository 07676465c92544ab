"""JAX's persistent compilation cache, so that the second fit of a shape need not compile."""

import contextlib
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path


def use() -> None:
    """Point JAX to a directory of the user's, before it is loaded. JAX's own variables have the last word."""
    if "jax" in sys.modules:
        return
    with contextlib.suppress(OSError):
        directory = _directory()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(directory, os.W_OK):
            os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(directory))
            os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
            os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def _directory() -> Path:
    """One for each host, because compiled code is for one processor, and for each version."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    host = "".join(c if c.isalnum() or c in "-._" else "_" for c in f"{platform.node()}-{platform.machine()}")
    return Path(home) / "minstein" / f"{host}-minstein{version('minstein')}-jax{version('jax')}"
