"""Hostile cases: no raw error, no silent NaN, and a minimum that brute force confirms wherever a fit says converged."""

import numpy as np
import pytest

import minstein as ms

from . import fuzz

COUNT = 240
OURS = ("BoundaryWarning", "MinimumWarning", "StatisticWarning")
KINDS = [*fuzz.LINE, *fuzz.POSITIVE, *fuzz.SPINS]

SAME = 1e-6
"""By how much a loss may be above the lowest, as a share of its rise to the middle of the range: the estimate is then
off by a thousandth of the distance over which the loss rises so much."""


def problem(case: fuzz.Case) -> str | None:
    """What is wrong with the outcome of a case."""
    fit, error, warned = fuzz.outcome(case)
    if any(not text.startswith(OURS) for text in warned):
        return f"warned {warned}"
    if error is not None:
        ours = isinstance(error, ValueError | TypeError | ms.NotConverged) and len(str(error)) > 40
        return None if ours else f"raised {error!r}"
    if not np.isfinite(fit.theta).all() or not np.isfinite(fit.loss):
        return f"converged at {fit.theta}, loss {fit.loss}"
    above = fuzz.excess(case, fit)
    told = any(text.startswith("MinimumWarning") for text in warned)
    return None if above <= SAME or told else f"is {above:.2g} above the minimum at {fit.theta}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_cases(kind):
    chosen = [case for case in fuzz.cases(COUNT) if case.kind == kind]
    assert chosen
    found = {case.name: problem(case) for case in chosen}
    assert not {name: text for name, text in found.items() if text}
