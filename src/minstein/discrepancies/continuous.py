"""Checks of discrepancies for continuous models: the space of the model, and the edges of a
diffusion.
"""

import numpy as np

from .._types import Array, LogDensity, is_traced
from ..data.rows import Data
from ..data.spaces import Box, needs_continuous, space_of
from ..stein.diffusions import AbstractDiffusion
from .base import AbstractDiscrepancy


def check_continuous(discrepancy: AbstractDiscrepancy, model: LogDensity) -> None:
    if space_of(model).discrete:
        raise needs_continuous(type(discrepancy).__name__, space_of(model))


def check_inside(diffusion: AbstractDiffusion, x: Data) -> None:
    """Raise if observations lie beyond an edge at which the diffusion vanishes, where its sign is
    wrong.
    """
    if diffusion.box is None or is_traced(x):
        return
    low, high = np.asarray(x.min(axis=0)), np.asarray(x.max(axis=0))
    if diffusion.box.outside(np.stack([low, high])).any():
        edges = ", ".join(f"{name}={value:g}" for name, value in _beyond(diffusion.box, low, high))
        raise ValueError(
            f"The diffusion vanishes at the edges of a box, but observations lie beyond them: x runs from "
            f"{low.min():.6g} to {high.max():.6g}, and the box has {edges}. Give the edges of the support, or drop "
            "these observations."
        )


def _beyond(box: Box, low: Array, high: Array) -> list[tuple[str, float]]:
    """The edges of a box that values from low to high cross, by name."""
    crossed = [("low", box.box[0], low < box.box[0]), ("high", box.box[1], high > box.box[1])]
    return [
        (name, float(np.broadcast_to(edge, bad.shape)[bad][0]))
        for name, edge, bad in crossed
        if bad.any()
    ]
