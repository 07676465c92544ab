"""The page around the parts: one file that needs no network and runs no script."""

from importlib import resources

from . import sections, words
from .evidence import Evidence
from .markup import paragraph, safe, tag

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for this page: nothing except the styles in it, whatever the data
contain.
"""


def page(
    evidence: Evidence,
    *,
    title: str | None,
    command: str | None,
    seed: int | None,
    notes: tuple[str, ...],
) -> str:
    """The report as an HTML document."""
    title = evidence.fit.summary(evidence.alpha).title if title is None else title
    parts = [
        sections.cautions(evidence, notes),
        sections.estimates(evidence),
        sections.influence(evidence),
        sections.bootstrap(evidence),
        sections.comparison(evidence),
        sections.data(evidence),
        sections.search(evidence),
        sections.method(evidence),
        sections.reproduction(evidence, command, seed),
    ]
    body = tag("main", _header(evidence, title), *parts)
    made = "Made by minstein, which fits models that are known only up to a constant."
    foot = tag("footer", paragraph(made))
    style = resources.files("minstein.report").joinpath("style.css").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{safe(_POLICY)}">'
        f"<title>{safe(title)}</title><style>\n{style}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}{foot}</body></html>\n'
    )


def _header(evidence: Evidence, title: str) -> str:
    converged = bool(evidence.fit.converged)
    parts = [
        paragraph(words.outcome(evidence), class_=f"badge {'good' if converged else 'bad'}"),
        tag("h1", safe(title)),
        paragraph(words.introduction(evidence), class_="lede"),
    ]
    if converged:
        return tag("header", *parts, sections.numbers(evidence))
    alarm = [paragraph(text) for text in (evidence.fit.message, words.advice(evidence)) if text]
    return tag("header", *parts, tag("div", *alarm, class_="alarm", role="alert"))
