"""Small real data sets included in the package: `names()` lists them, `load(name)` reads one."""

import csv
from importlib import resources
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["Dataset", "load", "names"]


class Dataset(NamedTuple):
    """A real data set with its description, source and licence.

    Attributes:
        x: the observations, one per row.
        columns: the names of the columns of x.
        description: what was measured.
        source: where the data come from.
        licence: the terms under which they may be redistributed.

    >>> ms.datasets.load("newcomb").columns
    ('nanoseconds',)
    """

    x: Float[np.ndarray, "n d"]
    columns: tuple[str, ...]
    description: str
    source: str
    licence: str

    def __repr__(self) -> str:
        return f"<{len(self.x)} rows of {', '.join(self.columns)}. {self.description}>"


def names() -> tuple[str, ...]:
    """The names of the data sets that `load` can read.

    >>> ms.datasets.names()
    ('bills', 'digits', 'newcomb', 'wine')
    """
    files = (file.name for file in resources.files(__name__).iterdir())
    return tuple(sorted(file.removesuffix(".csv") for file in files if file.endswith(".csv")))


def load(name: str) -> Dataset:
    """Read one of the package's data sets.

    Args:
        name: one of `names()`.

    >>> data = ms.datasets.load("newcomb")
    >>> data.x.shape, data.columns, float(np.median(data.x))
    ((66, 1), ('nanoseconds',), 27.0)
    """
    if name not in names():
        raise ValueError(f"There is no data set {name!r}; choose one of {', '.join(names())}.")
    text = resources.files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    head = [line.removeprefix("# ") for line in lines if line.startswith("#")]
    columns, *rows = csv.reader(lines[len(head) :])
    return Dataset(np.array(rows, float), tuple(columns), *(_entry(head, word) for word in _WORDS))


_WORDS = ("description", "source", "licence")
"""The entries in the comments at the head of a file, which are lines 'word: text'."""


def _entry(head: list[str], word: str) -> str:
    return " ".join(line.removeprefix(f"{word}: ") for line in head if line.startswith(f"{word}: "))
