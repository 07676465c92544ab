"""Parsing what was typed: name=value, name:arguments, and names in the user's own code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .catalogue import Entry, find, names
from .problem import Problem, unknown


class Own(NamedTuple):
    """Something in a user's own code: a name in a file or a module."""

    place: str
    name: str

    @property
    def is_file(self) -> bool:
        return self.place.endswith(".py")

    def __str__(self) -> str:
        return f"{self.place}:{self.name}"


class Choice(NamedTuple):
    """An entry of the catalogue with the arguments that were given for it."""

    entry: Entry
    arguments: dict[str, Any]


MAY_BE_OWN = ("model", "kernel", "diffusion")


def choose(kind: str, text: str, entries: tuple[Entry, ...]) -> Choice | Own:
    """Return the entry that was named, with its arguments, or the name in the user's own code.

    'decay:2' and 'matern:smoothness=3.5' are entries; 'file.py:name' and 'package.module:name' are
    the user's own.
    """
    head, colon, rest = text.partition(":")
    entry = find(entries, head)
    if entry is not None:
        return Choice(entry, _arguments(kind, entry, rest) if colon else {})
    place, _, name = text.rpartition(":")
    if kind not in MAY_BE_OWN or (not place and not text.endswith(".py")):
        advice = "Your own is given as path/to/file.py:name." if kind in MAY_BE_OWN else ""
        raise unknown(kind, text, names(entries), advice=advice)
    if not name.isidentifier():
        raise Problem(
            f"{text!r} does not name an object. Write path/to/file.py:name or package.module:name."
        )
    own = Own(place, name)
    if own.is_file and not Path(place).is_file():
        raise Problem(f"There is no file {place}.")
    return own


def _arguments(kind: str, entry: Entry, text: str) -> dict[str, Any]:
    """Return {'alpha': 2.0, 'centre': 0.0} for '2,centre=0': by position first, then by name."""
    arguments: dict[str, Any] = {}
    known = [parameter.name for parameter in entry.parameters]
    for position, part in enumerate(text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            if position >= len(known):
                raise Problem(
                    f"The {kind} {entry.name} takes {len(known)} arguments, and {text!r} gives more."
                )
            name, value = known[position], part
        if name not in known:
            raise unknown(f"argument of the {kind} {entry.name} named", name, known)
        arguments[name] = (
            value
            if value in _words(entry, name)
            else number(value, f"{name} of the {kind} {entry.name}")
        )
    return arguments


def _words(entry: Entry, name: str) -> tuple[str, ...]:
    parameter = entry.parameter(name)
    return (
        (parameter.default,) if parameter is not None and isinstance(parameter.default, str) else ()
    )


def number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Problem(f"{what} must be a number, got {text!r}.") from None


def assignments(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return the values in 'df=5', 'loc=0,1' and 'scale=1,0;0.5,2', by name.

    They are numbers, lists and lists of lists.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise Problem(f"{option} {text}: write NAME=VALUE, such as {option} scale=2.")
        if name in found:
            raise Problem(f"{option} gives {name} twice.")
        found[name] = _value(value, f"{option} {name}")
    return found


def box(text: str) -> tuple[float, float]:
    """Return the pair of ends of 'box:0,inf'."""
    kind, _, ends = text.partition(":")
    if kind != "box" or ends.count(",") != 1:
        raise Problem(
            f"--space must be box:LOW,HIGH, such as box:0,inf for positive data, got {text!r}."
        )
    low, high = (number(end, f"--space {text}") for end in ends.split(","))
    if not low < high:
        raise Problem(f"--space {text}: the lower end must be below the upper one.")
    return low, high


FORMS = ("full", "diagonal", "scalar")
"""The forms of the scale of a model of several variables, as in --set scale=diagonal."""


def _value(text: str, what: str) -> Any:
    if text in FORMS:
        return text
    rows = [[number(cell, what) for cell in row.split(",")] for row in text.split(";")]
    if len(rows) > 1:
        if len({len(row) for row in rows}) > 1:
            raise Problem(f"{what}: the rows of a matrix must have the same length, got {text!r}.")
        return rows
    return rows[0] if len(rows[0]) > 1 else rows[0][0]
