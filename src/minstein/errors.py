"""The exceptions and warnings of minstein, and their texts.

Every text says what was given, what is needed, why, what to type instead, and which page of the
documentation explains it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np


class PrecisionWarning(UserWarning):
    """Double-precision data are being handled in single precision."""


class StatisticWarning(UserWarning):
    """A statistic other than the one asked for was used."""


class BoundaryWarning(UserWarning):
    """The Stein identity has a boundary term, so the estimates are biased."""


class MinimumWarning(UserWarning):
    """The minimum may be far from the truth: another one is as low, or another estimate disagrees."""


class NotConverged(RuntimeError):
    """No minimum was found. `fit` holds the incomplete fit."""

    def __init__(self, message: str, fit: Any):
        super().__init__(message)
        self.fit = fit


class SingularInformation(NotConverged):
    """The loss is flat along some direction of the parameters. `fit` holds the incomplete fit."""


P = ParamSpec("P")
Problem = TypeVar("Problem")


class Explained(str):
    """A text that already names the page that explains it."""

    __slots__ = ()


def explained(page: str) -> Callable[[Callable[P, Problem]], Callable[P, Problem]]:
    """Append a reference to a page to the text, or to the exception, that a function returns.

    Args:
        page: the name of a file in docs/; `minstein help` followed by its stem prints it.
    """

    def decorate(make: Callable[P, Problem]) -> Callable[P, Problem]:
        @wraps(make)
        def make_explained(*args: P.args, **kwargs: P.kwargs) -> Problem:
            problem = make(*args, **kwargs)
            if not isinstance(problem, BaseException):
                return cast(Problem, _with_page(problem, page))
            problem.args = (_with_page(problem.args[0], page),)
            return problem

        return make_explained

    return decorate


def _with_page(text: Any, page: str) -> Explained:
    if isinstance(text, Explained):
        return text
    return Explained(f"{text} See: minstein help {page.removesuffix('.md')}.")


FEW = 8
"""The most rows that a text lists."""


def rows_text(bad: np.ndarray, numbers: np.ndarray | None = None) -> str:
    """Return '3 of 100 rows (rows 4, 17, 56)' for the rows where `bad` is true.

    Rows are numbered from 0, unless `numbers` gives the number of each.
    """
    where = np.flatnonzero(bad) if numbers is None else numbers[bad]
    return named_rows(where[:FEW].tolist(), len(where), len(bad))


def named_rows(first: Any, count: int, n: int) -> str:
    """Return '9 of 100 rows (rows 4, 17, …)', given the first few of the rows."""
    shown = ", ".join(map(str, first)) + (", …" if count > len(first) else "")
    return f"{count} of {n} rows ({'row' if count == 1 else 'rows'} {shown})"


class ProcessLost(RuntimeError):
    """A process of a fit has ended, so the others cannot continue."""
