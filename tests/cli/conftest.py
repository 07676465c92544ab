from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from minstein_cli.app import app

NEWCOMB = str(Path(__file__).parents[2] / "examples" / "data" / "newcomb.csv")


@pytest.fixture
def minstein(tmp_path, monkeypatch):
    """Run a command in an empty directory, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, prog_name="minstein")

    return run
