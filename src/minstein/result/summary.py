"""A fit as a table: fixed-width text, Markdown, LaTeX, HTML, or a data frame."""

import html
import importlib
from typing import Any, NamedTuple


class Summary(NamedTuple):
    """What a fit says, ready to be printed. It holds numbers and words only."""

    title: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        label = max([len(name) for name, _ in self.rows] + [0])
        widths = [max(11, len(column) + 2) for column in self.columns]
        rule = "─" * (label + sum(widths))
        fact = max(len(name) for name, _ in self.facts)
        head = [f"{name + ':':<{fact + 2}}{value}" for name, value in self.facts]
        titles = " " * label + "".join(
            f"{column:>{width}}" for column, width in zip(self.columns, widths, strict=True)
        )
        body = [
            f"{name:<{label}}"
            + "".join(f"{number(v):>{width}}" for v, width in zip(values, widths, strict=True))
            for name, values in self.rows
        ]
        return "\n".join([self.title, rule, *head, rule, titles, *body, rule, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def to_markdown(self) -> str:
        """A Markdown table, with the facts as a list above and the notes below it."""
        head = [
            f"**{_plain(self.title)}**",
            "",
            *(f"- {name}: {_plain(value)}" for name, value in self.facts),
            "",
        ]
        table = [_bars(["", *self.columns]), _bars(["---", *["---:"] * len(self.columns)])]
        body = [_bars([f"`{name}`", *map(number, values)]) for name, values in self.rows]
        return "\n".join([*head, *table, *body, "", *map(_plain, self.notes)]).rstrip()

    def to_latex(self) -> str:
        """A tabular environment, with the facts and notes as rows across it."""
        width = len(self.columns) + 1
        across = lambda text: rf"\multicolumn{{{width}}}{{l}}{{{_tex(text)}}} \\"
        head = [
            across(self.title),
            *(across(f"{name}: {value}") for name, value in self.facts),
            r"\hline",
        ]
        titles = " & ".join(["", *map(_tex, self.columns)]) + r" \\ \hline"
        body = [
            " & ".join([_tex(name), *map(number, values)]) + r" \\" for name, values in self.rows
        ]
        feet = [r"\hline", *map(across, self.notes)]
        columns = "l" + "r" * len(self.columns)
        return "\n".join(
            [rf"\begin{{tabular}}{{{columns}}}", *head, titles, *body, *feet, r"\end{tabular}"]
        )

    def to_html(self) -> str:
        """A table element; everything that came from the user is escaped."""
        cell = lambda text, tag="td": f"<{tag}>{html.escape(text)}</{tag}>"
        head = "".join(
            f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>"
            for name, value in self.facts
        )
        titles = "".join(cell(column, "th") for column in ("", *self.columns))
        body = "".join(
            f"<tr>{cell(name, 'th')}{''.join(cell(number(v)) for v in values)}</tr>"
            for name, values in self.rows
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="minstein"><h3>{html.escape(self.title)}</h3><dl>{head}</dl>{table}{notes}</div>'

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each parameter; needs pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as reason:
            raise ImportError(
                "to_frame needs pandas, which is not installed: pip install pandas."
            ) from reason
        values = [list(values) for _, values in self.rows]
        return pandas.DataFrame(
            values, index=[name for name, _ in self.rows], columns=list(self.columns)
        )


def number(value: float) -> str:
    """Four significant digits, or a dash where there is no number."""
    return "–" if value != value else f"{value:.4g}"


def _bars(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text that Markdown takes as it is."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|" else c for c in text)


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c) or ("\\" + c if c in "&%$#_{}" else c) for c in text)
