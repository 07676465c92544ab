"""What the paper says, what was measured, and whether the one follows from the other."""

from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """How a claim fares."""

    HOLDS = "holds"
    PARTLY = "holds partly"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    UNDECIDABLE = "undecidable as printed"


def verdict(as_printed: bool, *, otherwise: bool = False, contrary: bool = True) -> Verdict:
    """A claim that fails as printed holds partly where it does under a sensible reading, or in part.

    Where neither is shown, it is undecided unless the contrary is.
    """
    if as_printed or otherwise:
        return Verdict.HOLDS if as_printed else Verdict.PARTLY
    return Verdict.FAILS if contrary else Verdict.UNDECIDED


@dataclass(frozen=True)
class Claim:
    """One claim of the paper: `name` is ours, `says` is its content, `measured` has numbers with Monte-Carlo errors."""

    name: str
    says: str
    measured: str
    verdict: Verdict


@dataclass(frozen=True)
class Erratum:
    """A misprint: what is printed and what is right, what each gives in an example, and what is observed there."""

    name: str
    printed: str
    right: str
    gives: str
    instead: str
    observed: str


@dataclass(frozen=True)
class Table:
    """Numbers for people, and, in the file `name`.csv, for programs."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple, ...]


@dataclass(frozen=True)
class Picture:
    """A figure in `name`.png and `name`.svg."""

    name: str
    caption: str


@dataclass(frozen=True)
class Findings:
    """All that an experiment has to say."""

    text: str = ""
    claims: tuple[Claim, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    errata: tuple[Erratum, ...] = field(default=())
