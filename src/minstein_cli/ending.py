"""Ending at once on a signal, whatever the process is doing, and saying what was written.

An exception raised by a signal may surface in a callback of JAX or in a finaliser, where it is lost
or fatal. So a thread waits for signals, removes incomplete files, and ends the process.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from . import outputs
from .complaint import complain
from .exit_status import INTERRUPTED
from .launching import is_member

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@contextlib.contextmanager
def end_on_signal() -> Iterator[None]:
    """End the process if a signal arrives inside, unless that signal was being ignored."""
    if threading.current_thread() is not threading.main_thread():  # only it may set handlers
        yield
        return
    heard, hear = os.pipe()
    os.set_blocking(hear, False)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    ignored = (signal.SIG_IGN, None)
    before = {number: handler for number, handler in handlers.items() if handler not in ignored}
    for number in before:
        signal.signal(number, lambda *_: None)  # Python then writes its number to the pipe
    earlier = signal.set_wakeup_fd(hear, warn_on_full_buffer=False)
    waiting = threading.Thread(target=_wait, args=(heard, set(before)), daemon=True)
    waiting.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(earlier)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(hear)
        waiting.join()
        os.close(heard)


def _wait(heard: int, numbers: set[int]) -> None:
    while told := os.read(heard, 1):
        if told[0] in numbers:
            _end()


def _end() -> None:
    batch = outputs.current
    with batch.lock:
        batch.discard()
        if there := [str(path) for path in batch.written if path.exists()]:
            complain("Interrupted", f"{', '.join(there)} had been written before.")
        elif not is_member():  # the launcher says why
            complain("Interrupted", "nothing was written.")
        os._exit(INTERRUPTED)
