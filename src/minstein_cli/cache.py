"""JAX's persistent compilation cache, so that the second fit of a shape need not compile."""

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path


def use() -> None:
    """Point JAX to a directory of the user's. JAX's own environment variables have the last word."""
    directory = _directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(directory, os.W_OK):
        return
    settings = {
        "jax_compilation_cache_dir": str(directory),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        if name.upper() not in os.environ:
            _set(name, value)


def _set(name: str, value: str | int) -> None:
    """By the environment while JAX has not been loaded, which would take a second, and by its configuration after."""
    if "jax" in sys.modules:
        sys.modules["jax"].config.update(name, value)
    else:
        os.environ[name.upper()] = str(value)


def _directory() -> Path:
    """One for each host, because compiled code is for one processor, and for each version."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    host = "".join(c if c.isalnum() or c in "-._" else "_" for c in f"{platform.node()}-{platform.machine()}")
    return Path(home) / "minstein" / f"{host}-minstein{version('minstein')}-jax{version('jax')}"
