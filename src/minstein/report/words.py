"""What a report says in sentences."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..discrepancies.contrastive import CD
from ..discrepancies.discrete import DFD, MPF, PseudoLikelihood
from ..discrepancies.discrete_ksd import DiscreteKSD
from ..discrepancies.efficient import Efficient
from ..discrepancies.ksd import DKSD
from ..discrepancies.score_matching import DSM
from ..solvers import status
from .evidence import Evidence

_PROBLEM = (
    "Many models give the shape of a density but not its height: the constant that makes it integrate to one cannot be "
    "computed, and likelihood methods cannot do without it. "
)
_BY_SLOPES = _PROBLEM + (
    "A Stein discrepancy does not need it. It uses only the slope of the log-density, in which the constant does not "
    "appear, and a fact that Charles Stein found: if the model is right, certain averages that are built from "
    "this slope are exactly zero. "
)
_BY_RATIOS = _PROBLEM + (
    "For discrete data, the ratio of the probabilities of two neighbouring states does not need it, because the "
    "constant cancels. "
)
_BY_CHAINS = _PROBLEM + ("A Markov chain that leaves the model invariant does not need it. ")
_MINIMUM = "The estimates are the parameters at which the discrepancy is smallest."
_ERRORS = (
    " Their standard errors follow from how sharply it rises around them and from how strongly each observation pulls; "
    "they do not assume that the model is true."
)


class _Method(NamedTuple):
    """How an introduction names a method, and a sentence that explains it."""

    name: str
    explanation: str


_METHODS = {
    Efficient: _Method(
        "by the likelihood equations, without the normaliser",
        "The averages used here are learned from the data: those that, together, come as close as possible to the "
        "equations of maximum likelihood, whose normaliser is not needed. ",
    ),
    DKSD: _Method(
        "by minimising a kernel Stein discrepancy",
        "The kernel Stein discrepancy takes a whole space of such averages at once and measures how far those of the "
        "data are from zero; the kernel decides how local they are, and a diffusion, if there is one, how much each "
        "region counts. ",
    ),
    DSM: _Method(
        "by score matching",
        "Score matching, the variant used here, compares the slopes of model and data on average over the sample; a "
        "diffusion, if there is one, decides how much each region counts. ",
    ),
    MPF: _Method(
        "by minimum probability flow",
        "Minimum probability flow sets the data in motion towards the model, at rates that are made from these "
        "ratios, and measures how fast probability leaves the observed states: the slower, the better. ",
    ),
    PseudoLikelihood: _Method(
        "by maximising the pseudo-likelihood",
        "The pseudo-likelihood multiplies the probabilities of each variable given all others, which are "
        "made from these ratios; its negative logarithm takes the place of a discrepancy. ",
    ),
    DFD: _Method(
        "by minimising a discrete Fisher divergence",
        "The discrete Fisher divergence compares these ratios with those of the data on average over the sample. ",
    ),
    DiscreteKSD: _Method(
        "by minimising a discrete kernel Stein discrepancy",
        "If the model is right, certain averages that are built from these ratios are exactly zero; the discrete "
        "kernel Stein discrepancy takes a whole space of them at once and measures how far those of the data are from "
        "zero. ",
    ),
    CD: _Method(
        "by contrastive divergence",
        "Contrastive divergence runs such chains from the observations for a few steps: if the model is right, their "
        "ends look like their beginnings. The estimates are the parameters at which ends and beginnings agree on "
        "average; they carry the noise of the chains.",
    ),
}


def _method_of(evidence: Evidence) -> _Method:
    kind = type(evidence.fit.discrepancy)
    return _METHODS.get(kind, _Method(f"by minimising {kind.__name__}", ""))


def method(evidence: Evidence) -> str:
    """The method for a reader who has never heard of Stein."""
    explanation = _method_of(evidence).explanation
    if type(evidence.fit.discrepancy) is CD:
        return _BY_CHAINS + explanation
    idea = _BY_RATIOS if evidence.discrete else _BY_SLOPES
    return idea + explanation + _MINIMUM + (_ERRORS if evidence.has_errors else "")


def outcome(evidence: Evidence) -> str:
    """Whether the fit converged, in one to three words."""
    if evidence.fit.converged:
        return "Converged"
    finished = int(evidence.fit.status) == status.FINISHED
    return "Convergence not shown" if finished else "Not converged"


def introduction(evidence: Evidence) -> str:
    """What was fitted, to what and how, in one sentence."""
    fit, p = evidence.fit, len(evidence.fit.names)
    variables = "" if fit.d == 1 else f" of {fit.d} variables"
    free = "one free parameter" if p == 1 else f"{p} free parameters"
    way = _method_of(evidence).name
    return f"{fit.model_name} with {free}, fitted to {fit.n} observations{variables} {way}."


def advice(evidence: Evidence) -> str:
    """The usual causes of such a failure and what to do about them."""
    said = status.ADVICE.get(int(evidence.fit.status), "")
    return f"Usual causes and what to do: {said}." if said else ""


def cautions(evidence: Evidence) -> Iterator[str]:
    """What one should know before trusting the numbers."""
    if int(evidence.fit.status) == status.FINISHED:
        yield "The numbers below are where the steps ended. How far the minimum is from there is not known."
    elif not evidence.fit.converged:
        yield "The numbers below are where the search stopped. They are not estimates, and have no standard errors."
    else:
        for of in (_of_statistic, _of_errors, _of_outliers, _of_weights, _of_rows, _of_bootstrap):
            yield from of(evidence)


def _of_statistic(evidence: Evidence) -> Iterator[str]:
    """That the V-statistic took the place of the U-statistic. A fit that was not traced has a note
    about it, and the V-statistic as its discrepancy.
    """
    fit = evidence.fit
    if getattr(fit.discrepancy, "unbiased", False) and bool(fit.as_v):
        yield "The U-statistic had no minimum near the data, so the V-statistic was minimised instead."


def _of_errors(evidence: Evidence) -> Iterator[str]:
    """Why standard errors are missing, or may be too small."""
    fit = evidence.fit
    if not evidence.has_errors:
        yield "There are no standard errors: none were asked for, or this discrepancy has none."
        return
    if float(fit.condition) > _ILL:
        yield (
            f"Some combination of the parameters is hardly determined by these data: the condition number of the "
            f"Hessian is {float(fit.condition):.2g}."
        )
    if fit.n < _FEW * len(fit.names):
        yield (
            f"There are only {fit.n} observations for {len(fit.names)} parameters. Intervals assume a large sample, so "
            "they may be too narrow; compare them with a bootstrap."
        )


def _of_outliers(evidence: Evidence) -> Iterator[str]:
    if evidence.robustness is not None and not evidence.robustness.bounded:
        yield "The estimate is not robust: a single distant observation can move it without limit."


_ILL, _FEW, _FAR, _APART = 1e8, 10, 0.5, 1.5
"""When to caution: a condition number above the first, fewer observations for each parameter than
the second, a row that moves an estimate by more standard errors than the third, and standard
errors of the bootstrap and of the fit that differ by a larger factor than the fourth.
"""


def _of_weights(evidence: Evidence) -> Iterator[str]:
    without = np.flatnonzero([] if evidence.weights is None else evidence.weights < _HARDLY)
    if not without.size:
        return
    noun, verb, affect = "Rows", "have", "they hardly affect"
    if without.size == 1:
        noun, verb, affect = "Row", "has", "it hardly affects"
    yield (
        f"{noun} {_list_rows(evidence.numbers[without])} {verb} less than {100 * _HARDLY:g}\N{NO-BREAK SPACE}% of the "
        f"weight of an observation at the centre: {affect} the estimates."
    )


_HARDLY = 0.05
"""An observation with less weight, relative to one at the centre, hardly counts; under the robust
design it is more than 6 standard deviations from the median.
"""


def _of_rows(evidence: Evidence) -> Iterator[str]:
    count = int((evidence.largest > _FAR).sum())
    if count:
        rows = _list_rows(evidence.numbers[evidence.most_influential(count)])
        one = f"Row {rows} alone moved an estimate by more than half a standard error. Look at it."
        more = (
            f"Rows {rows} each moved an estimate by more than half a standard error. Look at them."
        )
        yield one if count == 1 else more


def _list_rows(rows: np.ndarray) -> str:
    """The first row numbers, and how many more there are."""
    more = f" and {len(rows) - _NAMED} others" if len(rows) > _NAMED else ""
    return ", ".join(map(str, rows[:_NAMED])) + more


_NAMED = 8
"""The most rows that a caution lists."""


def _of_bootstrap(evidence: Evidence) -> Iterator[str]:
    found = evidence.bootstrap
    if found is None or not evidence.has_errors:
        return
    tried, kept = len(found.converged), int(found.converged.sum())
    if kept < tried:
        yield f"{tried - kept} of {tried} bootstrap replications did not converge; they are left out."
    if kept < 2:
        return
    pairs = zip(evidence.fit.bse.items(), found.bse.values(), strict=True)
    apart = [
        name for (name, ours), theirs in pairs if max(ours, theirs) >= _APART * min(ours, theirs)
    ]
    if apart:
        yield (
            f"The bootstrap disagrees with the standard errors of {', '.join(apart[:6])} by more than a factor of "
            f"{_APART:g}. Trust the wider of the two."
        )
