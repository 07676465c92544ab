"""`--processes`: starting and watching the processes of one fit, or taking part as one of them.

Nothing here loads JAX.
"""

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

from . import outputs
from .complaint import complain
from .exit_status import LOST
from .problem import Problem

_AS_MEMBER = "MINSTEIN_MEMBER"
"""The environment variable that gives the processes of a fit the command as it was typed."""

_WAIT = "MINSTEIN_WAIT"
"""The environment variable for the number of seconds that a process waits for the others."""

_WAIT_HERE, _WAIT_ELSEWHERE = 300, 40
"""Seconds. On one host the launcher notices at once if a process ends, so a long wait is harmless."""


def is_member() -> bool:
    """Whether this process was started by a launcher, as one of the processes of a fit."""
    return _AS_MEMBER in os.environ


def typed_command() -> str:
    """Return the command as it was typed."""
    return os.environ.get(_AS_MEMBER) or shlex.join(["minstein", *sys.argv[1:]])


class Member(NamedTuple):
    """One of the processes of a fit."""

    coordinator: str
    processes: int
    process: int
    wait: int


class Wanted(NamedTuple):
    """The processes that were asked for: all on this host, or one that joins the coordinator."""

    processes: int | None = None
    coordinator: str | None = None
    process_id: int | None = None

    def check(self, *, source: str, bootstrap: int | None) -> None:
        """Raise if the options cannot be combined."""
        if self.processes is None:
            if self.coordinator is not None or self.process_id is not None:
                raise Problem(
                    "--coordinator and --process-id need --processes N, the number of all processes."
                )
            return
        self._check_meeting(self.processes)
        if source == "-":
            raise Problem(
                "Several processes cannot share stdin. Give them a file that all of them can read."
            )
        if bootstrap is not None:
            raise Problem(
                "--bootstrap resamples rows on one device: leave out --processes, or --bootstrap."
            )

    def _check_meeting(self, processes: int) -> None:
        """Raise if the address of process 0 or the number of this process is missing or wrong."""
        if (self.coordinator is None) != (self.process_id is None):
            raise Problem(
                "--coordinator HOST:PORT and --process-id I belong together: on each host, give the address of process "
                "0 and the number of the process. Without both, all processes are started on this host."
            )
        if self.process_id is not None and not self.process_id < processes:
            raise Problem(f"--process-id must be from 0 to {processes - 1}, got {self.process_id}.")
        if self.coordinator is not None and not self.coordinator.rpartition(":")[2].isdigit():
            raise Problem(
                f"--coordinator must be HOST:PORT, such as 10.0.0.1:7070, got {self.coordinator!r}."
            )

    @property
    def member(self) -> Member | None:
        """This process as one of the processes of a fit; None if no launcher started it."""
        if not is_member() or self.processes is None:
            return None
        wait = int(os.environ.get(_WAIT, _WAIT_ELSEWHERE))
        return Member(self.coordinator or "", self.processes, self.process_id or 0, wait)

    @property
    def part(self) -> tuple[int, int] | None:
        """The share (i, P) of the rows that this process reads, or None for all rows."""
        member = self.member
        return None if member is None else (member.process, member.processes)


def look_after(wanted: Wanted) -> int:
    """Start the processes of this host, wait for them, and return the exit status."""
    address = wanted.coordinator or f"127.0.0.1:{_free_port()}"
    count = wanted.processes or 1
    numbers = range(count) if wanted.process_id is None else (wanted.process_id,)
    children = {
        number: _start(address, number, local=wanted.coordinator is None) for number in numbers
    }
    try:
        return _watch(children, count)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "all processes were ended. Files that had been written before are named above."
        ) from None
    finally:
        for child in children.values():
            _end(child)


def _start(address: str, number: int, *, local: bool) -> subprocess.Popen:
    """Start a process that ends when this one does, because its stdin is then closed."""
    command = [sys.executable, "-c", "from minstein_cli import main; main()", *sys.argv[1:]]
    if local:
        command += ["--coordinator", address, "--process-id", str(number)]
    wait = _WAIT_HERE if local else _WAIT_ELSEWHERE
    environment = {**os.environ, _AS_MEMBER: typed_command(), _WAIT: str(wait)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def _watch(children: dict[int, subprocess.Popen], count: int) -> int:
    """Wait until all processes have ended, or one has failed, and return the exit status."""
    while True:
        codes = {number: child.poll() for number, child in children.items()}
        bad = next((number for number, code in codes.items() if code not in (None, 0, 1)), None)
        if bad is not None:
            return _report_end(bad, codes[bad] or 0, count)
        if None not in codes.values():
            return max(code for code in codes.values() if code is not None)
        time.sleep(0.05)


def _report_end(number: int, code: int, count: int) -> int:
    """Report how a process failed, unless it has done so itself, and return the exit status."""
    if code > 0:
        return code
    name = signal.Signals(-code).name
    if -code == signal.SIGABRT:
        what = "has lost another, which has ended, did not start, or has been silent for 20 seconds"
    else:
        what = f"was ended by {name}" + (
            ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
        )
    complain(
        "Error", f"Process {number} of {count} {what}. There is no result. Start all of them again."
    )
    return LOST


def _end(child: subprocess.Popen) -> None:
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
def take_part(*, debug: bool):
    """End the process at once if anything inside fails, so that the others do not wait for it."""
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
    """Discard what compiled libraries print, unless debugging, and keep Python's own output."""
    sys.stdout, sys.stderr = (
        os.fdopen(os.dup(fd), "w", buffering=1, encoding="utf-8") for fd in (1, 2)
    )
    if not debug:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def _end_with_parent() -> None:
    """End with the parent: nothing is written to stdin, so reading returns only when the parent ends."""
    os.read(0, 1)
    with outputs.current.lock:
        outputs.current.discard()
        os._exit(LOST)
