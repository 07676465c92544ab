"""Numbers with their Monte-Carlo errors."""

from typing import NamedTuple

import numpy as np

MARGIN = 2.0
"""Monte-Carlo standard errors by which one number must differ from another before we say that it does."""


class Measured(NamedTuple):
    """A value and its Monte-Carlo standard error; 0 where nothing is random."""

    value: float
    error: float = 0.0

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "–"
        if self.error <= 1e-9 * abs(self.value):
            return f"{self.value:.4g}"
        digits = int(np.clip(1 - np.floor(np.log10(self.error)), 0, 6))
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"

    def below(self, bound: float) -> bool:
        """Whether it is below the bound beyond Monte-Carlo error."""
        return bool(self.value + MARGIN * self.error < bound)

    def above(self, bound: float) -> bool:
        return bool(self.value - MARGIN * self.error > bound)

    def agrees(self, number: float, errors: float = 3.0) -> bool:
        """Whether a number is within so many Monte-Carlo errors of it."""
        return bool(abs(self.value - number) <= errors * self.error)


def mean(values: np.ndarray) -> Measured:
    values = np.asarray(values, float)
    return Measured(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def share(events: np.ndarray) -> Measured:
    """A proportion; of none or all of R events the error is that of one in R + 1."""
    events = np.asarray(events, bool)
    p, n = float(events.mean()), len(events)
    inside = p if 0 < p < 1 else 1 / (n + 1)
    return Measured(p, float(np.sqrt(inside * (1 - inside) / n)))


def rmse(estimates: np.ndarray, truth: float) -> Measured:
    """The root of the mean squared error, with the error of that mean carried through the root."""
    squares = (np.asarray(estimates, float) - truth) ** 2
    root = np.sqrt(squares.mean())
    error = squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * root) if root > 0 else 0.0
    return Measured(float(root), float(error))


def ratio(estimates: np.ndarray, others: np.ndarray, truth: float) -> Measured:
    """RMSE of one estimator over that of another on the same samples, by the jackknife."""
    a, b = ((np.asarray(e, float) - truth) ** 2 for e in (estimates, others))
    without = np.sqrt((a.sum() - a) / (b.sum() - b))
    error = np.sqrt((len(a) - 1) / len(a) * ((without - without.mean()) ** 2).sum())
    return Measured(float(np.sqrt(a.sum() / b.sum())), float(error))
