"""Whether the package became slower or wrong: the ratios of a small run against those that were committed.

Ratios of CPU times taken in turns in one process hardly depend on the machine. What is looked for is a change of
the order of the work, so a ratio may be 2.5 times as bad before it counts.
"""

from collections.abc import Iterable, Iterator

from .rows import Amount, Row

CASES = ("value-and-gradient", "numpy", "recompile", "quick")
FACTOR = 2.5

Results = Iterable[tuple[str, Row]]


def complaints(results: Results, committed: Results) -> Iterator[str]:
    """What is wrong with a run, one line each; none if nothing is."""
    results = list(results)
    ran, seen = {case for case, _ in results}, {(case, row.what) for case, row in results}
    before = {(case, row.what): row.ratio for case, row in committed if case in ran and row.ratio is not None}
    yield from (f"{case}: {what}: not measured" for case, what in before if (case, what) not in seen)
    for case, row in results:
        what = f"{case}: {row.what}"
        if not row.right:
            yield f"{what}: " + (row.note if row.failed else f"the number is wrong, by {row.error:.0e}")
        elif row.ratio is not None and (case, row.what) not in before:
            yield f"{what}: no ratio is committed; commit one: python -m benchmarks --publish {case}"
        elif row.ratio is not None and worse(row.ratio, before[case, row.what]):
            yield f"{what}: {row.ratio.measured:.3g} {row.ratio.unit}, was {before[case, row.what].measured:.3g}"


def worse(now: Amount, before: Amount) -> bool:
    """Whether an amount is worse than before by more than FACTOR; a NaN is."""
    if before.at_most:
        return not now.measured <= FACTOR * before.measured
    return not now.measured >= before.measured / FACTOR
