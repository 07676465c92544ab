"""A fit as a table: fixed-width text, Markdown, LaTeX, HTML, or a data frame."""

import html
import importlib
from typing import Any, NamedTuple


class Summary(NamedTuple):
    """A summary of a fit, ready to be printed. It holds only numbers and words."""

    title: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        label = max((len(name) for name, _ in self.rows), default=0)
        fact = max(len(name) for name, _ in self.facts)
        widths = [max(11, len(column) + 2) for column in self.columns]
        rule = "─" * (label + sum(widths))
        line = lambda name, cells: f"{name:<{label}}" + "".join(map(str.rjust, cells, widths))
        head = [f"{name + ':':<{fact + 2}}{value}" for name, value in self.facts]
        body = [line(name, map(number, values)) for name, values in self.rows]
        titles = line("", self.columns)
        return "\n".join([self.title, rule, *head, rule, titles, *body, rule, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def to_markdown(self) -> str:
        """A Markdown table, with the facts as a list above it and the notes below."""
        line = lambda cells: f"| {' | '.join(cells)} |"
        facts = [f"- {name}: {_plain(value)}" for name, value in self.facts]
        head = [line(["", *self.columns]), line(["---", *["---:"] * len(self.columns)])]
        body = [line([f"`{name}`", *map(number, values)]) for name, values in self.rows]
        notes = map(_plain, self.notes)
        title = f"**{_plain(self.title)}**"
        return "\n".join([title, "", *facts, "", *head, *body, "", *notes]).rstrip()

    def to_latex(self) -> str:
        """A tabular environment, with the facts and notes as rows across it."""
        width = len(self.columns) + 1
        across = lambda text: rf"\multicolumn{{{width}}}{{l}}{{{_tex(text)}}} \\"
        line = lambda cells: " & ".join(cells) + r" \\"
        facts = [across(f"{name}: {value}") for name, value in self.facts]
        titles = line(["", *map(_tex, self.columns)]) + r" \hline"
        body = [line([_tex(name), *map(number, values)]) for name, values in self.rows]
        notes = map(across, self.notes)
        begin = rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}"
        lines = [begin, across(self.title), *facts, r"\hline", titles, *body, r"\hline", *notes]
        return "\n".join([*lines, r"\end{tabular}"])

    def to_html(self) -> str:
        """A table element; everything that came from the user is escaped."""
        cell = lambda text, tag: f"<{tag}>{html.escape(text)}</{tag}>"
        join = lambda cells: "".join(cells)
        facts = join(cell(name, "dt") + cell(value, "dd") for name, value in self.facts)
        titles = join(cell(column, "th") for column in ("", *self.columns))
        body = join(
            f"<tr>{cell(name, 'th')}{join(cell(number(v), 'td') for v in values)}</tr>"
            for name, values in self.rows
        )
        notes = join(cell(note, "p") for note in self.notes)
        table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="minstein">{cell(self.title, "h3")}<dl>{facts}</dl>{table}{notes}</div>'

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
        names, values = [name for name, _ in self.rows], [values for _, values in self.rows]
        return pandas.DataFrame(values, index=names, columns=list(self.columns))


def number(value: float) -> str:
    """Four significant digits, or a dash for NaN."""
    return "–" if value != value else f"{value:.4g}"


def _plain(text: str) -> str:
    """Text with the special characters of Markdown escaped."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|" else c for c in text)


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}


def _tex(text: str) -> str:
    """Text with the special characters of LaTeX escaped."""
    return "".join(_TEX.get(c) or ("\\" + c if c in "&%$#_{}" else c) for c in text)
