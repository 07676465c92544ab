"""Against coreax: its KSD, the value only, blocked and compiled, at the best of several block sizes.

coreax's PCIMQKernel is ρ(1 + r²/2ℓ²)^(−1/2); with ρ = 1 and ℓ² = 1/2 it is minstein's IMQ(1), constant included. Its
KSD is the square root of the V-statistic.
"""

from collections.abc import Iterator

import numpy as np

import minstein as ms

from .. import blocked
from ..peers import environment
from ..problems import difference
from ..processes import ProcessError, json_lines
from ..rows import Row, at_least
from ..samples import normal
from ..timing import Timing, timing

N, D = 4000, 10
COREAX = "coreax==1.0.0"


def rows() -> Iterator[Row]:
    x, model, ksd = normal(N, D), ms.models.Gaussian(np.zeros(D), 1.0), ms.KSD(ms.kernels.IMQ(1.0), unbiased=False)
    where = f"n={N}, d={D}"
    ours = timing(lambda: ms.value_and_grad(ksd, model, x), repeats=10)
    value, gradient = ms.value_and_grad(ksd, model, x)
    error = difference((value, gradient), blocked.standard_normal(x, block=256))
    try:
        [peer] = json_lines(str(environment(COREAX)), "benchmarks.peers.coreax_ksd", str(N), str(D))
    except ProcessError as reason:
        yield Row(f"minstein, value and gradient, {where}", ours, error=error)
        yield Row(f"{COREAX}, value, {where}", note=f"{COREAX} cannot be run here: {reason}")
        return
    theirs = Timing(**peer["time"])
    yield Row(
        f"{COREAX}, value, {where}",
        theirs,
        error=difference((peer["square"], 1), (value, 1)),
        note=f"the same kernel; its best blocks: {peer['block']}",
    )
    yield Row(f"minstein, value and gradient, {where}", ours, at_least(4, theirs.cpu / ours.cpu), error)
