"""The parts of a report, each from what is known to HTML."""

import hashlib
import platform
from importlib import metadata

import numpy as np

from .._version import __version__
from ..errors import rows_text
from ..inference.robustness import Robustness
from ..result.summary import number
from . import figures, words
from .evidence import Evidence
from .markup import facts, fold, listing, paragraph, preformatted, section, table, tag
from .ranges import is_far

_MOST_ROWS, _MOST_COLUMNS, _MOST_PARAMETERS = 30, 6, 1000
"""Rows of a table, cells of a row and rows of the longest table beyond which a report tells how
many more there are.
"""


def numbers(evidence: Evidence) -> str:
    """The estimates in large print, where they are few."""
    fit = evidence.fit
    if not evidence.has_errors or len(fit.names) > 4:
        return ""
    ends = fit.conf_int(evidence.alpha)
    level = f"{100 * (1 - evidence.alpha):g}\N{NO-BREAK SPACE}%"
    cards = (
        tag(
            "div",
            paragraph(name, class_="name"),
            paragraph(number(fit.params[name]), class_="value"),
            paragraph(f"{level}: {number(low)} to {number(high)}", class_="range"),
        )
        for name, (low, high) in ends.items()
    )
    return tag("div", *cards, class_="numbers")


def cautions(evidence: Evidence, notes: tuple[str, ...]) -> str:
    """What to know before trusting the numbers."""
    said = list(words.cautions(evidence))
    parts = [
        listing(said, class_="cautions")
        if said
        else paragraph("Nothing in the fit itself stands out.")
    ]
    if evidence.fit.notes + notes:
        parts.append(listing(evidence.fit.notes + notes))
    return section("cautions", "Before you trust it", *parts)


def estimates(evidence: Evidence) -> str:
    """The table, and its pictures."""
    summary = evidence.fit.summary(evidence.alpha)
    what = "Estimates" if evidence.fit.converged else "Where the search stopped"
    rows = [(name, map(number, values)) for name, values in summary.rows]
    parts = [table(f"{what}: {summary.title}", summary.columns, rows, corner="parameter")]
    hidden = len(evidence.fit.names) - len(rows)
    if hidden:
        parts.append(_all_parameters(evidence))
    parts.append(
        tag("div", *figures.of_fit(evidence), *figures.of_estimates(evidence), class_="figures")
    )
    return section("estimates", "Estimates", *parts)


def _all_parameters(evidence: Evidence) -> str:
    fit = evidence.fit
    names = fit.names[:_MOST_PARAMETERS]
    params, spread = fit.params, fit.bse
    if evidence.has_errors:
        columns, rows = (
            ("estimate", "std. error"),
            [(n, (number(params[n]), number(spread[n]))) for n in names],
        )
    else:
        columns, rows = ("estimate",), [(n, (number(params[n]),)) for n in names]
    of = "All" if len(names) == len(fit.names) else f"The first {len(names)} of"
    return fold(
        f"{of} {len(fit.names)} parameters",
        table("Parameters", columns, rows, corner="parameter"),
        long=True,
    )


def influence(evidence: Evidence) -> str:
    """Which observations matter, and what outliers would do."""
    robustness = evidence.robustness
    parts = [
        paragraph(evidence.refused if robustness is None else robustness.message, class_="verdict")
    ]
    if evidence.shifts is not None:
        parts += [
            tag("div", *figures.of_influence(evidence), class_="figures"),
            _influential(evidence, evidence.shifts),
        ]
    if robustness is not None:
        parts.append(
            fold(
                "How the influence on each parameter behaves far out", _rates(evidence, robustness)
            )
        )
    return section("influence", "Influence and robustness", *parts)


def _influential(evidence: Evidence, shifts: np.ndarray) -> str:
    rows, shown = evidence.most_influential(), min(len(evidence.columns), _MOST_COLUMNS)
    names = evidence.fit.names
    moved = np.abs(shifts).argmax(1)
    body = [
        (
            str(evidence.numbers[row]),
            [
                *(number(float(v)) for v in evidence.x[row, :shown]),
                names[moved[row]],
                f"{shifts[row, moved[row]]:+.2f}",
            ],
        )
        for row in rows
    ]
    counted = "rows counted from 0" if evidence.rows is None else "rows as numbered in the source"
    caption = f"The most influential observations, {counted}"
    columns = (*evidence.columns[:shown], "moved most", "by std. errors")
    return table(caption, columns, body, corner="row")


def _rates(evidence: Evidence, found: Robustness) -> str:
    names = evidence.fit.names[:_MOST_ROWS]
    limit = lambda value: "no limit" if np.isinf(value) else number(value)
    rate = lambda value: "vanishes" if np.isneginf(value) else f"{value:+.2f}"
    rows = [(name, (limit(found.sensitivity[name]), rate(found.rates[name]))) for name in names]
    text = (
        "The influence of an observation at a distance r from the data changes like r to the power of the rate: it "
        "falls where the rate is negative, stays bounded at zero, and grows without limit above."
    )
    more = len(evidence.fit.names) - len(names)
    parts = [
        paragraph(text),
        table("Largest influence, and its rate", ("largest", "rate"), rows, corner="parameter"),
    ]
    return "".join(parts + ([paragraph(f"… and {more} more parameters.")] if more else []))


def bootstrap(evidence: Evidence) -> str:
    """Resampling beside the asymptotic standard errors."""
    found = evidence.bootstrap
    if found is None or int(found.converged.sum()) < 2:
        return ""
    found = type(found)(found.theta, found.converged, evidence.fit.names)
    ends, spread, ours = found.conf_int(evidence.alpha), found.bse, evidence.fit.bse
    rows = [
        (name, (number(ours[name]), number(spread[name]), *map(number, ends[name])))
        for name in evidence.fit.names[:_MOST_ROWS]
    ]
    level = f"{100 * (1 - evidence.alpha):g}\N{NO-BREAK SPACE}%"
    columns = ("std. error", "bootstrap", f"{level} from", "to")
    caption = (
        f"Standard errors of the fit and of {int(found.converged.sum())} bootstrap replications"
    )
    more = len(evidence.fit.names) - len(rows)
    parts = [table(caption, columns, rows, corner="parameter")]
    return section(
        "bootstrap",
        "Bootstrap",
        *parts,
        *([paragraph(f"… and {more} more parameters.")] if more else []),
    )


def comparison(evidence: Evidence) -> str:
    """Efficiency and robustness of other discrepancies on the same data."""
    found = evidence.comparison
    if found is None or not found.rows:
        return ""
    limit = lambda value: "no limit" if np.isinf(value) else f"{value:.2f}"
    rows = [(name, (f"{row.joint:.2f}", limit(row.largest))) for name, row in found.rows.items()]
    text = (
        "What this and other choices would give if the fitted model were true. The efficiency is relative to maximum "
        "likelihood and joint for all parameters: at 0.9 an estimate needs 1/0.9 times the observations. The "
        "largest influence is the most by which one more observation, wherever it lies, can move an estimate, in "
        "standard errors of an efficient estimate over √n. Averages are over "
        f"{next(iter(found.rows.values())).draws}, not over the data."
    )
    parts = [
        paragraph(text),
        table("Efficiency and robustness", ("efficiency", "largest influence"), rows, corner=""),
    ]
    parts += [paragraph(note) for note in found.notes]
    picture = tag("div", *figures.of_comparison(evidence), class_="figures")
    return section("comparison", "Other discrepancies", *parts, picture)


def data(evidence: Evidence) -> str:
    """The data by themselves."""
    x, shown = evidence.x, min(len(evidence.columns), _MOST_ROWS)
    quantiles = np.quantile(x[:, :shown], [0, 0.25, 0.5, 0.75, 1], axis=0)
    quantiles[np.abs(quantiles) < 1e-12 * np.abs(x[:, :shown]).max(0)] = 0
    rows = [
        (
            name,
            [
                *map(number, map(float, quantiles[:, j])),
                number(float(x[:, j].mean())),
                number(float(x[:, j].std())),
            ],
        )
        for j, name in enumerate(evidence.columns[:shown])
    ]
    columns = (
        "least",
        "1st quartile",
        "median",
        "3rd quartile",
        "greatest",
        "mean",
        "std. deviation",
    )
    caption, corner = "Quantiles, mean and standard deviation", "variable"
    if shown <= _UPRIGHT:
        turned = zip(*(cells for _, cells in rows), strict=True)
        columns, rows = (
            evidence.columns,
            [(name, list(cells)) for name, cells in zip(columns, turned, strict=True)],
        )
        corner = "statistic"
    distinct = len(np.unique(x, axis=0))
    same = f" {len(x) - distinct} of them repeat an earlier one." if distinct < len(x) else ""
    variables = (
        "one variable" if len(evidence.columns) == 1 else f"{len(evidence.columns)} variables"
    )
    more = f" The table shows the first {shown}." if shown < len(evidence.columns) else ""
    parts = [
        paragraph(
            f"{len(x)} observations of {variables}.{same}{'' if evidence.discrete else _far(evidence)}{more}"
        ),
        table(caption, columns, rows, corner=corner),
        tag("div", *figures.of_data(evidence), class_="figures"),
    ]
    return section("data", "The data", *parts)


def _far(evidence: Evidence) -> str:
    far = is_far(evidence.x)
    named = rows_text(far, evidence.numbers)
    return f" More than 25 spreads from the median in some variable: {named}." if far.any() else ""


_UPRIGHT = 3
"""The number of variables that fit beside each other on a narrow screen."""


def search(evidence: Evidence) -> str:
    """What was minimised, and how."""
    pictures = list(figures.of_search(evidence))
    none = (
        []
        if pictures
        else [paragraph("The minimum was found in one step, so there is no trace to draw.")]
    )
    if not evidence.fit.converged and not pictures:
        none = [paragraph("The search took no step that could be drawn.")]
    model = repr(evidence.fit.model)
    model = model if len(model) <= _LONG else f"{model[:_LONG]}…"
    what = facts([("Model", model), *evidence.fit.summary(evidence.alpha).facts])
    return section(
        "search", "How it was fitted", what, *none, tag("div", *pictures, class_="figures")
    )


_LONG = 400


def method(evidence: Evidence) -> str:
    """The method in brief."""
    source = (
        "A. Barp, F.-X. Briol, A. B. Duncan, M. Girolami and L. Mackey: Minimum Stein Discrepancy Estimators. "
        "Advances in Neural Information Processing Systems 32, 2019."
    )
    return section(
        "method",
        "The method in brief",
        paragraph(words.method(evidence)),
        paragraph(source, class_="source"),
    )


def reproduction(evidence: Evidence, command: str | None, seed: int | None) -> str:
    """How to do it again."""
    digest = hashlib.sha256(np.ascontiguousarray(evidence.x, "<f8").tobytes()).hexdigest()
    known = [("Seed", str(seed))] if seed is not None else []
    known += [
        (
            "Data",
            f"{len(evidence.x)} × {len(evidence.columns)}, SHA-256 of the float64 values {digest[:16]}…",
        )
    ]
    known += [
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    ]
    known += [("Versions", ", ".join(f"{name} {version}" for name, version in _versions()))]
    parts = [preformatted(command)] if command else []
    return section("again", "Doing it again", *parts, facts(known))


def _versions() -> list[tuple[str, str]]:
    used = ("jax", "equinox", "optax", "numpy", "scipy", "matplotlib")
    return [("minstein", __version__), *((name, metadata.version(name)) for name in used)]
