"""Checking that all processes of a fit have the same data and options: each host has its own copy of
the file, and copies may differ.
"""

import hashlib
import os
import platform
from importlib.metadata import version
from typing import Any

from .data import dataset_name
from .problem import Problem
from .request import Request
from .spec import Own

_WHOLE, _PIECE, _PIECES = 1 << 26, 1 << 16, 256
"""The largest file, in bytes, that is read as a whole, and the length and the number of the evenly
spaced pieces that are read of a larger one, so that a process need not read the rows of others.
"""

_WORDS = 4
"""The number of 32-bit words in a digest: 128 bits, so that two digests do not agree by chance."""


def check(request: Request) -> None:
    """Raise if a process has read another file, or has other options or versions.

    Every process must call this.
    """
    import numpy as np

    import minstein as ms

    facts = {
        "read other data": _data(request.source),
        "been given other options": _options(request),
        "read another file of the model": _code(request.model),
        "other versions of Python, minstein, JAX or NumPy": _versions(),
    }
    row = np.concatenate([_numbers(text) for text in facts.values()])
    told = ms.shard(row[None]).on_host().reshape(-1, len(facts), _WORDS)
    found = differences(told)
    if found:
        process, which = found[0]
        raise Problem(
            f"Process {process} has {list(facts)[which]} than process 0, so they cannot fit one model together. Give "
            "every process the same file and the same command, except for --process-id."
        )


def differences(told: Any) -> list[tuple[int, int]]:
    """Return each process that differs from the first, and the fact in which it differs.

    `told` has a row of facts for each process.
    """
    import numpy as np

    return [
        (int(process), int(which)) for process, which in np.argwhere((told != told[0]).any(axis=2))
    ]


def _numbers(text: str) -> Any:
    """Return a digest of the text as whole numbers that float64 represents exactly."""
    import numpy as np

    return np.frombuffer(hashlib.sha256(text.encode()).digest()[: 4 * _WORDS], "<u4").astype(
        np.float64
    )


def _data(source: str) -> str:
    return file_digest(source) if dataset_name(source) is None else source


def file_digest(path: str) -> str:
    """Return the size and a digest of a file, or of pieces of a large one."""
    size, found = os.path.getsize(path), hashlib.sha256()
    with open(path, "rb") as file:
        if size <= _WHOLE:
            found.update(file.read())
        else:
            for piece in range(_PIECES):
                file.seek(piece * (size - _PIECE) // (_PIECES - 1))
                found.update(file.read(_PIECE))
    return f"{size} {found.hexdigest()}"


def _options(request: Request) -> str:
    """Return the options that all processes must share; those for the output may differ."""
    own = ("source", "wanted", "quiet", "as_json", "out", "report", "save")
    shared = {name: value for name, value in request._asdict().items() if name not in own}
    asked = [path is not None for path in (request.out, request.report, request.save)]
    return repr((shared, request.wanted.processes, asked))


def _code(model: Any) -> str:
    return file_digest(model.place) if isinstance(model, Own) and model.is_file else ""


def _versions() -> str:
    return f"{platform.python_version()} {[version(name) for name in ('minstein', 'jax', 'jaxlib', 'numpy')]}"
