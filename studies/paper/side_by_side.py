"""Several experiments at a time, each in a process of its own."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import Any

_PATIENCE = 0.5
"""Seconds between looks at what the processes say."""


def side_by_side(
    task: Callable, arguments: dict[Any, tuple], jobs: int, say: Callable[[str], None]
) -> Iterator[tuple[Any, Any]]:
    """Yield (key, task(*arguments, say)) as they are finished, begun in the order given.

    An exception, or an interruption from the keyboard, ends what is running and cancels what has not begun.
    """
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        news, others = manager.Queue(), multiprocessing.active_children()
        silently = (signal.SIGINT, signal.SIG_DFL)
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=signal.signal, initargs=silently)
        try:
            running = {pool.submit(task, *given, news.put): key for key, given in arguments.items()}
            while running:
                done, _ = wait(running, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
                while not news.empty():
                    say(news.get())
                for future in done:
                    yield running.pop(future), future.result()
        except BaseException:
            for process in set(multiprocessing.active_children()) - set(others):
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
