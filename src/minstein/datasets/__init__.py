"""Small sets of real data that ship with the package: `names()` lists them, `load(name)` reads one."""

import csv
from importlib import resources
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

__all__ = ["Dataset", "load", "names"]


class Dataset(NamedTuple):
    """Real data, what they are, and where they are from.

    Attributes:
        x: the observations, a row each.
        columns: what each column of x is called.
        description: what was measured.
        source: where the numbers are from.
        licence: under what terms they may be passed on.

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
    """What `load` knows.

    >>> ms.datasets.names()
    ('bills', 'digits', 'newcomb', 'wine')
    """
    files = (file.name for file in resources.files(__name__).iterdir())
    return tuple(sorted(file.removesuffix(".csv") for file in files if file.endswith(".csv")))


def load(name: str) -> Dataset:
    """Read one of the data sets of the package.

    Args:
        name: one of `names()`.

    >>> data = ms.datasets.load("newcomb")
    >>> data.x.shape, data.columns, float(np.median(data.x))
    ((66, 1), ('nanoseconds',), 27.0)
    """
    if name not in names():
        raise ValueError(f"There is no data set {name!r} in minstein; there are {', '.join(names())}.")
    text = resources.files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    head = [line.removeprefix("# ") for line in lines if line.startswith("#")]
    columns, *rows = csv.reader(lines[len(head) :])
    return Dataset(np.array(rows, float), tuple(columns), *(_said(head, word) for word in _WORDS))


_WORDS = ("description", "source", "licence")
"""What the comments at the head of a file say, in lines 'word: text'."""


def _said(head: list[str], word: str) -> str:
    return " ".join(line.removeprefix(f"{word}: ") for line in head if line.startswith(f"{word}: "))
