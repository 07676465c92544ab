"""What every picture is drawn with: Axes, colours, and text that is not read as formulas."""

from typing import Any

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.55"
"""Colours that colour-blind readers can tell apart."""

COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000") * 5
"""The colours of successive curves."""


def axes_of(ax: Any) -> Any:
    """Return these Axes, or those of a new figure if None."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as reason:
        raise ImportError("Plots need matplotlib: pip install 'minstein[plots]'.") from reason
    return plt.subplots(layout="constrained")[1]


def draw_verbatim(texts: list) -> None:
    """Have matplotlib draw texts verbatim, instead of reading a dollar sign as the beginning of a
    formula.
    """
    for text in texts:
        text.set_parse_math(False)
