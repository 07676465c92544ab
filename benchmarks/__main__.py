"""The command: run the named cases, or all of them, one after another, each in a fresh process.

It prints a table, writes results/latest.json, and fails only where a number is wrong: a missed gate is a finding.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from .cases import CASES
from .processes import ProcessError, json_lines
from .rows import Row
from .table import text

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main(names: Sequence[str]) -> int:
    results = []
    for name in names:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        results += [(name, row) for row in _rows(name)]
    _write(results)
    print(text(results))
    return 0 if all(row.right for _, row in results) else 1


def _rows(name: str) -> Iterator[Row]:
    """The rows of one case, or one that says why there are none."""
    try:
        lines = json_lines(sys.executable, "benchmarks.cases", name, environment=CASES[name].environment)
    except ProcessError as reason:
        yield Row("the case broke off", note=str(reason), failed=True)
        return
    yield from map(Row.from_dict, lines)


def _write(results: Sequence[tuple[str, Row]]) -> None:
    about = {"python": platform.python_version(), "cores": os.cpu_count()}
    versions = {name: version(name) for name in ("minstein", "jax", "numpy")}
    RESULTS.parent.mkdir(exist_ok=True)
    rows = [{"case": case, **row.as_dict()} for case, row in results]
    RESULTS.write_text(json.dumps({**about, **versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and memory of minstein.")
    parser.add_argument("case", nargs="*", help=f"which to run, all if not given: {', '.join(CASES)}")
    chosen = parser.parse_args().case
    if unknown := set(chosen) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    sys.exit(main(chosen or list(CASES)))
