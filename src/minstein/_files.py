"""Writing a file so that it is either complete or absent."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Yield a binary file beside `path` that replaces it once everything has reached the disk."""
    target = destination(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def destination(path: str | Path) -> Path:
    """Return the file that `path` names, with links resolved, or raise if it is not a regular file.

    A device, a pipe or a socket would be deleted and replaced by a file.
    """
    target = Path(path)
    if target.is_symlink() and not target.exists():
        raise ValueError(
            f"{path} is a link to something that does not exist. Give the path of a file."
        )
    if target.exists() and not target.is_file():
        raise ValueError(
            f"{path} exists and is not a regular file, so it is not replaced by one. Give another path."
        )
    return target.resolve() if target.is_symlink() else target
