"""Writing a file so that it is complete or not there."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file beside `path` that takes its place once it has been written."""
    target = Path(path)
    part = target.with_name(f"{target.name}.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
