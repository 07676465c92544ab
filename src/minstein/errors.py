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
    """Another statistic was used than was asked for."""


class BoundaryWarning(UserWarning):
    """The Stein identity has a boundary term, so the estimates are biased."""


class MinimumWarning(UserWarning):
    """The minimum that was found may be far from the truth: another place is as good, or another
    estimate disagrees.
    """


class NotConverged(RuntimeError):
    """No minimum was found. `fit` holds what there is."""

    def __init__(self, message: str, fit: Any):
        super().__init__(message)
        self.fit = fit


class SingularInformation(NotConverged):
    """The loss does not change along some direction of the parameters. `fit` holds what there is."""


P = ParamSpec("P")
Problem = TypeVar("Problem")


class Explained(str):
    """A text that already ends with the page that explains it."""

    __slots__ = ()


def explained(page: str) -> Callable[[Callable[P, Problem]], Callable[P, Problem]]:
    """Append to the texts that a function returns, alone or in an exception, where to read more.

    Args:
        page: the name of a file in docs/; `minstein help` prints it, without the ending .md.
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
"""Rows that a text names at the most."""


def rows_text(bad: np.ndarray, numbers: np.ndarray | None = None) -> str:
    """Name the rows where `bad` is true: '3 of 100 rows (rows 4, 17, 56)'; by their places, or
    numbers of their own.
    """
    where = np.flatnonzero(bad) if numbers is None else numbers[bad]
    return named_rows(where[:FEW].tolist(), len(where), len(bad))


def named_rows(first: Any, count: int, n: int) -> str:
    shown = ", ".join(map(str, first)) + (", …" if count > len(first) else "")
    return f"{count} of {n} rows ({'row' if count == 1 else 'rows'} {shown})"


class ProcessLost(RuntimeError):
    """A process that takes part in a fit has ended, so that the others cannot go on."""
