"""stein-thinning's KSD in NumPy, a row of pairs at a time: square roots of the V-statistics of all first rows."""

from collections.abc import Callable

import numpy as np
from stein_thinning.kernel import make_imq
from stein_thinning.stein import ksd


def calls(x: np.ndarray) -> dict[str, Callable]:
    k0, score = make_imq(x), -x  # (1 + r²)^(−1/2), without standardising
    integrand = lambda i, j: k0(x[i], x[j], score[i], score[j])
    return {"": lambda: (ksd(integrand, len(x))[-1] ** 2, None)}
