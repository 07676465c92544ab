"""What every picture is drawn with: Axes, colours, and texts without formulas."""

from typing import Any

from .._text import clean

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.55"
"""Colours that the colour-blind can tell apart."""


def axes_of(ax: Any) -> Any:
    """Return these Axes, or those of a new figure if None."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as reason:
        raise ImportError("Plots need matplotlib: pip install 'minstein[plots]'.") from reason
    return plt.subplots(layout="constrained")[1]


def colours() -> tuple[str, ...]:
    """The colours of successive curves."""
    return (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000") * 5


def labels(names: tuple[str, ...]) -> list[str]:
    """The names of parameters as a picture shows them."""
    return [clean(name) for name in names]


def draw_verbatim(texts: list) -> None:
    """Have matplotlib draw texts verbatim, instead of reading a dollar sign as the beginning of a
    formula.
    """
    for text in texts:
        text.set_parse_math(False)
