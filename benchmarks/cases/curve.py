"""CPU time against n, of minstein and of every peer: KSD with IMQ(1), one variable and five."""

from collections.abc import Iterator

from .. import peers
from ..peers import PEERS, REFERENCE, Measured
from ..processes import ProcessError, progress
from ..rows import Point, Row, amount

SMALLEST = 250
LARGEST = {1: 1_024_000, 5: 32_000}
"""By dimension."""

CHOSEN, TILES = "minstein", "minstein, every pair"
"""In five dimensions the two are the same."""


def rows() -> Iterator[Row]:
    for d, largest in LARGEST.items():
        yield from _rows(d, list(doubled(SMALLEST, largest)))


def doubled(smallest: int, largest: int) -> Iterator[int]:
    while smallest <= largest:
        yield smallest
        smallest *= 2


def _rows(d: int, sizes: list[int]) -> Iterator[Row]:
    right = {point.n: point for point in _measured(REFERENCE, d, sizes)}
    ours = {point.n: point for point in _measured(CHOSEN, d, sizes)}
    for name in [name for name in PEERS if name != TILES or d == 1]:
        known = {REFERENCE: right, CHOSEN: ours}.get(name)
        try:
            points = list(known.values()) if known else _measured(name, d, sizes)
        except ProcessError as reason:
            yield Row(f"{name}, d={d}", note=f"{name} cannot be run here: {reason}")
            continue
        for point in points:
            reference = None if name == REFERENCE else right[min(point.n, peers.CHECKED)]
            yield _row(name, point, ours[point.n], reference)


def _measured(name: str, d: int, sizes: list[int]) -> list[Measured]:
    progress(f"curve: {name}, d={d}")
    return peers.measured(name, d, sizes)


def _row(name: str, point: Measured, ours: Measured, reference: Measured | None) -> Row:
    ratio = None if name == CHOSEN else amount(point.time.cpu / ours.time.cpu, "x minstein")
    note = f"{name}, d={point.d}, ends at n={point.n}: {point.stopped}" if point.stopped else ""
    error = None if reference is None else point.error(reference)
    at = Point(name, point.n, point.d)
    return Row(f"{name}, n={point.n}, d={point.d}", point.time, ratio, error, note, at=at)
