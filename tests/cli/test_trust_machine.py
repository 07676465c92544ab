"""What the machine allows: memory, ports, and a cache that nobody else can write to."""

import os
import socket
import subprocess
import sys
import zlib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.data import memory
from minstein.data.boundary import at_boundary
from minstein_cli import cache
from minstein_cli import memory as cli_memory

from .conftest import NEWCOMB

GB = 10**9


def machine(root: Path, files: dict[str, str]) -> Path:
    """A machine with 64 GB of memory, all of it free, and these files in /proc and /sys."""
    common = {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {64 * GB // 1024} kB\n", "proc/self/statm": "1000 10 1\n"}
    for name, text in {**common, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = {
    "proc/self/cgroup": "0::/slice/job/step\n",
    "sys/fs/cgroup/slice/job/memory.max": f"{8 * GB}\n",
    "sys/fs/cgroup/slice/job/memory.current": f"{3 * GB}\n",
    "sys/fs/cgroup/slice/job/memory.stat": f"anon 5\ninactive_file {GB}\n",
    "sys/fs/cgroup/slice/job/step/memory.max": "max\n",
    "sys/fs/cgroup/slice/job/step/memory.current": "5\n",
}
V1 = {
    "proc/self/cgroup": "12:cpuset:/docker/abc\n7:cpu,memory:/docker/abc\n0::/docker/abc\n",
    "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{4 * GB}\n",
    "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": f"{GB}\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{9 * GB}\n",
}
CONTAINER = {  # whose group has another name outside, and which sees only its own
    "proc/self/cgroup": "0::/../../machine/abc\n",
    "sys/fs/cgroup/memory.max": f"{2 * GB}\n",
    "sys/fs/cgroup/memory.current": f"{GB}\n",
}


@pytest.mark.parametrize(("files", "left", "total"), [
    ({}, 64 * GB // 1024 * 1024, None),
    (V2, 6 * GB, 8 * GB),
    (V1, 3 * GB, 4 * GB),
    (CONTAINER, GB, 2 * GB),
    ({"proc/self/cgroup": ""}, 64 * GB // 1024 * 1024, None),
], ids=["none", "v2", "v1", "container", "empty"])  # fmt: skip
def test_the_least_of_what_control_groups_leave(tmp_path, monkeypatch, files, left, total):
    for module in (memory, cli_memory):
        monkeypatch.setattr(module, "_ROOT", machine(tmp_path, files))
    monkeypatch.setattr(cli_memory, "_physical", lambda: 64 * GB)
    assert memory.available() == left
    assert cli_memory.total() == (total or 64 * GB)


def test_a_group_that_is_full_leaves_nothing(tmp_path, monkeypatch):
    full = {**CONTAINER, "sys/fs/cgroup/memory.current": f"{3 * GB}\n"}
    monkeypatch.setattr(memory, "_ROOT", machine(tmp_path, full))
    assert memory.available() == 0


def test_the_limit_of_the_address_space_counts(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(memory, "_ROOT", machine(tmp_path, {}))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (5 * GB, 5 * GB))
    assert memory.available() == 5 * GB - 1000 * resource.getpagesize()
    assert cli_memory.total() == 5 * GB


def test_memory_that_runs_out_is_told_in_our_words():
    """2⁵⁰ numbers are more than any address space holds."""
    too_much = lambda *_: jnp.zeros(1 << 50, jnp.float32) + 1
    with pytest.raises(MemoryError, match=r"not enough memory for a computation on data of shape \(3, 1\)\. Use fewer"):
        at_boundary(too_much, ms.SM(), ms.models.Gaussian(0.0, 1.0), np.zeros((3, 1)))


def test_what_memory_lacks_reaches_the_user(minstein, monkeypatch):
    def full(request):
        raise MemoryError("64 GB are needed. Take fewer rows.")

    monkeypatch.setattr("minstein_cli.fitting.run", full)
    result = minstein("fit", NEWCOMB, "-m", "gaussian")
    assert result.exit_code == 2
    assert result.stderr == "Error: 64 GB are needed. Take fewer rows.\n"


def test_a_port_that_is_taken_is_named():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ms.ProcessLost, match=f"Port {port} of 127.0.0.1:{port} is taken"):
            ms.join(f"127.0.0.1:{port}", 2, 0)
    with pytest.raises(ValueError, match="must end in a port"):
        ms.join("127.0.0.1:http", 2, 0)


# The cache of compiled code


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The directory of the cache, and what JAX is told."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told: dict = {}
    monkeypatch.setattr(cache, "_set", told.__setitem__)
    for name in list(os.environ):
        if name.startswith("JAX_") and "CACHE" in name:
            monkeypatch.delenv(name)
    assert cache.use() == ""
    assert told.pop("jax_compilation_cache_dir") == str(cache._directory())
    told.clear()
    return cache._directory(), told


def test_a_cache_that_others_can_write_to_is_not_used(cached):
    directory, told = cached
    for one, mode in ((directory, 0o770), (directory, 0o702), (directory.parent, 0o707)):
        before = one.stat().st_mode
        one.chmod(mode)
        assert f"others can write to {one}" in cache.use()
        one.chmod(before)
    assert not told
    assert cache.use() == ""


def test_a_cache_of_another_user_is_not_used(cached, monkeypatch):
    _, told = cached
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to another user" in cache.use()
    assert not told


@pytest.mark.parametrize("above", [False, True])
def test_a_cache_behind_a_link_is_not_used(cached, tmp_path, above):
    directory, told = cached
    one = directory.parent if above else directory
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    assert f"{one} is a symbolic link" in cache.use()
    assert not told


def test_entries_that_were_cut_off_are_dropped(cached):
    directory, _ = cached
    whole = zlib.compress(b"compiled" * 1000)
    (directory / "a-cache").write_bytes(whole)
    (directory / "b-cache").write_bytes(whole[:-5])
    (directory / "c-cache").write_bytes(b"")
    (directory / "d-cache").write_bytes(b"\x28\xb5\x2f\xfd cut off")
    assert cache.use() == ""
    assert sorted(path.name for path in directory.iterdir()) == ["a-cache", "checked"]


@pytest.mark.slow
def test_a_fit_with_a_damaged_cache_is_as_without(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from minstein_cli import main; main()",
        "fit",
        NEWCOMB,
        "-m",
        "gaussian",
        "-d",
        "sm",
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    first = subprocess.run(command, check=True, env=environment, capture_output=True)
    entries = {path: path.read_bytes() for path in tmp_path.rglob("*-cache")}
    for path, content in entries.items():
        path.write_bytes(content[: len(content) // 2])
    second = subprocess.run(command, check=True, env=environment, capture_output=True)
    assert (second.stdout, second.stderr) == (first.stdout, b"")
    assert {path for path in entries if len(path.read_bytes()) > len(entries[path]) / 2} == set(entries)
