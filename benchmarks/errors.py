"""How far a result is from its reference."""

from typing import Any

import numpy as np


def difference(result: tuple[Any, Any], reference: tuple[Any, Any]) -> float:
    """The larger of the relative differences of value and gradient, in the maximum norm; NaN if either is."""
    return float(np.max([_relative(a, b) for a, b in zip(result, reference, strict=True)]))


def _relative(a: Any, b: Any) -> float:
    return float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / np.max(np.abs(np.asarray(b))))
