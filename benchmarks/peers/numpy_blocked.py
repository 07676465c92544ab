"""NumPy by symmetric tiles, at the best of several sizes of a tile."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ..blocked import BLOCKS, fields
from ..closed_form import standard_normal


def calls(x: np.ndarray) -> dict[str, Callable]:
    return {f"tiles of {block}": partial(standard_normal, x, partial(fields, block=block)) for block in BLOCKS}
