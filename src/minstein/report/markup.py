"""HTML from text: everything that enters a page is escaped here."""

import html
from collections.abc import Iterable

from .._text import clean as clean


def safe(text: str) -> str:
    """Text as HTML."""
    return html.escape(clean(text))


def tag(name: str, *parts: str, **attributes: str) -> str:
    """An element around parts that are already HTML; `class_` and `aria_label` stand for class and
    aria-label.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{words}>{''.join(parts)}</{name}>"


def paragraph(text: str, **attributes: str) -> str:
    return tag("p", safe(text), **attributes)


def preformatted(text: str) -> str:
    """Text that keeps its line breaks."""
    lines = (safe(line) for line in text.splitlines())
    return tag("pre", tag("code", "\n".join(lines)), tabindex="0")


def listing(items: Iterable[str], **attributes: str) -> str:
    """A list of texts."""
    return tag("ul", *(tag("li", safe(item)) for item in items), **attributes)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names with their values."""
    rows = (tag("div", tag("dt", safe(name)), tag("dd", safe(value))) for name, value in pairs)
    return tag("dl", *rows)


def table(
    caption: str, corner: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]
) -> str:
    """A table with a name for each row and column, in a box that scrolls sideways if the screen is
    narrow. `corner` is the heading of the row names.
    """
    head = [tag("th", safe(corner), scope="col") if corner else tag("td")]
    head += [tag("th", safe(column), scope="col") for column in columns]
    body = (
        tag("tr", tag("th", safe(name), scope="row"), *(tag("td", safe(cell)) for cell in cells))
        for name, cells in rows
    )
    parts = tag("caption", safe(caption)), tag("thead", tag("tr", *head)), tag("tbody", *body)
    box = {"class_": "scroll", "tabindex": "0", "role": "region", "aria_label": caption}
    return tag("div", tag("table", *parts), **box)


def fold(title: str, *parts: str, **attributes: str) -> str:
    """Parts that the reader unfolds, and that are printed unless their class is "long"."""
    return tag("details", tag("summary", safe(title)), *parts, **attributes)


def figures(drawn: Iterable[str]) -> str:
    """Figures, side by side if there is room."""
    return tag("div", *drawn, class_="figures")


def figure(svg: str, caption: str) -> str:
    return tag("figure", svg, tag("figcaption", safe(caption)))


def section(name: str, title: str, *parts: str) -> str:
    """A part of the page with its heading."""
    heading = f"{name}-title"
    head = tag("h2", safe(title), id=heading)
    return tag("section", head, *parts, id=name, aria_labelledby=heading)
