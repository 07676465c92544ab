"""`--processes`: start the processes of one fit and look after them, or take part as one of them. Without JAX."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from .complaint import complain
from .problem import Problem

LOST = 3
"""The status with which a command ends whose fit has lost a process."""

_AS_MEMBER = "MINSTEIN_MEMBER"
"""The command as it was typed, in the environment of the processes that are looked after."""


def is_member() -> bool:
    """Whether another process looks after this one."""
    return _AS_MEMBER in os.environ


def typed() -> str:
    """The command as it was typed."""
    return os.environ.get(_AS_MEMBER) or shlex.join(["minstein", *sys.argv[1:]])


class Member(NamedTuple):
    """One of the processes of a fit."""

    coordinator: str
    processes: int
    process: int
    wait: int


class Wanted(NamedTuple):
    """What was asked for: all processes on this host, or one that meets others at the coordinator."""

    processes: int | None = None
    coordinator: str | None = None
    process_id: int | None = None

    def check(self, *, source: str, bootstrap: int | None) -> None:
        """Refuse what does not go together."""
        if self.processes is None:
            if self.coordinator is not None or self.process_id is not None:
                raise Problem("--coordinator and --process-id belong to --processes N, the number of all processes.")
            return
        if (self.coordinator is None) != (self.process_id is None):
            raise Problem(
                "--coordinator HOST:PORT and --process-id I belong together: each host gives the address of process 0 "
                "and its own number. With neither, all processes are started on this host."
            )
        if self.process_id is not None and not self.process_id < self.processes:
            raise Problem(f"--process-id must be from 0 to {self.processes - 1}, got {self.process_id}.")
        if self.coordinator is not None and not self.coordinator.rpartition(":")[2].isdigit():
            raise Problem(f"--coordinator must be HOST:PORT, such as 10.0.0.1:7070, got {self.coordinator!r}.")
        if source == "-":
            raise Problem("Several processes cannot share stdin. Give them a file that all of them can read.")
        if bootstrap is not None:
            raise Problem("--bootstrap resamples rows on one device: leave out --processes, or --bootstrap.")

    @property
    def member(self) -> Member | None:
        """Which of the processes this one is, where another looks after it."""
        if not is_member() or self.processes is None:
            return None
        wait = 40 if "--coordinator" in typed() else 300  # here the one that looks after all sees who does not come
        return Member(self.coordinator or "", self.processes, self.process_id or 0, wait)


def look_after(wanted: Wanted) -> int:
    """Start the processes of this host and wait for them; the status with which the command ends."""
    address = wanted.coordinator or f"127.0.0.1:{_free_port()}"
    count = wanted.processes or 1
    numbers = range(count) if wanted.process_id is None else (wanted.process_id,)
    children = {number: _started(address, number, local=wanted.coordinator is None) for number in numbers}
    try:
        return _watched(children, count)
    finally:
        for child in children.values():
            _ended(child)


def _started(address: str, number: int, *, local: bool) -> subprocess.Popen:
    """A process that ends when this one does, because nothing holds its stdin open then."""
    command = [sys.executable, "-c", "from minstein_cli import main; main()", *sys.argv[1:]]
    if local:
        command += ["--coordinator", address, "--process-id", str(number)]
    environment = {**os.environ, _AS_MEMBER: typed()}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def _watched(children: dict[int, subprocess.Popen], count: int) -> int:
    """Until all have ended well, or one has not."""
    while True:
        codes = {number: child.poll() for number, child in children.items()}
        bad = next((number for number, code in codes.items() if code not in (None, 0, 1)), None)
        if bad is not None:
            return _told(bad, codes[bad] or 0, count)
        if None not in codes.values():
            return max(code for code in codes.values() if code is not None)
        time.sleep(0.05)


def _told(number: int, code: int, count: int) -> int:
    """What is said of a process that ended badly, unless it has said so itself."""
    if code > 0:
        return code
    name = signal.Signals(-code).name
    if -code == signal.SIGABRT:
        what = "has lost another: one has ended, did not start, or has not been heard of for 20 seconds"
    else:
        what = f"was ended by {name}" + (", perhaps for want of memory" if -code == signal.SIGKILL else "")
    complain("Error", f"Process {number} of {count} {what}. There is no result. Start all of them again.")
    return LOST


def _ended(child: subprocess.Popen) -> None:
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(3)
    if child.poll() is None:
        child.kill()
    child.wait()
    if child.stdin is not None:
        child.stdin.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# As one of the processes


@contextlib.contextmanager
def taking_part(*, debug: bool):
    """End at once, whatever happens: the others must not wait for one that has failed."""
    _keep_to_python(debug)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        yield
    except BaseException as reason:
        code = getattr(reason, "exit_code", LOST)
        sys.stdout.flush()
        sys.stderr.flush()
        if code in (0, 1):
            raise
        os._exit(code)


def _keep_to_python(debug: bool) -> None:
    """What the libraries beneath print goes nowhere, and what we print goes where it did."""
    sys.stdout, sys.stderr = (os.fdopen(os.dup(fd), "w", buffering=1, encoding="utf-8") for fd in (1, 2))
    if not debug:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def _end_with_parent() -> None:
    """Nobody writes to stdin, so that it can be read only when the parent is gone."""
    os.read(0, 1)
    os._exit(LOST)
