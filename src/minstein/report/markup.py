"""HTML from text: whatever enters a page is escaped here."""

import html
from collections.abc import Iterable

from .._text import clean as clean


def safe(text: str) -> str:
    """Text as HTML."""
    return html.escape(clean(text))


def tag(name: str, *parts: str, **attributes: str) -> str:
    """An element around parts that are HTML already; `class_` and `aria_label` stand for class and
    aria-label.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{words}>{''.join(parts)}</{name}>"


def paragraph(text: str, **attributes: str) -> str:
    return tag("p", safe(text), **attributes)


def preformatted(text: str) -> str:
    """Text whose line breaks count."""
    lines = (safe(line) for line in text.splitlines())
    return tag("pre", tag("code", "\n".join(lines)), tabindex="0")


def listing(items: Iterable[str], **attributes: str) -> str:
    """A list of texts."""
    return tag("ul", *(tag("li", safe(item)) for item in items), **attributes)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names with their values."""
    return tag(
        "dl", *(tag("div", tag("dt", safe(name)), tag("dd", safe(value))) for name, value in pairs)
    )


def table(
    caption: str,
    columns: Iterable[str],
    rows: Iterable[tuple[str, Iterable[str]]],
    *,
    corner: str = "",
) -> str:
    """A table with a name for each row and column, in a box that scrolls sideways where the screen
    is narrow.
    """
    head = [tag("th", safe(corner), scope="col")] if corner else [tag("td")]
    head += [tag("th", safe(column), scope="col") for column in columns]
    body = (
        tag("tr", tag("th", safe(name), scope="row"), *(tag("td", safe(cell)) for cell in cells))
        for name, cells in rows
    )
    inner = tag(
        "table", tag("caption", safe(caption)), tag("thead", tag("tr", *head)), tag("tbody", *body)
    )
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def fold(title: str, *parts: str, long: bool = False) -> str:
    """Something that is unfolded on demand, and in print unless it is long."""
    return tag(
        "details", tag("summary", safe(title)), *parts, **({"class_": "long"} if long else {})
    )


def figure(svg: str, caption: str) -> str:
    return tag("figure", svg, tag("figcaption", safe(caption)))


def section(name: str, title: str, *parts: str) -> str:
    """A part of the page with its heading; empty where it has nothing to say."""
    return tag(
        "section",
        tag("h2", safe(title), id=f"{name}-title"),
        *parts,
        id=name,
        aria_labelledby=f"{name}-title",
    )
