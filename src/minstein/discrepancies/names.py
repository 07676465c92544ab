"""Discrepancies by name: `ms.fit(model, x, "sm")`."""

from collections.abc import Callable
from typing import Any

from .._text import find_name, wrong_kind
from .._types import LogDensity
from ..data.rows import AbstractRows, Data
from .base import AbstractDiscrepancy
from .contrastive import CD
from .default import (
    Support,
    default_discrepancy,
    efficient,
    score_matching,
    standardised_ksd,
)
from .discrete import DFD, MPF, PseudoLikelihood
from .discrete_ksd import DiscreteKSD
from .markov import Gibbs
from .robust import robust

DISCREPANCIES: dict[str, Callable[[LogDensity, Data, Support | None], AbstractDiscrepancy]] = {
    "ksd": lambda model, x, support: standardised_ksd(x, support),
    "sm": lambda model, x, support: score_matching(x, support),
    "mpf": lambda model, x, support: MPF(),
    "dfd": lambda model, x, support: DFD(),
    "pseudo-likelihood": lambda model, x, support: PseudoLikelihood(),
    "discrete-ksd": lambda model, x, support: DiscreteKSD(),
    "cd": lambda model, x, support: CD(Gibbs()),
    "efficient": lambda model, x, support: efficient(x, support),
    "robust": robust,
}
"""What a name stands for, given the model, the data and the edges of its support."""

GOALS = ("efficient", "robust")
"""What one may want of an estimate."""


def as_goal(discrepancy: Any, goal: str | None) -> Any:
    """Return the discrepancy as given, or the name of what serves a goal."""
    if goal is None:
        return discrepancy
    if discrepancy is not None:
        raise TypeError("Give a discrepancy or a goal, not both: a goal chooses the discrepancy.")
    return find_name("goal", goal, GOALS)


def as_discrepancy(
    given: Any, model: LogDensity, x: AbstractRows, support: Support | None
) -> AbstractDiscrepancy:
    """Return a discrepancy as it is, what its name stands for, or the default for None."""
    if given is None:
        return default_discrepancy(model, x, support)
    if isinstance(given, str):
        return DISCREPANCIES[find_name("discrepancy", given, DISCREPANCIES)](
            model, x.at_hand, support
        )
    if not isinstance(given, AbstractDiscrepancy):
        raise wrong_kind("discrepancy", given, "ms.SM()", DISCREPANCIES)
    return given
