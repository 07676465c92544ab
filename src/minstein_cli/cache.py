"""JAX's persistent compilation cache, so that a second fit of the same shape need not compile."""

import contextlib
import importlib
import os
import platform
import stat
import sys
import zlib
from importlib.metadata import version
from pathlib import Path


def use() -> str:
    """Point JAX to a directory of the user's, or return why not.

    JAX's own environment variables take precedence. The contents of the cache are executed, so
    nobody else may be able to write there.
    """
    directory = _directory()
    try:
        directory.parent.parent.mkdir(parents=True, exist_ok=True)
        for one in (directory.parent, directory):
            one.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return ""
    doubt = _doubt(directory.parent, stat.S_IWOTH) or _doubt(directory, stat.S_IWGRP | stat.S_IWOTH)
    if doubt:
        return f"Compiled code is not cached: {doubt}. Delete it, or set XDG_CACHE_HOME to a directory of your own."
    if not os.access(directory, os.W_OK):
        return ""
    _drop_damaged(directory)
    settings = {
        "jax_compilation_cache_dir": str(directory),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        if name.upper() not in os.environ:
            _set(name, value)
    return ""


def _doubt(directory: Path, writable: int) -> str:
    """Return why a directory may hold what others have written, or "".

    `writable` holds the permissions that would allow that. The directory above the cache may be
    writable by a group: a directory that another member put there would not belong to the user.
    """
    found = directory.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"{directory} is a symbolic link"
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        return f"{directory} belongs to another user"
    if os.name == "posix" and found.st_mode & writable:
        return f"others can write to {directory}"
    return ""


def _drop_damaged(directory: Path) -> None:
    """Remove entries that are incomplete, which JAX would warn of and never replace.

    Only entries newer than the last check are read; the file `checked` records its time.
    """
    stamp = directory / "checked"
    since = stamp.stat().st_mtime_ns if stamp.exists() else 0
    with contextlib.suppress(OSError):  # another run may be doing the same
        for entry in directory.glob("*-cache"):
            if entry.stat().st_mtime_ns >= since and not _is_whole(entry.read_bytes()):
                entry.unlink()
        stamp.touch()


def _is_whole(content: bytes) -> bool:
    """Whether an entry can be unpacked; JAX packs it with zstandard if that is installed."""
    try:
        if content.startswith(b"\x28\xb5\x2f\xfd"):
            importlib.import_module("zstandard").ZstdDecompressor().decompress(content)
        else:
            zlib.decompress(content)
    except Exception:  # each library has errors of its own
        return False
    return True


def _set(name: str, value: str | int) -> None:
    """Set an option of JAX: in its configuration if JAX is loaded, else in the environment."""
    if "jax" in sys.modules:
        sys.modules["jax"].config.update(name, value)
    else:
        os.environ[name.upper()] = str(value)


def _directory() -> Path:
    """Return the directory: one for each version and for each host, as compiled code suits one CPU."""
    home = (
        os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    )
    host = "".join(
        c if c.isalnum() or c in "-._" else "_" for c in f"{platform.node()}-{platform.machine()}"
    )
    return Path(home) / "minstein" / f"{host}-minstein{version('minstein')}-jax{version('jax')}"
