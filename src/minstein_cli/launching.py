"""`--processes`: start the processes of one fit and look after them, or take part as one of them.
Without JAX.
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
"""The command as it was typed, in the environment of the processes that are looked after."""

_WAIT = "MINSTEIN_WAIT"
"""For how many seconds a process waits for the others, in the same environment."""

_WAIT_HERE, _WAIT_ELSEWHERE = 300, 40
"""On one host the launcher sees at once if a process ends, so that waiting long does no harm."""


def is_member() -> bool:
    """Whether another process looks after this one."""
    return _AS_MEMBER in os.environ


def typed_command() -> str:
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
        """Refuse options that do not go together."""
        if self.processes is None:
            if self.coordinator is not None or self.process_id is not None:
                raise Problem(
                    "--coordinator and --process-id belong to --processes N, the number of all processes."
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
        """Check where the processes meet, and which of them this one is."""
        if (self.coordinator is None) != (self.process_id is None):
            raise Problem(
                "--coordinator HOST:PORT and --process-id I belong together: each host gives the address of process 0 "
                "and its own number. With neither, all processes are started on this host."
            )
        if self.process_id is not None and not self.process_id < processes:
            raise Problem(f"--process-id must be from 0 to {processes - 1}, got {self.process_id}.")
        if self.coordinator is not None and not self.coordinator.rpartition(":")[2].isdigit():
            raise Problem(
                f"--coordinator must be HOST:PORT, such as 10.0.0.1:7070, got {self.coordinator!r}."
            )

    @property
    def member(self) -> Member | None:
        """Which of the processes this one is; None if no other process looks after it."""
        if not is_member() or self.processes is None:
            return None
        wait = int(os.environ.get(_WAIT, _WAIT_ELSEWHERE))
        return Member(self.coordinator or "", self.processes, self.process_id or 0, wait)

    @property
    def part(self) -> tuple[int, int] | None:
        """Which share of the rows this process has, i of P; None means all of them."""
        member = self.member
        return None if member is None else (member.process, member.processes)


def look_after(wanted: Wanted) -> int:
    """Start the processes of this host and wait for them; return the status of the command."""
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
    """A process that ends when this one does, because nothing holds its stdin open then."""
    command = [sys.executable, "-c", "from minstein_cli import main; main()", *sys.argv[1:]]
    if local:
        command += ["--coordinator", address, "--process-id", str(number)]
    wait = _WAIT_HERE if local else _WAIT_ELSEWHERE
    environment = {**os.environ, _AS_MEMBER: typed_command(), _WAIT: str(wait)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def _watch(children: dict[int, subprocess.Popen], count: int) -> int:
    """Wait until all processes have ended well, or one has not; return the status."""
    while True:
        codes = {number: child.poll() for number, child in children.items()}
        bad = next((number for number, code in codes.items() if code not in (None, 0, 1)), None)
        if bad is not None:
            return _report_end(bad, codes[bad] or 0, count)
        if None not in codes.values():
            return max(code for code in codes.values() if code is not None)
        time.sleep(0.05)


def _report_end(number: int, code: int, count: int) -> int:
    """Say how a process ended badly, unless it has said so itself; return the status."""
    if code > 0:
        return code
    name = signal.Signals(-code).name
    if -code == signal.SIGABRT:
        what = "has lost another: one has ended, did not start, or has not been heard of for 20 seconds"
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
    """Discard what libraries below Python print, unless debugging; keep our own output."""
    sys.stdout, sys.stderr = (
        os.fdopen(os.dup(fd), "w", buffering=1, encoding="utf-8") for fd in (1, 2)
    )
    if not debug:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def _end_with_parent() -> None:
    """End with the parent: nobody writes to stdin, so reading returns only once the parent is gone."""
    os.read(0, 1)
    with outputs.current.lock:
        outputs.current.discard()
        os._exit(LOST)
