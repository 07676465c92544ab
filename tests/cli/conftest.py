from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from minstein_cli.app import app

PLACES = [Path(__file__).parents[2] / place for place in ("src/minstein/datasets", "examples/data")]
NEWCOMB = str(next(place / "newcomb.csv" for place in PLACES if (place / "newcomb.csv").exists()))


def newcomb() -> np.ndarray:
    lines = Path(NEWCOMB).read_text(encoding="utf-8").splitlines()
    return np.array([line for line in lines if not line.startswith("#")][1:], float)


@pytest.fixture
def minstein(tmp_path, monkeypatch):
    """Run a command in an empty directory, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, prog_name="minstein")

    return run
