"""A progress bar for searches that take more than a few seconds."""

from tqdm import tqdm

_DELAY = 2.0
"""Seconds before a bar appears."""


def bar(progress: bool | None, total: int, text: str) -> tqdm:
    """A bar on stderr: always if True, never if False, and if None only if stderr is a terminal."""
    return tqdm(
        total=total,
        desc=text,
        delay=_DELAY,
        disable=None if progress is None else not progress,
        leave=False,
        unit="step",
    )
