"""One page with everything: as Markdown, and as HTML that needs no network and runs no script."""

import csv
import html
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..replacing import write_text
from .catalogue import Experiment
from .claim import Claim, Erratum, Findings, Table

TITLE = "Minimum Stein Discrepancy Estimators, reproduced"
CLAIMS = ("claim", "what the paper says", "measured (± one Monte-Carlo standard error)", "verdict")
ERRATA = ("", "printed", "right", "printed gives", "right gives", "observed")


def write_table(directory: Path, table: Table) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    write_text(directory / f"{table.name}.csv", text.getvalue())


def write_page(directory: Path, about: str, findings: Mapping[Experiment, Findings]) -> None:
    write_text(directory / "index.md", _markdown(about, findings))
    write_text(directory / "index.html", _html(about, findings))


def claim_rows(claims: Iterable[Claim]) -> list[tuple[str, ...]]:
    return [(claim.name, claim.says, claim.measured, str(claim.verdict)) for claim in claims]


def _errata_rows(errata: Iterable[Erratum]) -> list[tuple[str, ...]]:
    return [(e.name, e.printed, e.right, e.gives, e.instead, e.observed) for e in errata]


def _every_claim(findings: Mapping[Experiment, Findings]) -> list[Claim]:
    return [claim for found in findings.values() for claim in found.claims]


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable]) -> str:
    line = lambda cells: "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
    columns = list(columns)
    return "\n".join([line(columns), line(["---"] * len(columns)), *map(line, rows)])


def _markdown(about: str, findings: Mapping[Experiment, Findings]) -> str:
    parts = [
        f"# {TITLE}",
        about,
        "## Verdicts",
        markdown_table(CLAIMS, claim_rows(_every_claim(findings))),
    ]
    for experiment, found in findings.items():
        parts += [f"## {experiment.title}", found.text]
        parts += [f"![{p.caption}]({p.name}.png)\n\n{p.caption}" for p in found.pictures]
        parts += [markdown_table(CLAIMS, claim_rows(found.claims))] if found.claims else []
        parts += [markdown_table(ERRATA, _errata_rows(found.errata))] if found.errata else []
        parts += [
            f"**{t.title}** ([{t.name}.csv]({t.name}.csv))\n\n{markdown_table(t.columns, t.rows)}" for t in found.tables
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tag(name: str, *parts: str, **attributes: str) -> str:
    words = "".join(f' {key.rstrip("_")}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<{name}{words}>{''.join(parts)}</{name}>"


def _text(name: str, text: object) -> str:
    return _tag(name, html.escape(str(text)))


def _html_table(columns: Iterable[str], rows: Iterable[Iterable], caption: str = "") -> str:
    head = _tag("thead", _tag("tr", *(_text("th", column) for column in columns)))
    body = _tag("tbody", *(_tag("tr", *(_text("td", cell) for cell in row)) for row in rows))
    return _tag("div", _tag("table", _text("caption", caption), head, body), class_="scroll")


def _html_section(experiment: Experiment, found: Findings) -> str:
    parts = [_text("h2", experiment.title), _text("p", found.text)]
    for p in found.pictures:
        image = f'<img src="{html.escape(p.name)}.svg" alt="{html.escape(p.caption)}">'
        parts.append(_tag("figure", image, _text("figcaption", p.caption)))
    parts += [_html_table(CLAIMS, claim_rows(found.claims))] if found.claims else []
    parts += [_html_table(ERRATA, _errata_rows(found.errata))] if found.errata else []
    parts += [_html_table(t.columns, t.rows, t.title) for t in found.tables]
    return _tag("section", *parts, id=experiment.name)


def _html(about: str, findings: Mapping[Experiment, Findings]) -> str:
    links = (_tag("li", _tag("a", html.escape(e.title), href=f"#{e.name}")) for e in findings)
    verdicts = _html_table(CLAIMS, claim_rows(_every_claim(findings)))
    sections = (_html_section(experiment, found) for experiment, found in findings.items())
    body = _tag(
        "main",
        _text("h1", TITLE),
        _text("p", about),
        _tag("ul", *links),
        _text("h2", "Verdicts"),
        verdicts,
        *sections,
    )
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        f"img-src 'self' file:\"><title>{html.escape(TITLE)}</title><style>{_STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


_STYLE = """
body { margin: 0; font: 100%/1.5 Charter, Cambria, Georgia, serif; color: #1d1f23; background: #fff; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem; }
section { border-top: 1px solid #ddd; margin-top: 2rem; }
table { border-collapse: collapse; font: .85rem/1.4 system-ui, sans-serif; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid #e5e5e5; }
.scroll { overflow-x: auto; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: .9rem; }
"""
