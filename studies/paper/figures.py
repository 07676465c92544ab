"""How the figures look: for print, and for the colour-blind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ..replacing import replacing

BLACK, ORANGE, BLUE, GREEN, PINK, SKY, YELLOW = (
    "#000000",
    "#D55E00",
    "#0072B2",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
)
"""The colours of Okabe and Ito; lines differ in style too."""

LINES = (
    (BLUE, "-"),
    (ORANGE, "--"),
    (GREEN, "-."),
    (PINK, ":"),
    (BLACK, (0, (5, 1, 1, 1, 1, 1))),
    (SKY, (0, (1, 1))),
)

_STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "svg.hashsalt": "minstein",
    "svg.fonttype": "none",
}


@contextmanager
def drawing(
    directory: Path,
    name: str,
    columns: int,
    rows: int = 1,
    *,
    width: float = 2.5,
    height: float = 2.8,
) -> Iterator[Any]:
    """Axes to draw on, saved as name.png and name.svg in the end."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        yield figure.subplots(rows, columns, squeeze=False)
        for kind, metadata in (("png", None), ("svg", {"Date": None})):
            with replacing(directory / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=200, metadata=metadata)


def lines(ax: Any, x: np.ndarray, curves: dict[str, np.ndarray]) -> None:
    """Curves with names, each in a colour and style of its own."""
    for (name, y), (colour, style) in zip(curves.items(), LINES * 3, strict=False):
        ax.plot(x, y, color=colour, linestyle=style, label=name)


def legend(ax: Any) -> None:
    """A legend under the panel, where it hides nothing."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24))


def ticks(ax: Any, values: np.ndarray) -> None:
    """A tick at each value of a logarithmic axis, in plain numbers, and none between."""
    ax.set_xticks(values, [f"{value:g}" for value in values], minor=False)
    ax.xaxis.set_minor_locator(NullLocator())


def unit(values: np.ndarray) -> np.ndarray:
    """A loss shifted and scaled to run from 0 to 1, so that losses of different units share a panel."""
    low, high = np.nanmin(values), np.nanmax(values)
    return (values - low) / ((high - low) or 1.0)


def truth(ax: Any, value: float) -> None:
    ax.axvline(value, color="0.6", linewidth=0.8, linestyle=":")


def bars(
    ax: Any,
    names: list[str],
    values: list[float],
    errors: list[float],
    reference: float | None = None,
) -> None:
    """Horizontal dots with their Monte-Carlo errors on a logarithmic axis, the first name on top."""
    rows = np.arange(len(names))[::-1]
    ax.errorbar(values, rows, xerr=2 * np.asarray(errors), fmt="o", color=BLUE, markersize=3.5, elinewidth=1)
    if reference is not None:
        ax.axvline(reference, color=ORANGE, linestyle="--", linewidth=1)
    ax.set_yticks(rows, names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xscale("log")
