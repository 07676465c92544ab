"""Against compiled loops on one thread: what a native tile would save, value and gradient of KSD with IMQ(1)."""

from collections.abc import Iterator, Sequence

from .. import peers
from ..peers import Measured
from ..processes import ProcessError, progress
from ..rows import Row, amount

SIZES, DIMENSIONS = (2000, 8000), (1, 2, 5, 20)
TILES, LOOPS = "minstein, every pair", ("numba, one thread", "C, one thread")


def rows() -> Iterator[Row]:
    for d in DIMENSIONS:
        progress(f"native: d={d}")
        reference, tiles = (peers.measured(name, d, SIZES) for name in (peers.REFERENCE, TILES))
        for right, ours in zip(reference, tiles, strict=True):
            yield Row(f"{TILES}, n={ours.n}, d={d}", ours.time, error=ours.error(right))
        for name in LOOPS:
            yield from _rows(name, d, reference, tiles)


def _rows(name: str, d: int, reference: Sequence[Measured], tiles: Sequence[Measured]) -> Iterator[Row]:
    try:
        loops = peers.measured(name, d, SIZES)
    except ProcessError as reason:
        yield Row(f"{name}, d={d}", note=f"{name} cannot be run here: {reason}")
        return
    for right, ours, theirs in zip(reference, tiles, loops, strict=True):
        saved = amount(ours.time.cpu / theirs.time.cpu, "x less than tiles")
        yield Row(f"{name}, n={theirs.n}, d={d}", theirs.time, saved, theirs.error(right))
