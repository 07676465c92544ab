"""The pictures of a report, as SVG that takes its colours and its font from the page."""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import canvas, plot, ranges
from .evidence import Evidence
from .markup import clean, figure

INK, BAR = "#1d1f23", "#d9d9d9"

_COLOURS = {
    INK: "ink",
    BAR: "bar",
    canvas.BLUE.lower(): "blue",
    canvas.ORANGE.lower(): "orange",
    "#009e73": "green",
    "#cc79a7": "pink",
    "#8c8c8c": "grey",
}
"""Colours of the drawings, and the names of the page's colours that take their place."""

_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.labelsize": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "path.simplify_threshold": 0.3,
    "axes.formatter.use_mathtext": False,
}


def draw_figure(
    name: str, caption: str, draw: Callable[[Any], None], size: tuple[float, float] = (4.8, 3.1)
) -> str:
    """A figure element; `draw` is given a matplotlib figure. No state of pyplot is touched."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise ImportError("A report needs matplotlib: pip install 'minstein[plots]'.") from reason
    buffer = io.BytesIO()
    with matplotlib.rc_context({**_RC, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph", UserWarning
        )  # the page's font may have what matplotlib's lacks
        canvas = Figure(size, layout="constrained")
        draw(canvas)
        for ax in canvas.axes:
            ax.patch.set_visible(False)
        blank = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(buffer, format="svg", metadata=blank, transparent=True)
    return figure(inline(buffer.getvalue(), name, caption), caption)


def on_axes(draw: Callable[[Any], None]) -> Callable[[Any], None]:
    """A drawing on one pair of axes, without a title of its own: the caption says it."""

    def draw_on(canvas: Any) -> None:
        ax = canvas.subplots()
        draw(ax)
        ax.set_title("")

    return draw_on


_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def inline(svg: bytes, name: str, caption: str) -> str:
    """An SVG document as an element of a page: ids of its own, the page's colours and font, a name
    for readers.
    """
    root = ET.fromstring(svg)
    for element in root.iter():
        element.tag = element.tag.replace(f"{{{_SVG}}}", "")
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.attrib[key.replace(f"{{{_LINK}}}", "")] = _own(name, key, value)
    used = {
        match
        for element in root.iter()
        for value in element.attrib.values()
        for match in _USED.findall(value)
    }
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib.update({"role": "img", "aria-label": clean(caption)})
    return ET.tostring(root, encoding="unicode")


_USED = re.compile(r"#([\w.-]+)")


def _own(name: str, key: str, value: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href"):
        return value.replace("#", f"#{name}-")
    if key == "style":
        value = re.sub(
            r"#[0-9a-f]{6}",
            lambda m: f"var(--{_COLOURS[m[0]]})" if m[0] in _COLOURS else m[0],
            value,
        )
        value = re.sub(r"font: [^;]*?([\d.]+px)[^;]*", r"font-size: \1", value)
        return re.sub(r"font-family: [^;]+;?", "", value)
    return value.replace("url(#", f"url(#{name}-")


def of_fit(evidence: Evidence) -> Iterator[str]:
    """The data with the fitted density, where one can be drawn."""
    fit = evidence.fit
    if fit.d > 2 or evidence.discrete or not np.isfinite(fit.theta).all():
        return

    def density(ax: Any) -> None:
        plot.density(fit, evidence.x, ax=ax)
        ax.set_xlabel(evidence.columns[0])
        if fit.d == 2:
            ax.set_ylabel(evidence.columns[1])

    what = (
        "Contours of the fitted density over the data"
        if fit.d == 2
        else "The data as a histogram, the fit as a line"
    )
    where = "" if fit.converged else ", at the values where the search stopped"
    far = int(ranges.is_far(evidence.x).sum())
    beyond = (
        f" Very far out and not shown: {far} observation{'s' if far > 1 else ''}." if far else ""
    )
    yield draw_figure(
        "density", f"{what}{where}. Normalised over what is shown.{beyond}", on_axes(density)
    )


def of_estimates(evidence: Evidence) -> Iterator[str]:
    """Intervals, and the loss around the minimum."""
    fit = evidence.fit
    if not evidence.has_errors:
        return
    level = f"{100 * (1 - evidence.alpha):g}\N{NO-BREAK SPACE}%"
    if 3 <= len(fit.names) <= _MOST_INTERVALS and _comparable(evidence):
        height = max(1.6, 0.42 * len(fit.names) + 0.9)
        draw = on_axes(lambda ax: plot.intervals(fit, alpha=evidence.alpha, ax=ax))
        yield draw_figure(
            "intervals", f"Estimates with {level} intervals.", draw, (4.8, min(height, 9))
        )
    if fit.n <= _MOST_FOR_LOSS:
        one = len(fit.names) == 1
        draw = on_axes(lambda ax: plot.loss(fit, evidence.sample, points=41 if one else 17, ax=ax))
        held = ", the other parameters held" if len(fit.names) > 2 else ""
        yield draw_figure(
            "loss",
            f"The loss around its minimum{held}, with the estimate and 95\N{NO-BREAK SPACE}% intervals.",
            draw,
        )


_MOST_INTERVALS, _MOST_FOR_LOSS = 24, 1000
"""More parameters than the first make a picture nobody reads; more observations than the second
make it slow.
"""


def _comparable(evidence: Evidence) -> bool:
    """Whether the parameters are of sizes that one axis can show."""
    ends = np.array(list(evidence.fit.conf_int(evidence.alpha).values()))
    widths = ends[:, 1] - ends[:, 0]
    return bool(np.isfinite(ends).all() and np.ptp(ends) < 200 * widths.min())


def of_influence(evidence: Evidence) -> Iterator[str]:
    """The influence function of one variable, and what each observation did."""
    fit = evidence.fit
    if evidence.shifts is None:
        return
    if fit.d == 1 and len(fit.names) <= 4 and evidence.robustness is not None:

        def curve(ax: Any) -> None:
            plot.influence(fit, evidence.sample, ax=ax).set(
                xlabel=evidence.columns[0], ylabel="influence"
            )

        yield draw_figure(
            "influence",
            "What one more observation would do to each estimate, by its value; the data are the strokes below.",
            on_axes(curve),
        )
    caption = "How far each observation moved the estimate that it moved most, in standard errors."
    yield draw_figure("shifts", caption, on_axes(lambda ax: _shifts(evidence, ax)))


def _shifts(evidence: Evidence, ax: Any) -> None:
    size, rows = evidence.largest, evidence.most_influential(_MOST_STEMS)
    if len(rows) < len(size):
        rows = np.union1d(rows, np.linspace(0, len(size) - 1, _MOST_STEMS).astype(int))
    numbers = evidence.numbers
    if len(rows) == len(size):
        ax.vlines(numbers[rows], 0, size[rows], color=canvas.BLUE, linewidth=1)
    ax.plot(numbers[rows], size[rows], "o", color=canvas.BLUE, markersize=2.5)
    top = evidence.most_influential(1)[0]
    at = (float(numbers[top]), float(size[top]))
    ax.annotate(
        f"row {numbers[top]}", at, (0, 4), textcoords="offset points", ha="center", fontsize=9
    )
    margin = 0.02 * (np.ptp(numbers) + 1) + 0.5
    ax.set(
        xlabel="row",
        ylabel="standard errors",
        xlim=(numbers.min() - margin, numbers.max() + margin),
    )
    ax.set_ylim(0, 1.15 * max(float(size.max()), 1e-12))


_MOST_STEMS = 300


def of_comparison(evidence: Evidence) -> Iterator[str]:
    """Efficiency against robustness."""
    found = evidence.comparison
    if found is not None:
        draw = on_axes(lambda ax: plot.efficiency(found, ax=ax))
        yield draw_figure(
            "comparison", "Efficiency against robustness: the best is at the top left.", draw
        )


def of_search(evidence: Evidence) -> Iterator[str]:
    """The loss at each step, where there were several."""
    losses = np.asarray(evidence.fit.trace, float)
    losses = losses[np.isfinite(losses)]
    if (losses > losses.min(initial=np.inf)).sum() > 1:
        yield draw_figure(
            "trace",
            "The loss at each step of the search.",
            on_axes(lambda ax: _trace(evidence, ax)),
        )


def _trace(evidence: Evidence, ax: Any) -> None:
    plot.trace(evidence.fit, ax=ax)
    if ax.get_yscale() == "log":
        ax.yaxis.set_major_formatter(
            lambda value, _: f"10{str(round(np.log10(value))).translate(_RAISED)}"
        )
        ax.yaxis.set_minor_formatter(lambda value, _: "")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def of_data(evidence: Evidence) -> Iterator[str]:
    """A histogram of each variable, where there are several or no density was drawn over it."""
    d = len(evidence.columns)
    if d == 1 and not evidence.discrete:
        return
    shown, across = min(d, _MOST_HISTOGRAMS), min(d, 3)
    down = -(-shown // across)

    def histograms(canvas: Any) -> None:
        for j, ax in enumerate(canvas.subplots(down, across, squeeze=False).flat):
            if j >= shown:
                ax.set_axis_off()
                continue
            _histogram(evidence, j, ax)
            ax.set_title(_short(evidence.columns[j]), fontsize=9)
            ax.spines["left"].set_visible(False)
            ax.set_yticks([])
            ax.tick_params(labelsize=8)

    more = "" if shown == d else f" The first {shown} of {d}."
    yield draw_figure(
        "histograms", f"Each variable by itself.{more}", histograms, (4.8, 1.15 * down + 0.2)
    )


_MOST_HISTOGRAMS = 12


def _histogram(evidence: Evidence, j: int, ax: Any) -> None:
    if evidence.discrete:
        values, counts = np.unique(evidence.x[:, j], return_counts=True)
        ax.bar(
            values, counts, 0.8 * np.diff(values).min(initial=2.0), color=canvas.BLUE, alpha=0.75
        )
        if len(values) <= _FEW_VALUES:
            ax.set_xticks(values)
        else:
            ax.locator_params(axis="x", nbins=3, integer=True)
        return
    seen = ranges.near(evidence.x[:, j : j + 1])[:, 0]
    ax.hist(seen, bins=ranges.histogram_edges(seen), color=canvas.BLUE, alpha=0.75)
    ax.locator_params(axis="x", nbins=3)


_FEW_VALUES = 4


def _short(text: str, most: int = 18) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
