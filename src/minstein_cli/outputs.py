"""Output files that appear together, after all of them have been written."""

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
"""The name of the list of a directory's files, which `sha256sum -c` reads. It is replaced last: if it
does not agree with the files, the process was killed between renames.
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
    """Raise before the fit if a file could not be written after it."""
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
    """Return the file that a path names, with links resolved, or raise if it is not a regular file."""
    if target.is_dir():
        raise Problem(f"{target} is a directory, not a file. Give the path of a file.")
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
    """Files that are written to hidden directories beside their destinations, and then renamed.

    To end the process, hold `lock`, so that no file is being renamed, and call `discard`.
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
        """Write the list of the files of a directory. Call this after writing all of them."""
        lines = [
            f"{_sum(part)}  {target.name}\n"
            for target, part in self._parts.items()
            if target.parent == directory
        ]
        self.beside(directory / SUMS).write_text("".join(sorted(lines)), encoding="utf-8")

    def rename(self) -> None:
        """Move every file to its destination, the lists last, and remove outdated files of an earlier
        run.
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
        """Remove the files of an earlier list that this batch lacks, unless they have been changed."""
        text = sums.read_text(encoding="utf-8", errors="replace") if sums.is_file() else ""
        for line in text.splitlines():
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
        """Return a message on what could not be written, and what had been."""
        missing = ", ".join(str(target) for target in self._parts if target not in self.written)
        there = (
            f" Written before that: {', '.join(map(str, self.written))}." if self.written else ""
        )
        return f"{missing} could not be written: {reason}.{there}"

    def discard(self) -> None:
        """Remove everything that has not been moved to its destination."""
        for directory in self._hidden.values():
            shutil.rmtree(directory, ignore_errors=True)
        for directory in reversed(self._made):
            with contextlib.suppress(OSError):  # it holds what has been written
                directory.rmdir()


current = Batch()
"""The batch that is being written, for the code that ends the process."""


@contextlib.contextmanager
def together() -> Iterator[Batch]:
    """Yield a batch that is renamed at the end. If anything fails before, no file is changed."""
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
    """Make the system write a file to the disk, and raise if it cannot."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
