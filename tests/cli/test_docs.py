"""What docs/command-line.md says is printed is what is printed."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from .conftest import NEWCOMB

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def commands():
    """Each command of the page, with what follows it."""
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S):
        yield from re.findall(r"^\$ minstein (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)


@pytest.fixture
def files(tmp_path):
    shutil.copy(NEWCOMB, tmp_path / "newcomb.csv")
    (tmp_path / "gaps.csv").write_text("height,weight\n1.7,70\n,80\n1.8,\n1.6,NA\n1.9,90\n")
    (tmp_path / "quartic.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.S)[0])
    (tmp_path / "unit.csv").write_text("\n".join(map(str, np.linspace(-1, 1.1, 60))))


def words(text):
    """Words, and numbers to three digits."""
    return [float(f"{float(w):.3g}") if re.fullmatch(r"-?[\d.]+(e-?\d+)?", w) else w for w in text.split()]


@pytest.mark.slow
def test_the_page(minstein, files):
    found = list(commands())
    assert len(found) >= 8
    for command, printed in found:
        result = minstein(*shlex.split(command))
        assert words(result.output) == words(printed), command
