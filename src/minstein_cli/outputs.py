"""Files that take their places together, once all of them have been written."""

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from .problem import Problem


def check(targets: list[Path], *, data: str) -> None:
    """Refuse, before the work, a file that could not be written after it."""
    for target in targets:
        if target.is_dir():
            raise Problem(f"{target} is a directory, and a file is to be written there.")
        if target.exists() and Path(data).exists() and target.samefile(data):
            raise Problem(f"{target} is the data file. Give another name for the output.")
        parent = next(p for p in target.absolute().parents if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise Problem(f"{target} cannot be written: {parent} is not a directory that you may write to.")


@contextlib.contextmanager
def together() -> Iterator[Callable[[Path], Path]]:
    """Gives for each target a path beside it to write to. If anything fails, all is as it was before."""
    parts: dict[Path, Path] = {}
    made: list[Path] = []

    def beside(target: Path) -> Path:
        for directory in [p for p in reversed(target.absolute().parents) if not p.exists()]:
            directory.mkdir()
            made.append(directory)
        parts[target] = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        return parts[target]

    try:
        yield beside
        for part in parts.values():
            _flush(part)
        with _undisturbed():
            for target, part in parts.items():
                os.replace(part, target)
    except BaseException as reason:
        for part in parts.values():
            part.unlink(missing_ok=True)
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                directory.rmdir()
        if isinstance(reason, OSError):
            raise Problem(
                f"{', '.join(map(str, parts))} could not be written: {reason.strerror or reason}."
            ) from reason
        raise


def _flush(path: Path) -> None:
    """Have the system write a file down to the disk, and hear about it if it cannot."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No Ctrl-C for the moment that renaming takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
