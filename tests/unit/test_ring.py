"""Rows spread over devices and processes: the numbers of one device, and a clear error when a process is lost."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

import minstein as ms
from minstein_cli.app import app
from minstein_cli.data import Reading, read

from . import ring_worker

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from minstein_cli import main; main()"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """101 rows: no number of devices divides it."""
    path = tmp_path_factory.mktemp("ring") / "x.npy"
    np.save(path, np.random.default_rng(0).standard_t(5, (101, 2)) + 1)
    return path


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def environment(devices: int = 1) -> dict[str, str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT / "src"), "JAX_ENABLE_X64": "0"}


def started(jobs: list[dict], devices: int = 1) -> list[subprocess.Popen]:
    command = [sys.executable, ring_worker.__file__]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    return [subprocess.Popen([*command, json.dumps(job)], env=environment(devices), **pipe) for job in jobs]


def answers(
    data: Path, problems: dict[str, bool], *, cuts: tuple[int, ...] = (0, 101), devices: int = 1, **more: int
) -> list[dict]:
    """What each process found, with rows cut into shares there."""
    count, address = len(cuts) - 1, free_address()
    common = {"data": str(data), "coordinator": address, "processes": count, "problems": problems, **more}
    jobs = [
        {**common, "process": i, "from": cuts[i], "to": cuts[i + 1], "answer": str(data.with_suffix(f".{i}.json"))}
        for i in range(count)
    ]
    children = started(jobs, devices)
    for child in children:
        child.communicate(timeout=300)
    assert [child.returncode for child in children] == [0] * count
    found = [json.loads(Path(job["answer"]).read_text()) for job in jobs]
    return [{name: part for name, part in one.items() if name != "cpu"} for one in found]


def assert_same(found: dict, data: Path, n: int = 101) -> None:
    """As on one device, to 1e-10 of the largest entry."""
    for problem, parts in found.items():
        expected = ring_worker.found(problem, np.load(data)[:n], fitted="theta" in parts)
        for name, value in parts.items():
            scale = max(1.0, np.abs(expected[name]).max())
            np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-10 * scale, err_msg=f"{problem} {name}")


# What is known of rows without bringing them together


def test_medians_are_exact():
    rng = np.random.default_rng(1)
    for n in (7, 10):
        x = np.round(rng.normal(0, 2, (n, 3)), 1) * [1.0, -1e-8, 1e12]  # with ties, both signs
        spread = ms.shard(x, jax.devices()[:1])
        np.testing.assert_array_equal(spread.median(), np.median(x, axis=0))
        about = np.median(x, axis=0)
        np.testing.assert_array_equal(spread.median(about), np.median(np.abs(x - about), axis=0))
        np.testing.assert_allclose(spread.std(), x.std(axis=0), rtol=1e-14)
        np.testing.assert_array_equal(spread[np.array([n - 1, 0])], x[[n - 1, 0]])


def test_what_is_wrong_with_rows_is_said_by_their_numbers():
    x = np.zeros((5, 1))
    x[3] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        ms.SM()(ms.models.Gaussian(0.0, 1.0), ms.shard(x, jax.devices()[:1]))
    with pytest.raises(TypeError, match="DKSD with a kernel of your own is not computed on rows that are spread"):
        ms.KSD(lambda x, y: x @ y)(ms.models.Gaussian(0.0, 1.0), ms.shard(x[:3], jax.devices()[:1]))


@pytest.mark.parametrize("name", ["x.csv", "x.npy", "x.parquet"])
def test_shares_of_a_file_are_the_whole(name, tmp_path):
    import pyarrow
    from pyarrow import parquet

    x, path = np.random.default_rng(2).normal(size=(11, 2)), tmp_path / name
    match path.suffix:
        case ".npy":
            np.save(path, x)
        case ".csv":
            np.savetxt(path, x, delimiter=",", header="# of interest\na,b", comments="", fmt="%.17g")
        case _:
            parquet.write_table(pyarrow.table({"a": x[:, 0], "b": x[:, 1]}), path, row_group_size=3)
    for processes in (1, 2, 3, 20):
        shares = [read(str(path), Reading(), (i, processes)).x for i in range(processes)]
        np.testing.assert_array_equal(np.concatenate(shares), x)
        assert max(map(len, shares)) <= -(-11 // processes) + 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--process-id", "0"], "need --processes"),
        (["--processes", "2", "--process-id", "0"], "belong together"),
        (["--processes", "2", "--coordinator", "a:1", "--process-id", "2"], "from 0 to 1, got 2"),
        (["--processes", "2", "--coordinator", "a", "--process-id", "0"], "HOST:PORT"),
        (["--processes", "2", "--bootstrap", "9"], "leave out --processes"),
    ],
)
def test_options_that_do_not_go_together(options, text):
    result = CliRunner().invoke(app, ["fit", "dataset:newcomb", "-m", "gaussian", *options])
    assert result.exit_code == 2
    assert text in result.stderr


# The ring


def test_value_and_gradient_on_four_devices(data):
    """Of rows that four does not divide, and of an array of JAX that is sharded."""
    found = answers(data, {"scalar": False}, devices=4, array=100)[0]
    of_array = found.pop("scalar of an array")
    assert_same(found, data)
    assert_same({"scalar": of_array}, data, n=100)


@pytest.mark.slow
def test_fits_on_three_devices(data):
    """Every form of G; KSD by name with all it takes from the data, standard errors, influence; nothing is gathered."""
    found = answers(data, {"by name": True, "full": False, "diagonal": False}, devices=3, gathers=True)[0]
    assert found.pop("gathered") == []
    assert_same(found, data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cuts", "problems"),
    [((0, 30, 101), {"scalar": False}), ((0, 40, 40, 77, 101), {"scalar": False, "points": True})],
    ids=["2 processes", "4 processes"],
)
def test_processes(data, cuts, problems):
    """Of different numbers of rows, one of them of none. The commands below fit by two."""
    for found in answers(data, problems, cuts=cuts):
        assert_same(found, data)


@pytest.mark.slow
def test_a_process_that_dies_is_noticed_by_the_others(data):
    common = {"data": str(data), "coordinator": free_address(), "processes": 3, "dies": 2}
    children = started([{**common, "process": i} for i in range(3)])
    children[2].communicate(timeout=200)
    assert children[2].returncode == -9
    began = time.monotonic()
    told = [child.communicate(timeout=60)[0] for child in children[:2]]
    assert time.monotonic() - began < 60
    for child, text in zip(children[:2], told, strict=True):
        assert (child.returncode == 3 and "ProcessLost: A process that holds some of the rows has ended" in text) or (
            child.returncode == -6  # JAX has noticed first, and ends the process with its own message
        )


# The commands of docs/many-machines.md


def commands() -> list[list[str]]:
    text = (ROOT / "docs" / "many-machines.md").read_text(encoding="utf-8")
    return [line.split()[1:] for line in re.findall(r"^\$ (minstein fit .*)$", text, re.M)]


@pytest.mark.slow
def test_the_commands_of_the_documentation(data, tmp_path, monkeypatch):
    """All processes by one command; then each by its own, on two hosts that are both this one; and one is killed."""
    local, first, second = commands()
    np.save(tmp_path / "x.npy", np.load(data))
    run = {"cwd": tmp_path, "env": environment(), "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    together = json.loads(subprocess.run([*COMMAND, *local, "--json"], check=True, timeout=300, **run).stdout)
    monkeypatch.chdir(tmp_path)
    alone = json.loads(CliRunner().invoke(app, [*local[: local.index("--processes")], "--json"]).stdout)
    for name, value in together["parameters"].items():
        for part in ("estimate", "std_error"):
            assert abs(value[part] - alone["parameters"][name][part]) < 1e-10
    address = free_address()
    each = [[address if ":7070" in word else word for word in command] for command in (first, second)]
    hosts = [subprocess.Popen([*COMMAND, *command], **run) for command in each]
    time.sleep(3)
    began = time.monotonic()
    hosts[1].kill()  # and the process that it looks after ends with it
    _, text = hosts[0].communicate(timeout=90)
    hosts[1].communicate()
    assert time.monotonic() - began < 60
    assert hosts[0].returncode == 3
    assert text.startswith("Error: ")
    assert "lost another" in text or "has ended" in text or "did not all meet" in text
