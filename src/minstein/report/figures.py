"""The pictures of a report, as SVG that takes its colours and its font from the page."""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..inference.efficiency import Comparison
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
"""The colours of the drawings, and the names of the colours of the page that replace them."""

_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_SMALL = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize")
_OFF = ("axes.spines.top", "axes.spines.right", "axes.formatter.use_mathtext", "text.parse_math")
_RC: dict[Any, Any] = {
    **dict.fromkeys(_INKED, INK),
    **dict.fromkeys(("font.size", "axes.labelsize"), 10),
    **dict.fromkeys(_SMALL, 9),
    **dict.fromkeys(_OFF, False),
    "axes.linewidth": 0.7,
    "path.simplify_threshold": 0.3,
    "svg.fonttype": "none",
}
"""The settings of matplotlib for drawings whose text is text of the page."""


def draw_figure(
    name: str,
    caption: str,
    draw: Callable[[Any], None],
    size: tuple[float, float] = (4.8, 3.1),
    grid: tuple[int, int] | None = None,
) -> str:
    """A figure element. `draw` is given Axes, whose title is dropped because the caption says it; or
    an array of Axes if there is a grid of them. The state of pyplot is not touched.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise ImportError("A report needs matplotlib: pip install 'minstein[plots]'.") from reason
    buffer = io.BytesIO()
    with matplotlib.rc_context({**_RC, "svg.hashsalt": name}), warnings.catch_warnings():
        # the page's font may have glyphs that matplotlib's lacks
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        drawing = Figure(size, layout="constrained")
        axes = drawing.subplots(*grid or (1, 1), squeeze=False)
        draw(axes if grid else axes[0, 0])
        if not grid:
            axes[0, 0].set_title("")
        for ax in axes.flat:
            ax.patch.set_visible(False)
        blank = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        drawing.savefig(buffer, format="svg", metadata=blank, transparent=True)
    return figure(inline(buffer.getvalue(), name, caption), caption)


_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def inline(svg: bytes, name: str, caption: str) -> str:
    """An SVG document as an element of a page, with ids of its own, the page's colours and font, and
    a label for screen readers.
    """
    root = ET.fromstring(svg)
    for element in root.iter():
        element.tag = element.tag.replace(f"{{{_SVG}}}", "")
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.attrib[key.replace(f"{{{_LINK}}}", "")] = _own(name, key, value)
    values = (value for element in root.iter() for value in element.attrib.values())
    used = {match for value in values for match in _USED.findall(value)}
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
        for colour, ours in _COLOURS.items():
            value = value.replace(colour, f"var(--{ours})")
        value = re.sub(r"font: [^;]*?([\d.]+px)[^;]*", r"font-size: \1", value)
        return re.sub(r"font-family: [^;]+;?", "", value)
    return value.replace("url(#", f"url(#{name}-")


def of_fit(evidence: Evidence) -> Iterator[str]:
    """The data with the fitted density, if it can be drawn."""
    fit = evidence.fit
    if fit.d > 2 or evidence.discrete or not np.isfinite(fit.theta).all():
        return

    def density(ax: Any) -> None:
        plot.density(fit, evidence.x, ax=ax)
        for name, label in zip("xy", evidence.columns, strict=False):
            ax.set(**{f"{name}label": label})

    what = "The data as a histogram, the fit as a line"
    what = what if fit.d == 1 else "Contours of the fitted density over the data"
    where = "" if fit.converged else ", at the values where the search stopped"
    far = int(ranges.is_far(evidence.x).sum())
    count = f"{far} observation{'s' if far > 1 else ''}"
    beyond = f" Very far out and not shown: {count}." if far else ""
    caption = f"{what}{where}. Normalised over the range shown.{beyond}"
    yield draw_figure("density", caption, density)


def of_estimates(evidence: Evidence) -> Iterator[str]:
    """Intervals, and the loss around the minimum."""
    fit, p = evidence.fit, len(evidence.fit.names)
    if not evidence.has_errors:
        return
    if 3 <= p <= _MOST_INTERVALS and _comparable(evidence):
        caption = f"Estimates with {evidence.level} intervals."
        draw = lambda ax: plot.intervals(fit, alpha=evidence.alpha, ax=ax)
        yield draw_figure("intervals", caption, draw, (4.8, min(0.42 * p + 0.9, 9)))
    if fit.n <= _MOST_FOR_LOSS:
        held = ", the other parameters held" if p > 2 else ""
        caption = f"The loss around its minimum{held}, with the estimate and 95\N{NO-BREAK SPACE}% intervals."
        points = 41 if p == 1 else 17
        draw = lambda ax: plot.loss(fit, evidence.sample, points=points, ax=ax)
        yield draw_figure("loss", caption, draw)


_MOST_INTERVALS, _MOST_FOR_LOSS = 24, 1000
"""The most parameters whose intervals are drawn, so that the picture can be read, and the most
observations for which the loss is drawn, which takes long.
"""


def _comparable(evidence: Evidence) -> bool:
    """Whether one axis can show the intervals of all parameters."""
    ends = np.array(list(evidence.fit.conf_int(evidence.alpha).values()))
    widths = ends[:, 1] - ends[:, 0]
    return bool(np.isfinite(ends).all() and np.ptp(ends) < 200 * widths.min())


def of_influence(evidence: Evidence) -> Iterator[str]:
    """The influence function of one variable, and how far each observation moved the estimates."""
    fit = evidence.fit
    if evidence.shifts is None:
        return
    if fit.d == 1 and len(fit.names) <= 4 and evidence.robustness is not None:

        def curve(ax: Any) -> None:
            plot.influence(fit, evidence.sample, ax=ax)
            ax.set(xlabel=evidence.columns[0], ylabel="influence")

        caption = "What one more observation would do to each estimate, by its value; the strokes below are the data."
        yield draw_figure("influence", caption, curve)
    caption = "How far each observation moved the estimate that it moved most, in standard errors."
    yield draw_figure("shifts", caption, lambda ax: _shifts(evidence, ax))


def _shifts(evidence: Evidence, ax: Any) -> None:
    size, numbers = evidence.largest, evidence.numbers
    rows = evidence.most_influential(_MOST_STEMS)
    top, draws_all = rows[0], len(rows) == len(size)
    if draws_all:
        ax.vlines(numbers[rows], 0, size[rows], color=canvas.BLUE, linewidth=1)
    else:
        rows = np.union1d(rows, np.linspace(0, len(size) - 1, _MOST_STEMS).astype(int))
    ax.plot(numbers[rows], size[rows], "o", color=canvas.BLUE, markersize=2.5)
    at = (float(numbers[top]), float(size[top]))
    above = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center"}
    ax.annotate(f"row {numbers[top]}", at, fontsize=9, **above)
    margin = 0.02 * (np.ptp(numbers) + 1) + 0.5
    ax.set(xlabel="row", ylabel="standard errors")
    ax.set_xlim(numbers.min() - margin, numbers.max() + margin)
    ax.set_ylim(0, 1.15 * max(float(size.max()), 1e-12))


_MOST_STEMS = 300
"""The most rows that are drawn because of their influence; as many again show the others."""


def of_comparison(found: Comparison) -> Iterator[str]:
    """Efficiency against robustness."""
    caption = "Efficiency against robustness: the best is at the top left."
    yield draw_figure("comparison", caption, lambda ax: plot.efficiency(found, ax=ax))


def of_search(evidence: Evidence) -> Iterator[str]:
    """The loss at each step, if there were several."""
    losses = np.asarray(evidence.fit.trace, float)
    losses = losses[np.isfinite(losses)]
    if (losses > losses.min(initial=np.inf)).sum() > 1:
        caption = "The loss at each step of the search."
        yield draw_figure("trace", caption, lambda ax: _trace(evidence, ax))


def _trace(evidence: Evidence, ax: Any) -> None:
    plot.trace(evidence.fit, ax=ax)
    if ax.get_yscale() == "log":
        power = lambda value: str(round(np.log10(value))).translate(_RAISED)
        ax.yaxis.set_major_formatter(lambda value, _: f"10{power(value)}")
        ax.yaxis.set_minor_formatter(lambda value, _: "")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def of_data(evidence: Evidence) -> Iterator[str]:
    """A histogram of each variable, unless the fitted density is drawn over the only one."""
    d = len(evidence.columns)
    if d == 1 and not evidence.discrete:
        return
    shown, across = min(d, _MOST_HISTOGRAMS), min(d, 3)
    down = -(-shown // across)

    def histograms(axes: np.ndarray) -> None:
        for ax in axes.flat[shown:]:
            ax.set_axis_off()
        for j, ax in enumerate(axes.flat[:shown]):
            _histogram(evidence, j, ax)
            ax.set_title(_short(evidence.columns[j]), fontsize=9)
            ax.spines["left"].set_visible(False)
            ax.set_yticks([])
            ax.tick_params(labelsize=8)

    caption = "Each variable on its own." + ("" if shown == d else f" The first {shown} of {d}.")
    yield draw_figure("histograms", caption, histograms, (4.8, 1.15 * down + 0.2), (down, across))


_MOST_HISTOGRAMS = 12


def _histogram(evidence: Evidence, j: int, ax: Any) -> None:
    if not evidence.discrete:
        seen = ranges.near(evidence.x[:, j : j + 1])[:, 0]
        ax.hist(seen, bins=ranges.histogram_edges(seen), color=canvas.BLUE, alpha=0.75)
        ax.locator_params(axis="x", nbins=3)
        return
    values, counts = np.unique(evidence.x[:, j], return_counts=True)
    width = 0.8 * np.diff(values).min(initial=2.0)
    ax.bar(values, counts, width, color=canvas.BLUE, alpha=0.75)
    if len(values) <= _FEW_VALUES:
        ax.set_xticks(values)
    else:
        ax.locator_params(axis="x", nbins=3, integer=True)


_FEW_VALUES = 4
"""The most values of a discrete variable that are all marked on the axis."""


def _short(text: str, most: int = 18) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
