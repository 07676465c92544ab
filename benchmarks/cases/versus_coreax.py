"""Against coreax: its KSD, the value only, blocked and compiled, at the best of several block sizes.

coreax's PCIMQKernel is ρ(1 + r²/2ℓ²)^(−1/2); with ρ = 1 and ℓ² = 1/2 it is minstein's IMQ(1), constant included. Its
KSD is the square root of the V-statistic.
"""

from collections.abc import Iterator

from .. import peers
from ..processes import ProcessError
from ..rows import Row, at_least

SIZES = ((4000, 10), (2000, 50))


def rows() -> Iterator[Row]:
    for n, d in SIZES:
        where = f"n={n}, d={d}"
        [reference] = peers.measured(peers.REFERENCE, d, [n])
        [ours] = peers.measured("minstein", d, [n])
        try:
            [theirs] = peers.measured("coreax", d, [n])
        except ProcessError as reason:
            yield Row(f"coreax, value, {where}", note=f"coreax cannot be run here: {reason}")
            continue
        note = f"the same kernel; its best at {where}: {theirs.variant}"
        yield Row(f"coreax, value, {where}", theirs.time, error=theirs.error(reference), note=note)
        ratio = theirs.time.cpu / ours.time.cpu
        yield Row(f"minstein, value and gradient, {where}", ours.time, at_least(4, ratio), ours.error(reference))
