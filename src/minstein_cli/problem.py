"""Errors that the user sees as one message, without a traceback."""

import difflib
from collections.abc import Iterable


class Problem(Exception):
    """Bad usage or input: the command ends with status 2."""


def unknown(kind: str, name: str, known: Iterable[str], *, advice: str = "") -> Problem:
    """Return the error for an unknown name, which lists the known ones and suggests the nearest."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1, 0.5)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return Problem(
        f"There is no {kind} {name!r}.{guess} There are: {', '.join(names)}.{' ' + advice if advice else ''}"
    )
