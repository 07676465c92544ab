"""What is written, where, and what is said of it when the command is told to end."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minstein as ms
from minstein_cli import outputs
from minstein_cli.problem import Problem

from .conftest import NEWCOMB

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and links as Unix has them")

FIT = ["fit", NEWCOMB, "-m", "gaussian", "-d", "sm"]
MAIN = (  # a shell that runs the tests in the background has told its children to ignore Ctrl-C
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{}\nfrom minstein_cli import main; main()"
)


def spawn(tmp_path: Path, arguments: list, before: str = "", **pipes) -> subprocess.Popen:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path.parent / "cache")}
    command = [sys.executable, "-c", MAIN.format(before), *map(str, arguments)]
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, **pipes)


@pytest.fixture(scope="module")
def fitted() -> ms.Fit:
    return ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())


def odd_paths(directory: Path) -> list[Path]:
    """A pipe, a link to it, and a link to nothing."""
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to("pipe")
    (directory / "dangling").symlink_to("nothing")
    return [directory / name for name in ("pipe", "link", "dangling")]


def test_only_regular_files_are_replaced(fitted, tmp_path):
    for path in odd_paths(tmp_path):
        with pytest.raises(ValueError, match=r"not a regular file|does not exist"):
            fitted.save(path)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dangling", "link", "pipe"]


def test_a_link_is_written_through(fitted, tmp_path):
    (tmp_path / "fit.json").write_text("earlier")
    (tmp_path / "latest.json").symlink_to("fit.json")
    fitted.save(tmp_path / "latest.json")
    assert (tmp_path / "latest.json").is_symlink()
    assert ms.load(tmp_path / "fit.json").params == fitted.params


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_the_command_refuses_them_before_the_work(minstein, tmp_path, monkeypatch, option):
    monkeypatch.setattr("minstein_cli.fitting.run", lambda request: pytest.fail("the work began"))
    for path in odd_paths(tmp_path):
        result = minstein(*FIT, option, path)
        assert result.exit_code == 2
        assert str(path) in result.stderr
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("arguments", [
    ["--save", "f", "--report", "f"],
    ["--save", "f", "--report", "./f"],
    ["--save", "there", "--report", "link"],
    ["--out", "o", "--save", "o/fit.json"],
    ["--out", "o", "--report", "o/minstein.sha256"],
])  # fmt: skip
def test_one_path_for_two_files_is_refused(minstein, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("minstein_cli.fitting.run", lambda request: pytest.fail("the work began"))
    (tmp_path / "there").write_text("earlier")
    (tmp_path / "link").symlink_to("there")
    result = minstein(*FIT, *arguments)
    assert result.exit_code == 2
    assert "are the same file" in result.stderr


def test_the_file_of_the_model_is_not_written_over(minstein, tmp_path):
    (tmp_path / "mine.py").write_text("def log_p(params, x):\n    return -((x[0] - params['a']) ** 2)\n")
    result = minstein("fit", NEWCOMB, "-m", "mine.py:log_p", "--start", "a=0", "--save", "mine.py")
    assert result.exit_code == 2
    assert "mine.py is the model file" in result.stderr


def written(directory: Path, names: dict[str, str]) -> None:
    with outputs.together() as batch:
        for name, text in names.items():
            batch.beside(directory / name).write_text(text)
        batch.list_sums(directory)


def sums(directory: Path) -> dict[str, bool]:
    """Whether each file of the list is the one that was listed."""
    lines = (directory / "minstein.sha256").read_text().splitlines()
    pairs = [line.split("  ") for line in lines]
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() == digest for digest, name in pairs}


def test_a_set_lists_its_files_and_clears_those_of_an_earlier_one(tmp_path):
    out = tmp_path / "out"
    written(out, {"fit.json": "1", "loss.png": "2", "trace.png": "3", "thesis.tex": "4"})
    (out / "trace.png").write_text("changed by the user")
    (out / "notes.txt").write_text("the user's")
    written(out, {"fit.json": "5"})
    assert sums(out) == {"fit.json": True}
    kept = ["fit.json", "minstein.sha256", "notes.txt", "thesis.tex", "trace.png"]
    assert sorted(p.name for p in out.iterdir()) == kept


def test_a_set_that_is_broken_off_is_seen_to_be(tmp_path, monkeypatch):
    out, replace = tmp_path / "out", os.replace
    written(out, {"a": "1", "b": "2"})
    monkeypatch.setattr("os.replace", lambda part, to: full() if to.name == "b" else replace(part, to))
    with pytest.raises(
        Problem, match=r"b, .*minstein.sha256 could not be written: No space.* Written before that: .*a\."
    ):
        written(out, {"a": "3", "b": "4"})
    assert sums(out) == {"a": False, "b": True}
    assert sorted(p.name for p in out.iterdir()) == ["a", "b", "minstein.sha256"]


def full() -> None:
    raise OSError(28, "No space left on device")


SLOW_RENAMES = """
import os, sys, time
replace = os.replace
def slowly(part, to):
    replace(part, to)
    if str(to).endswith(("a.json", "b.html")):
        print("renamed", file=sys.stderr, flush=True)
        time.sleep(1)
os.replace = slowly
"""


def test_a_set_is_complete_if_the_signal_comes_among_its_renames(tmp_path):
    """The library writes to a part of its own first, whose name ends otherwise."""
    slow = SLOW_RENAMES.replace("replace(part, to)\n", "replace(part, to)\n    if '.minstein.' in str(to): return\n")
    for name in ("a.json", "b.html"):
        (tmp_path / name).write_text("earlier")
    with spawn(tmp_path, [*FIT, "-q", "--save", "a.json", "--report", "b.html"], slow, text=True) as run:
        assert run.stderr.readline() == "renamed\n"
        run.send_signal(signal.SIGTERM)
        told = run.stderr.read()
    assert told == "renamed\nInterrupted: a.json, b.html had been written before.\n"
    assert run.returncode == 130
    assert ms.load(tmp_path / "a.json").converged
    assert (tmp_path / "b.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.html"]


FINALISER = """
import sys, time

class Last:
    def __del__(self):
        print("running", file=sys.stderr, flush=True)
        time.sleep(30)

Last()
"""


OTHERS = [pytest.param(told, marks=pytest.mark.slow) for told in (signal.SIGTERM, signal.SIGHUP)]


@pytest.mark.parametrize("told", [signal.SIGINT, *OTHERS])
def test_a_signal_counts_where_an_exception_would_be_lost(tmp_path, told):
    (tmp_path / "slow.py").write_text(FINALISER)
    fit = ["fit", NEWCOMB, "-m", "slow.py:model", "--save", "a.json"]
    with spawn(tmp_path, fit, text=True) as run:
        assert run.stderr.readline() == "running\n"
        run.send_signal(told)
        assert run.communicate(timeout=20)[1] == "Interrupted: nothing was written.\n"
    assert run.returncode == 130
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_command_is_known(tmp_path, told):
    """While its own modules are loaded: here, one of theirs takes long."""
    (tmp_path / "click.py").write_text(
        "import sys, time\nprint('running', file=sys.stderr, flush=True)\ntime.sleep(30)\n"
    )
    with spawn(tmp_path, FIT, "import sys; sys.path.insert(0, '.')", text=True) as run:
        assert run.stderr.readline() == "running\n"
        run.send_signal(told)
        assert run.communicate(timeout=20)[1] == "Interrupted: nothing was written.\n"
    assert run.returncode == 130


def test_a_reader_that_has_gone_is_not_a_fit_that_failed(tmp_path):
    run = spawn(tmp_path, [*FIT, "--save", "a.json"], stdout=subprocess.PIPE)
    run.stdout.close()
    with run:
        assert run.stderr.read() == b""
    assert run.returncode == 141
    assert ms.load(tmp_path / "a.json").converged


def test_nor_are_the_commands_that_only_look(tmp_path):
    run = spawn(tmp_path, ["models"], stdout=subprocess.PIPE)
    run.stdout.close()
    with run:
        assert run.stderr.read() == b""
    assert run.returncode == 141
