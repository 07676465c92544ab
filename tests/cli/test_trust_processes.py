"""Several processes must fit the same data in the same way."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minstein_cli import agreement
from minstein_cli.app import _request
from minstein_cli.options import OPTIONS, _declarations

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from minstein_cli import main; main()"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_ENABLE_X64": "0", **more}


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def request(source: str, **given):
    """The request of a command with these options."""
    options = {_declarations(key)[1]: how for group in OPTIONS.values() for key, how in group.items()}
    bare = {name: how.get("default", () if how.get("multiple") else None) for name, how in options.items()}
    flags = {name: False for name, how in options.items() if how.get("is_flag")}
    return _request(source, {**bare, **flags, "model": "gaussian", **given})


def test_what_a_process_may_have_of_its_own(tmp_path):
    same = request("a.csv", processes=2, process_id=0, coordinator="a:1", out=tmp_path / "out")
    other = request("/b/a.csv", processes=2, process_id=1, coordinator="b:1", out=tmp_path / "no", quiet=True)
    assert agreement._options(same) == agreement._options(other)
    for option in ({"processes": 3}, {"out": None}, {"seed": 7}, {"columns": ("2",)}, {"fix": ("scale=2",)}):
        given = {"processes": 2, "out": tmp_path / "out", **option}
        assert agreement._options(request("a.csv", **given)) != agreement._options(same)


@pytest.mark.parametrize("whole", [1 << 26, 1 << 10])
def test_a_file_is_told_from_another(tmp_path, monkeypatch, whole):
    """As a whole, and by pieces, which here cover it."""
    monkeypatch.setattr(agreement, "_WHOLE", whole)
    monkeypatch.setattr(agreement, "_PIECE", 64)
    path, content = tmp_path / "x", bytes(range(256)) * 8
    path.write_bytes(content)
    first = agreement.file_digest(str(path))
    path.write_bytes(content)
    assert agreement.file_digest(str(path)) == first
    for other in (content[:-1], content + b"\0", content[:1000] + b"\0" + content[1001:]):
        path.write_bytes(other)
        assert agreement.file_digest(str(path)) != first


def test_the_process_and_the_fact_that_differ_are_named():
    told = np.zeros((3, 4, agreement._WORDS))
    assert agreement.differences(told) == []
    told[2, 1, 3] = 1
    assert agreement.differences(told) == [(2, 1)]


@pytest.mark.slow
def test_a_process_with_other_data_of_the_same_shape_is_named(tmp_path):
    x = np.random.default_rng(3).normal(size=(40, 2))
    for name, rows in (("a", x), ("b", 10 * x)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", rows)
    address = free_address()
    run = {"env": environment(), "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options = ["-m", "gaussian", "-d", "sm", "--processes", "2", "--coordinator", address]
    hosts = [
        subprocess.Popen([*COMMAND, "fit", "x.npy", *options, "--process-id", str(i)], cwd=tmp_path / name, **run)
        for i, name in enumerate("ab")
    ]
    told = [host.communicate(timeout=200) for host in hosts]
    assert [host.returncode for host in hosts] == [2, 2]
    assert [text.startswith("Error: Process 1 has read other data than process 0") for _, text in told] == [True, True]
    assert [text for text, _ in told] == ["", ""]
