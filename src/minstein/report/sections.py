"""The sections of a report, as HTML."""

import dataclasses
import hashlib
import platform
from collections.abc import Callable
from importlib import metadata

import numpy as np

from .._version import __version__
from ..errors import rows_text
from ..inference.robustness import Robustness
from ..result.summary import number
from . import figures, words
from .evidence import Evidence
from .markup import facts, fold, listing, paragraph, preformatted, section, table, tag
from .markup import figures as gallery
from .ranges import is_far

_MOST_ROWS, _MOST_COLUMNS, _MOST_PARAMETERS = 30, 6, 1000
"""The most rows of a table, the most variables in a row, and the most rows of the table of all
parameters; the report says how many more there are.
"""


def numbers(evidence: Evidence) -> str:
    """The estimates in large print, if they are few."""
    fit = evidence.fit
    if not evidence.has_errors or len(fit.names) > 4:
        return ""
    cards = (
        tag(
            "div",
            paragraph(name, class_="name"),
            paragraph(number(fit.params[name]), class_="value"),
            paragraph(f"{evidence.level}: {number(low)} to {number(high)}", class_="range"),
        )
        for name, (low, high) in fit.conf_int(evidence.alpha).items()
    )
    return tag("div", *cards, class_="numbers")


def cautions(evidence: Evidence, notes: tuple[str, ...]) -> str:
    """What to know before trusting the numbers."""
    said, noted = list(words.cautions(evidence)), evidence.fit.notes + notes
    nothing = paragraph("Nothing in the fit itself stands out.")
    first = listing(said, class_="cautions") if said else nothing
    return section("cautions", "Before you trust it", first, listing(noted) if noted else "")


def estimates(evidence: Evidence) -> str:
    """The table of estimates, and its pictures."""
    summary = evidence.fit.summary(evidence.alpha)
    what = "Estimates" if evidence.fit.converged else "Where the search stopped"
    rows = [(name, map(number, values)) for name, values in summary.rows]
    return section(
        "estimates",
        "Estimates",
        table(f"{what}: {summary.title}", "parameter", summary.columns, rows),
        _all_parameters(evidence) if len(rows) < len(evidence.fit.names) else "",
        gallery([*figures.of_fit(evidence), *figures.of_estimates(evidence)]),
    )


def _all_parameters(evidence: Evidence) -> str:
    fit = evidence.fit
    columns = {"estimate": fit.params}
    if evidence.has_errors:
        columns["std. error"] = fit.bse
    names = fit.names[:_MOST_PARAMETERS]
    rows = [(name, [number(values[name]) for values in columns.values()]) for name in names]
    of = "All" if len(names) == len(fit.names) else f"The first {len(names)} of"
    every = table("Parameters", "parameter", columns, rows)
    return fold(f"{of} {len(fit.names)} parameters", every, class_="long")


def _by_parameter(
    evidence: Evidence, caption: str, columns: tuple[str, ...], cells: Callable
) -> str:
    """A table with a row for each of the first parameters, and a sentence about the others."""
    names = evidence.fit.names[:_MOST_ROWS]
    more = len(evidence.fit.names) - len(names)
    rest = paragraph(f"… and {more} more parameters.") if more else ""
    return table(caption, "parameter", columns, [(name, cells(name)) for name in names]) + rest


def influence(evidence: Evidence) -> str:
    """Which observations matter, and what outliers would do."""
    found = evidence.robustness
    verdict = evidence.refused if found is None else found.message
    parts = [paragraph(verdict, class_="verdict")]
    if evidence.shifts is not None:
        parts += [gallery(figures.of_influence(evidence)), _influential(evidence, evidence.shifts)]
    if found is not None:
        title = "How the influence on each parameter behaves far out"
        parts.append(fold(title, _rates(evidence, found)))
    return section("influence", "Influence and robustness", *parts)


def _influential(evidence: Evidence, shifts: np.ndarray) -> str:
    shown = min(len(evidence.columns), _MOST_COLUMNS)
    moved = np.abs(shifts).argmax(1)
    body = []
    for row in evidence.most_influential():
        values = [number(float(v)) for v in evidence.x[row, :shown]]
        shift = [evidence.fit.names[moved[row]], f"{shifts[row, moved[row]]:+.2f}"]
        body.append((str(evidence.numbers[row]), values + shift))
    counted = "rows counted from 0" if evidence.rows is None else "rows as numbered in the source"
    caption = f"The most influential observations, {counted}"
    columns = (*evidence.columns[:shown], "moved most", "by std. errors")
    return table(caption, "row", columns, body)


def _limit(value: float, text: str) -> str:
    return "no limit" if np.isinf(value) else text


def _rates(evidence: Evidence, found: Robustness) -> str:
    rate = lambda value: "vanishes" if np.isneginf(value) else f"{value:+.2f}"
    largest = lambda value: _limit(value, number(value))
    cells = lambda name: (largest(found.sensitivity[name]), rate(found.rates[name]))
    text = (
        "The influence of an observation at a distance r from the data behaves like r to the power of the rate: it "
        "decreases if the rate is negative, stays bounded if it is zero, and grows without limit if it is positive."
    )
    columns = ("largest", "rate")
    return paragraph(text) + _by_parameter(
        evidence, "Largest influence, and its rate", columns, cells
    )


def bootstrap(evidence: Evidence) -> str:
    """The bootstrap beside the asymptotic standard errors."""
    found = evidence.bootstrap
    if found is None or int(found.converged.sum()) < 2:
        return ""
    found = dataclasses.replace(found, names=evidence.fit.names)
    ends, spread, ours = found.conf_int(evidence.alpha), found.bse, evidence.fit.bse
    cells = lambda name: map(number, (ours[name], spread[name], *ends[name]))
    columns = ("std. error", "bootstrap", f"{evidence.level} from", "to")
    count = int(found.converged.sum())
    caption = f"Standard errors of the fit and of {count} bootstrap replications"
    return section("bootstrap", "Bootstrap", _by_parameter(evidence, caption, columns, cells))


def comparison(evidence: Evidence) -> str:
    """Efficiency and robustness of other discrepancies on the same data."""
    found = evidence.comparison
    if found is None or not found.rows:
        return ""
    rows = [
        (name, (f"{row.joint:.2f}", _limit(row.largest, f"{row.largest:.2f}")))
        for name, row in found.rows.items()
    ]
    text = (
        "What this and other choices would give if the fitted model were true. The efficiency is relative to maximum "
        "likelihood and joint for all parameters: at 0.9 an estimate needs 1/0.9 times the observations. The "
        "largest influence is the most by which one more observation, wherever it lies, can move an estimate, in "
        "standard errors of an efficient estimate over √n. Averages are over "
        f"{next(iter(found.rows.values())).draws}, not over the data."
    )
    return section(
        "comparison",
        "Other discrepancies",
        paragraph(text),
        table("Efficiency and robustness", "", ("efficiency", "largest influence"), rows),
        *map(paragraph, found.notes),
        gallery(figures.of_comparison(found)),
    )


def data(evidence: Evidence) -> str:
    """The data without the fit."""
    d = len(evidence.columns)
    shown = min(d, _MOST_ROWS)
    distinct = len(np.unique(evidence.x, axis=0))
    repeated = len(evidence.x) - distinct
    text = f"{len(evidence.x)} observations of {'one variable' if d == 1 else f'{d} variables'}."
    text += f" {repeated} of them repeat an earlier one." if repeated else ""
    text += "" if evidence.discrete else _far(evidence)
    text += f" The table shows the first {shown}." if shown < d else ""
    return section(
        "data",
        "The data",
        paragraph(text),
        _statistics(evidence.columns[:shown], evidence.x[:, :shown]),
        gallery(figures.of_data(evidence)),
    )


def _statistics(variables: tuple[str, ...], x: np.ndarray) -> str:
    """The table of quantiles, means and standard deviations, upright if the variables are few."""
    quantiles = np.quantile(x, list(_QUANTILES.values()), axis=0)
    quantiles[np.abs(quantiles) < 1e-12 * np.abs(x).max(0)] = 0
    moments = [[column.mean() for column in x.T], [column.std() for column in x.T]]
    cells = [[number(float(v)) for v in row] for row in (*quantiles, *moments)]
    caption, names = (
        "Quantiles, mean and standard deviation",
        (*_QUANTILES, "mean", "std. deviation"),
    )
    if len(variables) <= _UPRIGHT:
        return table(caption, "statistic", variables, zip(names, cells, strict=True))
    turned = zip(variables, zip(*cells, strict=True), strict=True)
    return table(caption, "variable", names, turned)


_QUANTILES = {"least": 0, "1st quartile": 0.25, "median": 0.5, "3rd quartile": 0.75, "greatest": 1}

_UPRIGHT = 3
"""The number of variables that fit beside each other on a narrow screen."""


def _far(evidence: Evidence) -> str:
    far = is_far(evidence.x)
    named = rows_text(far, evidence.numbers)
    return f" More than 25 spreads from the median in some variable: {named}." if far.any() else ""


def search(evidence: Evidence) -> str:
    """What was minimised, and how."""
    fit, pictures = evidence.fit, list(figures.of_search(evidence))
    none = "The minimum was found in one step, so there is no trace to draw."
    none = none if fit.converged else "The search took no step that could be drawn."
    model = repr(fit.model)
    model = model if len(model) <= _LONG else f"{model[:_LONG]}…"
    what = facts([("Model", model), *fit.summary(evidence.alpha).facts])
    without = "" if pictures else paragraph(none)
    return section("search", "How it was fitted", what, without, gallery(pictures))


_LONG = 400
"""The most characters of a model that are shown."""


def method(evidence: Evidence) -> str:
    """The method in brief."""
    source = (
        "A. Barp, F.-X. Briol, A. B. Duncan, M. Girolami and L. Mackey: Minimum Stein Discrepancy Estimators. "
        "Advances in Neural Information Processing Systems 32, 2019."
    )
    brief, cited = paragraph(words.method(evidence)), paragraph(source, class_="source")
    return section("method", "The method in brief", brief, cited)


def reproduction(evidence: Evidence, command: str | None, seed: int | None) -> str:
    """How to reproduce the fit."""
    n, d = evidence.x.shape
    digest = hashlib.sha256(np.ascontiguousarray(evidence.x, "<f8").tobytes()).hexdigest()
    versions = [f"{name} {metadata.version(name)}" for name in _USED]
    known = [
        *([] if seed is None else [("Seed", str(seed))]),
        ("Data", f"{n} × {d}, SHA-256 of the float64 values {digest[:16]}…"),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("Versions", ", ".join([f"minstein {__version__}", *versions])),
    ]
    typed = preformatted(command) if command else ""
    return section("again", "How to reproduce it", typed, facts(known))


_USED = ("jax", "equinox", "optax", "numpy", "scipy", "matplotlib")
