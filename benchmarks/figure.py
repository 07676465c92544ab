"""CPU time against n, as a figure for print: two panels, colours that differ for everybody, a marker for each line."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from .rows import Row

STYLES = {
    "minstein": ("#000000", "o", 2.4),
    "minstein, every pair": ("#000000", "", 1.2),
    "NumPy, blocked": ("#0072B2", "s", 1.2),
    "NumPy, n × n × d": ("#56B4E9", "D", 1.2),
    "numba, one thread": ("#009E73", "^", 1.2),
    "C, one thread": ("#009E73", "", 1.2),
    "JAX, autodiff of pairs": ("#D55E00", "v", 1.2),
    "coreax": ("#CC79A7", "P", 1.2),
    "goodpoints": ("#E69F00", "X", 1.2),
    "ksd-metric": ("#8C510A", "<", 1.2),
    "stein-thinning": ("#7F7F7F", ">", 1.2),
}
"""Colour (after Okabe and Ito), marker and width of each line."""


def draw(rows: Sequence[Row], path: Path) -> None:
    """The curves of all rows that have a place on one."""
    points = [row for row in rows if row.at is not None and row.time is not None]
    dimensions = sorted({row.at.d for row in points})
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure, panels = plt.subplots(1, len(dimensions), figsize=(8, 4.4), sharey=True, squeeze=False)
        for d, panel in zip(dimensions, panels[0], strict=True):
            _panel(panel, d, [row for row in points if row.at.d == d])
        panels[0, 0].set_ylabel("CPU seconds of one call")
        handles = {line.get_label(): line for panel in panels[0] for line in panel.get_lines()}
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
        figure.set_layout_engine("constrained")
        figure.savefig(path, dpi=160, metadata={"Software": None})
    plt.close(figure)


def _panel(panel: Axes, d: int, rows: Sequence[Row]) -> None:
    for name, (colour, marker, width) in STYLES.items():
        curve = sorted((row.at.n, row.time.cpu) for row in rows if row.at.name == name)
        style = {"linestyle": "-" if marker else "--", "marker": marker or None, "markersize": 4.5}
        if curve:
            panel.loglog(*zip(*curve, strict=True), color=colour, linewidth=width, label=name, **style)
    panel.set(title=f"d = {d}", xlabel="observations n")
    panel.grid(True, which="major", linewidth=0.4, color="0.85")
