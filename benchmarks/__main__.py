"""The command: run the named cases, or all of them, one after another, each in a fresh process.

It prints a table, writes results/latest.json, and fails only where a number is wrong: a missed gate is a finding.
With --check it runs a few small cases and fails where a ratio is far from the committed one as well.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import check, markdown
from .cases import CASES
from .processes import ProcessError, json_lines, progress
from .publish import as_dicts, committed, publish
from .rows import Row
from .table import text, verdict

RESULTS = Path(__file__).parent / "results"

HELP = """Speed and memory of minstein, as CPU seconds and ratios, with every number checked against a reference.
Run it in a checkout. Cases:

{cases}

The table goes to the standard output, progress to the standard error, and all digits to
benchmarks/results/latest.json; `curve` also writes curve.png and curve.md there. The exit code is 1 where a number
is wrong or a case broke off; a missed gate is a finding and not a failure. Other packages are installed on first
use under .venv/peers; where one cannot be, a row says why and the run goes on."""


def main(names: Sequence[str], *, checked: bool = False, published: bool = False) -> int:
    results = [(name, row) for name in names for row in _rows(name)]
    _write(results)
    print(text(results))
    wrong = [f"{name}: {row.what}: {verdict(row)}" for name, row in results if not row.right]
    found = list(check.complaints(results, committed())) if checked else wrong
    for line in found:
        print(line, file=sys.stderr)
    if published and not found:
        publish(results, _about())
    return 1 if found else 0


def _rows(name: str) -> Iterator[Row]:
    """The rows of one case, or one that says why there are none."""
    progress(name)
    try:
        lines = json_lines(sys.executable, "benchmarks.cases", name, environment=CASES[name].environment)
    except ProcessError as reason:
        yield Row("the case broke off", note=str(reason), failed=True)
        return
    yield from map(Row.from_dict, lines)


def _about() -> dict[str, Any]:
    versions = {name: version(name) for name in ("minstein", "jax", "numpy")}
    return {"python": platform.python_version(), "cores": os.cpu_count(), **versions}


def _write(results: Sequence[tuple[str, Row]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps({**_about(), "rows": as_dicts(results)}, indent=1) + "\n")
    rows = [row for _, row in results]
    if any(row.at for row in rows):
        from .figure import draw

        draw(rows, RESULTS / "curve.png")
        (RESULTS / "curve.md").write_text(markdown.curves(results) + "\n")


def _arguments() -> argparse.Namespace:
    described = "\n".join(f"  {name:20}{case.what}" for name, case in CASES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=HELP.format(cases=described),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", nargs="*", help="which to run; all if none is given")
    small = f"run {', '.join(check.CASES)} and fail if a ratio is {check.FACTOR:g} times as bad as the committed one"
    parser.add_argument("--check", action="store_true", help=small)
    onto = "put the rows into committed.json, and make the tables and the figure of docs/benchmarks.md anew"
    parser.add_argument("--publish", action="store_true", help=onto)
    given = parser.parse_args()
    if unknown := set(given.case) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if given.check and (given.case or given.publish):
        parser.error("--check has its own cases and publishes nothing; leave out what else was given")
    return given


if __name__ == "__main__":
    given = _arguments()
    cases = check.CASES if given.check else given.case or list(CASES)
    sys.exit(main(cases, checked=given.check, published=given.publish))
