"""The data of the benchmarks, the same in every process and for every opponent."""

import numpy as np


def heavy_tailed(n: int, d: int) -> np.ndarray:
    """n rows of d independent t₅ coordinates."""
    return np.random.default_rng(d).standard_t(5.0, (n, d))


def normal(n: int, d: int) -> np.ndarray:
    """n draws from the standard normal distribution on ℝᵈ."""
    return np.random.default_rng(d).standard_normal((n, d))
