"""What a report says in sentences."""

from collections.abc import Iterator

import numpy as np

from ..discrepancies.base import AbstractPairwise
from ..discrepancies.contrastive import CD
from ..discrepancies.discrete import DFD, MPF, PseudoLikelihood
from ..discrepancies.discrete_ksd import DiscreteKSD
from ..discrepancies.ksd import DKSD
from ..discrepancies.score_matching import DSM
from ..solvers import status
from .evidence import Evidence

_PROBLEM = (
    "Many models give the shape of a density but not its height: the constant that makes it integrate to one cannot be "
    "computed, and likelihood methods are stuck without it. "
)
METHOD = _PROBLEM + (
    "A Stein discrepancy does not need it. It looks only at the slope of the log-density, from which the constant has "
    "gone, and it uses a fact that Charles Stein found: if the model is right, certain averages that are built from "
    "this slope are exactly zero. "
)
_DISCRETE = _PROBLEM + (
    "Where the data are discrete, the ratio of the probabilities of two neighbouring states does not need it, as the "
    "constant cancels. "
)

_OF_KERNELS = (
    "The kernel Stein discrepancy takes a whole space of such averages at once and measures how far those of the data "
    "are from zero; the kernel decides how local they are, and a diffusion, where there is one, how much each region "
    "counts. "
)
_OF_SCORES = (
    "Score matching, the variant used here, compares the slopes of model and data on average over the sample; a "
    "diffusion, where there is one, decides how much each region counts. "
)
_BY_RATIOS = {
    MPF: "Minimum probability flow sets the data in motion towards the model, with rates that are made from these "
    "ratios, and measures how fast probability leaves the states that were observed: the slower, the better. ",
    PseudoLikelihood: "The pseudo-likelihood multiplies the probabilities of each variable given all others, which are "
    "made from these ratios; its negative logarithm takes the place of a discrepancy. ",
    DFD: "The discrete Fisher divergence compares these ratios with those of the data on average over the sample. ",
    DiscreteKSD: "If the model is right, certain averages that are built from these ratios are exactly zero; the "
    "discrete kernel Stein discrepancy takes a whole space of them at once and measures how far those of the data are "
    "from it. ",
}
_OF_CHAINS = _PROBLEM + (
    "A Markov chain that leaves the model as it is does not need it. Contrastive divergence runs such chains from the "
    "observations for a few steps: if the model is right, their ends look like their beginnings. The estimates are the "
    "parameters at which ends and beginnings agree on average; they carry the noise of the chains."
)
_MINIMUM = "The estimates are the parameters at which the discrepancy is smallest."
_ERRORS = (
    " Their standard errors follow from how sharply it rises around them and from how strongly each observation pulls; "
    "they do not assume that the model is true."
)


def method(evidence: Evidence) -> str:
    """The method for a reader who has never heard of Stein."""
    kind = type(evidence.fit.discrepancy)
    if kind is CD:
        return _OF_CHAINS
    if evidence.discrete:
        return (
            _DISCRETE
            + _BY_RATIOS.get(kind, "")
            + _MINIMUM
            + (_ERRORS if evidence.has_errors else "")
        )
    return (
        METHOD
        + {DKSD: _OF_KERNELS, DSM: _OF_SCORES}.get(kind, "")
        + _MINIMUM
        + (_ERRORS if evidence.has_errors else "")
    )


def outcome(evidence: Evidence) -> str:
    """Whether it converged, in a word or three."""
    if evidence.fit.converged:
        return "Converged"
    return (
        "Convergence not shown" if int(evidence.fit.status) == status.FINISHED else "Not converged"
    )


def introduction(evidence: Evidence) -> str:
    """What was fitted, to what and how, in one sentence."""
    fit, p = evidence.fit, len(evidence.fit.names)
    way = _WAYS.get(type(fit.discrepancy), f"by minimising {type(fit.discrepancy).__name__}")
    variables = "" if fit.d == 1 else f" of {fit.d} variables"
    free = "one free parameter" if p == 1 else f"{p} free parameters"
    return f"{fit.model_name} with {free}, fitted to {fit.n} observations{variables} {way}."


_WAYS = {
    DKSD: "by minimising a kernel Stein discrepancy",
    DSM: "by score matching",
    MPF: "by minimum probability flow",
    PseudoLikelihood: "by maximising the pseudo-likelihood",
    DFD: "by minimising a discrete Fisher divergence",
    DiscreteKSD: "by minimising a discrete kernel Stein discrepancy",
    CD: "by contrastive divergence",
}


def advice(evidence: Evidence) -> str:
    """What usually causes such a failure and what to do about it."""
    said = status.ADVICE.get(int(evidence.fit.status), "")
    return f"Usual causes and what to do: {said}." if said else ""


def cautions(evidence: Evidence) -> Iterator[str]:
    """What one should know before trusting the numbers."""
    if not evidence.fit.converged:
        yield _of_end(evidence)
        return
    yield from _of_statistic(evidence)
    yield from _of_errors(evidence)
    if evidence.robustness is not None and not evidence.robustness.bounded:
        yield "The estimate is not robust: a single observation far out can move it without limit."
    yield from _of_weights(evidence)
    yield from _of_rows(evidence)
    yield from _of_bootstrap(evidence)


def _of_end(evidence: Evidence) -> str:
    """What the numbers are if there is no minimum."""
    if int(evidence.fit.status) == status.FINISHED:
        return "The numbers below are where the steps ended. How far the minimum is from there is not known."
    return "The numbers below are where the search stopped. They are not estimates, and have no standard errors."


def _of_statistic(evidence: Evidence) -> Iterator[str]:
    """That the V-statistic took the place of the U-statistic. A fit that was not traced has a note
    about it, and the V-statistic as its discrepancy.
    """
    fit = evidence.fit
    asked = isinstance(fit.discrepancy, AbstractPairwise) and fit.discrepancy.unbiased
    if asked and bool(fit.as_v):
        yield "The U-statistic had no minimum near the data, so the V-statistic was minimised instead."


def _of_errors(evidence: Evidence) -> Iterator[str]:
    """Why standard errors are missing, or may be too small."""
    fit = evidence.fit
    if not evidence.has_errors:
        yield "There are no standard errors: none were asked for, or this discrepancy gives none."
        return
    if float(fit.condition) > _ILL:
        yield (
            f"Some combination of the parameters is hardly determined by these data: the condition number of the "
            f"Hessian is {float(fit.condition):.2g}."
        )
    if fit.n < _FEW * len(fit.names):
        yield (
            f"There are only {fit.n} observations for {len(fit.names)} parameters. Intervals rest on large samples, so "
            "they may be too narrow; compare them with a bootstrap."
        )


_ILL, _FEW, _FAR, _APART = 1e8, 10, 0.5, 1.5
"""When to speak: condition number, observations for each parameter, standard errors that one row
moves an estimate, ratio of the bootstrap's standard errors to those of the fit.
"""


def _of_weights(evidence: Evidence) -> Iterator[str]:
    without = np.flatnonzero([] if evidence.weights is None else evidence.weights < _HARDLY)
    if without.size:
        noun, verb, they, s = (
            ("Row", "has", "it", "s") if without.size == 1 else ("Rows", "have", "they", "")
        )
        rows = _list_rows(evidence.numbers[without])
        yield (
            f"{noun} {rows} {verb} less than {100 * _HARDLY:g}\N{NO-BREAK SPACE}% of the weight of an "
            f"observation at the centre: {they} hardly affect{s} the estimates."
        )


_HARDLY = 0.05
"""An observation with less weight, relative to one at the centre, hardly counts; under the robust
design it is more than 6 standard deviations from the median.
"""


def _list_rows(rows: np.ndarray) -> str:
    """Some row numbers, and how many more there are."""
    more = f" and {len(rows) - _NAMED} others" if len(rows) > _NAMED else ""
    return ", ".join(map(str, rows[:_NAMED])) + more


def _of_rows(evidence: Evidence) -> Iterator[str]:
    size = evidence.largest
    count = int((size > _FAR).sum())
    if count == 1:
        row = evidence.numbers[size.argmax()]
        yield f"Row {row} alone moved an estimate by more than half a standard error. Look at it."
    elif count:
        rows = _list_rows(evidence.numbers[evidence.most_influential(count)])
        yield f"Rows {rows} each moved an estimate by more than half a standard error. Look at them."


_NAMED = 8


def _of_bootstrap(evidence: Evidence) -> Iterator[str]:
    if evidence.bootstrap is None or not evidence.has_errors:
        return
    tried = len(evidence.bootstrap.converged)
    failed = tried - int(evidence.bootstrap.converged.sum())
    if failed:
        yield f"{failed} of {tried} bootstrap replications did not converge; they are left out."
    if tried - failed < 2:
        return
    ours, theirs = (
        np.array(list(errors.values())) for errors in (evidence.fit.bse, evidence.bootstrap.bse)
    )
    ratio = theirs / ours
    apart = [
        name
        for name, r in zip(evidence.fit.names, ratio, strict=True)
        if not 1 / _APART < r < _APART
    ]
    if apart:
        yield (
            f"The bootstrap disagrees with the standard errors of {', '.join(apart[:6])} by more than a factor of "
            f"{_APART:g}. Trust the wider of the two."
        )
