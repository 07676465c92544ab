"""The committed results: committed.json, and the tables and the figure of docs/benchmarks.md, made from it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import markdown
from .cases import CASES
from .processes import ROOT
from .rows import Row

COMMITTED = Path(__file__).parent / "committed.json"
PAGE, FIGURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "figures" / "benchmarks.png"

Results = Sequence[tuple[str, Row]]


def committed() -> list[tuple[str, Row]]:
    return [(row["case"], Row.from_dict(row)) for row in _read()["rows"]]


def publish(results: Results, about: dict[str, Any]) -> None:
    """Put the rows of these cases in the place of those that were committed, and make page and figure anew."""
    from .figure import draw

    anew = {case for case, _ in results}
    kept = [row for row in _read()["rows"] if row["case"] not in anew]
    rows = sorted([*kept, *as_dicts(results)], key=lambda row: list(CASES).index(row["case"]))
    COMMITTED.write_text(json.dumps({**about, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    everything = committed()
    text = PAGE.read_text()
    for name, table in (("gates", markdown.gates(everything)), ("curves", markdown.curves(everything))):
        text = replaced(text, name, table)
    PAGE.write_text(text)
    if any(row.at for _, row in results):
        draw([row for _, row in everything], FIGURE)


def as_dicts(results: Results) -> list[dict[str, Any]]:
    return [{"case": case, **row.as_dict()} for case, row in results]


def replaced(page: str, name: str, table: str) -> str:
    """The page with a table between the comments `name` and `end of name`."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    return re.sub(f"{start}.*{end}", lambda _: f"{start}\n\n{table}\n\n{end}", page, flags=re.DOTALL)


def _read() -> dict[str, Any]:
    return json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {"rows": []}
