"""NumPy as one writes it first: all differences as an array of n × n × d, and the formula of the Stein kernel."""

from collections.abc import Callable

import numpy as np


def calls(x: np.ndarray) -> dict[str, Callable]:
    return {"": lambda: (ksd(x, -x), None)}


def ksd(x: np.ndarray, score: np.ndarray) -> float:
    """The mean of k⁰ over all pairs."""
    D = x[:, None, :] - x[None, :, :]
    squares = np.sum(D**2, axis=2)
    v = 1 + squares
    across = np.sum(D * (score[:, None, :] - score[None, :, :]), axis=2)
    k0 = score @ score.T / v**0.5 + (x.shape[1] + across) / v**1.5 - 3 * squares / v**2.5
    return float(k0.mean())
