"""A row of the results: what was measured, the bound it was held to, and whether its numbers are right."""

from dataclasses import asdict, dataclass
from typing import Any

from .timing import Timing

TOLERANCE = 1e-9
"""The largest relative difference from the reference that counts as the same number."""


@dataclass(frozen=True)
class Amount:
    """A measured ratio or other amount, and the bound it is held to, if any."""

    measured: float
    limit: float | None = None
    at_most: bool = True
    unit: str = ""

    @property
    def passed(self) -> bool | None:
        if self.limit is None:
            return None
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


def amount(measured: float, unit: str = "") -> Amount:
    """An amount without a bound."""
    return Amount(measured, unit=unit)


def at_most(limit: float, measured: float, unit: str = "") -> Amount:
    return Amount(measured, limit, True, unit)


def at_least(limit: float, measured: float, unit: str = "") -> Amount:
    return Amount(measured, limit, False, unit)


@dataclass(frozen=True)
class Point:
    """Where a row lies on a curve of time against n."""

    name: str
    n: int
    d: int


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        what: what was measured.
        time: how long it took, or None where nothing was timed.
        ratio: a ratio or another amount with its bound, or None where there is none.
        error: the relative difference from a reference, or None where the row is itself the reference.
        note: what else a reader has to know.
        failed: whether the case broke off, so that its numbers could not be checked.
        at: its place on a curve, if it is on one.
    """

    what: str
    time: Timing | None = None
    ratio: Amount | None = None
    error: float | None = None
    note: str = ""
    failed: bool = False
    at: Point | None = None

    @property
    def right(self) -> bool:
        """Whether the numbers agree with the reference; a NaN does not."""
        return not self.failed and (self.error is None or self.error <= TOLERANCE)

    @property
    def passed(self) -> bool | None:
        """Whether the bound holds; None where there is no bound."""
        return None if self.ratio is None else self.ratio.passed

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed, "right": self.right}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Row":
        time, ratio = fields["time"], fields["ratio"]
        return cls(
            fields["what"],
            None if time is None else Timing(**time),
            None if ratio is None else Amount(**ratio),
            fields["error"],
            fields["note"],
            fields["failed"],
            None if fields.get("at") is None else Point(**fields["at"]),
        )
