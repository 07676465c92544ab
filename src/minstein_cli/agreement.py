"""Whether all processes of a fit have read the same data with the same options: each host has its
own copy of the file, and copies may differ.
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
"""A file of at most the first number of bytes is read as a whole. Of a larger one, pieces are read:
their length and their number, evenly spaced, so that a process need not read the rows of others.
"""

_WORDS = 4
"""Numbers of 32 bits in a digest: 128 bits, so that two digests do not agree by accident."""


def check(request: Request) -> None:
    """Refuse to go on if a process has read another file, has other options or other versions; all
    must call this.
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
            f"Process {process} has {list(facts)[which]} than process 0, so there is nothing to fit together. Give "
            "every process the same file and the same command, except for --process-id."
        )


def differences(told: Any) -> list[tuple[int, int]]:
    """Return which process differs from the first, and in which fact, from a row of facts for each
    process.
    """
    import numpy as np

    return [
        (int(process), int(which)) for process, which in np.argwhere((told != told[0]).any(axis=2))
    ]


def _numbers(text: str) -> Any:
    """A digest as whole numbers that float64 holds exactly."""
    import numpy as np

    return np.frombuffer(hashlib.sha256(text.encode()).digest()[: 4 * _WORDS], "<u4").astype(
        np.float64
    )


def _data(source: str) -> str:
    return file_digest(source) if dataset_name(source) is None else source


def file_digest(path: str) -> str:
    """A digest of the size and the bytes of a file, or of pieces of a large one."""
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
    """The options that all processes must share; where process 0 writes, and in which form, may
    differ.
    """
    own = ("source", "wanted", "quiet", "as_json", "out", "report", "save")
    shared = {name: value for name, value in request._asdict().items() if name not in own}
    asked = [path is not None for path in (request.out, request.report, request.save)]
    return repr((shared, request.wanted.processes, asked))


def _code(model: Any) -> str:
    return file_digest(model.place) if isinstance(model, Own) and model.is_file else ""


def _versions() -> str:
    return f"{platform.python_version()} {[version(name) for name in ('minstein', 'jax', 'jaxlib', 'numpy')]}"
