"""Output files that appear together, once all of them have been written."""

import contextlib
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from .problem import Problem

SUMS = "minstein.sha256"
"""The name of the list of a directory's files, which is replaced last: where it does not agree with
them, the process was killed among the renames. `sha256sum -c` reads it.
"""

_PICTURES = ("trace", "density", "intervals", "influence", "loss")
IN_DIRECTORY = (
    "summary.txt",
    "fit.json",
    "report.html",
    *(f"{name}.png" for name in _PICTURES),
    SUMS,
)
"""The files that --out may write."""


def check(targets: list[Path], *, inputs: Mapping[str, str]) -> None:
    """Refuse, before the work, a file that could not be written after it."""
    seen: dict[Path, Path] = {}
    for target in targets:
        place = destination(target)
        if place in seen:
            raise Problem(
                f"{target} and {seen[place]} are the same file. Give each output a path of its own."
            )
        seen[place] = target
        for kind, path in inputs.items():
            if place.exists() and Path(path).exists() and place.samefile(path):
                raise Problem(f"{target} is the {kind} file. Give another name for the output.")
        parent = next(p for p in place.parents if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise Problem(
                f"{target} cannot be written: {parent} is not a directory that you may write to."
            )


def destination(target: Path) -> Path:
    """Return the file that a path names, links followed, or refuse what is not a regular file."""
    if target.is_dir():
        raise Problem(f"{target} is a directory, and a file is to be written there.")
    if target.is_symlink() and not target.exists():
        raise Problem(
            f"{target} is a link to something that does not exist. Give the path of a file."
        )
    if target.exists() and not target.is_file():
        raise Problem(
            f"{target} exists and is not a regular file, so it is not replaced by one. Give another path."
        )
    return target.resolve()


class Batch:
    """Files that are written to hidden directories beside their places, and then renamed one after
    another.

    Whoever wants to end the process holds `lock`: then no file is being renamed, and `discard`
    removes the rest.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.written: list[Path] = []
        self._parts: dict[Path, Path] = {}
        self._hidden: dict[Path, Path] = {}
        self._made: list[Path] = []

    def beside(self, target: Path) -> Path:
        """Return the path to write to for a target."""
        place = destination(target)
        with self.lock:
            for directory in [p for p in reversed(place.parents) if not p.exists()]:
                directory.mkdir()
                self._made.append(directory)
            if place.parent not in self._hidden:
                self._hidden[place.parent] = place.parent / f".minstein.{secrets.token_hex(4)}.part"
                self._hidden[place.parent].mkdir()
        self._parts[target] = self._hidden[place.parent] / place.name
        return self._parts[target]

    def list_sums(self, directory: Path) -> None:
        """Write the list of the files of a directory; to be called after all others."""
        lines = [
            f"{_sum(part)}  {target.name}\n"
            for target, part in self._parts.items()
            if target.parent == directory
        ]
        self.beside(directory / SUMS).write_text("".join(sorted(lines)), encoding="utf-8")

    def rename(self) -> None:
        """Put every file in its place, the lists last, and remove those of an earlier run that have
        no successor.
        """
        for part in self._parts.values():
            _flush(part)
        with self.lock:
            for target in sorted(self._parts, key=lambda target: target.name == SUMS):
                if target.name == SUMS:
                    self._remove_earlier(target)
                os.replace(self._parts[target], destination(target))
                self.written.append(target)

    def _remove_earlier(self, sums: Path) -> None:
        """Remove the files of ours that an earlier list has and this batch does not, unless they
        have been changed.
        """
        for line in (
            sums.read_text(encoding="utf-8", errors="replace").splitlines()
            if sums.is_file()
            else ()
        ):
            digest, _, name = line.partition("  ")
            file = sums.with_name(name) if name in IN_DIRECTORY else sums
            if (
                file not in self._parts
                and file.is_file()
                and not file.is_symlink()
                and _sum(file) == digest
            ):
                file.unlink()

    def failure(self, reason: str) -> str:
        """Return what could not be written, and what had been."""
        missing = ", ".join(str(target) for target in self._parts if target not in self.written)
        there = (
            f" Written before that: {', '.join(map(str, self.written))}." if self.written else ""
        )
        return f"{missing} could not be written: {reason}.{there}"

    def discard(self) -> None:
        """Remove what has not been put in its place."""
        for directory in self._hidden.values():
            shutil.rmtree(directory, ignore_errors=True)
        for directory in reversed(self._made):
            with contextlib.suppress(OSError):  # it holds what has been written
                directory.rmdir()


current = Batch()
"""The batch that is being written, for whoever ends the process."""


@contextlib.contextmanager
def together() -> Iterator[Batch]:
    """A batch that is renamed once all is written. If anything fails before that, all is as it was."""
    global current
    current = batch = Batch()
    try:
        yield batch
        batch.rename()
    except OSError as reason:
        raise Problem(batch.failure(reason.strerror or str(reason))) from reason
    finally:
        batch.discard()


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Have the system write a file down to the disk, and hear about it if it cannot."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
