"""What a report is made from: a fit, its data, influence functions and robustness."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ..data.in_memory import as_rows
from ..data.reading import read
from ..data.spaces import space_of
from ..inference.bootstrap import Bootstrap
from ..inference.efficiency import Comparison
from ..inference.influence import dfbeta
from ..inference.robustness import Robustness, robustness
from ..result.fitted import Fit, check_sample
from .markup import clean


class Evidence(NamedTuple):
    """A fit and what is known about it.

    Attributes:
        fit: the fit.
        x: its data in memory, in double precision.
        sample: its data as they were given, for computations.
        columns: the name of each column of x.
        rows: the number of each row in its source; None counts them from 0.
        alpha: intervals are of level 1 − alpha.
        bootstrap: estimates from resampled data, or None.
        comparison: efficiency and robustness of this and other discrepancies, or None.
        weights: the weight of each observation under a decaying diffusion, relative to one at its
            centre, or None.
        shifts: by how many standard errors each observation moved each estimate, or None.
        robustness: how the estimate behaves under outliers, or None.
        refused: why there are no shifts or no robustness.
    """

    fit: Fit
    x: Float[np.ndarray, "n d"]
    sample: Any
    columns: tuple[str, ...]
    rows: Int[np.ndarray, " n"] | None
    alpha: float
    bootstrap: Bootstrap | None
    comparison: Comparison | None
    weights: Float[np.ndarray, " n"] | None
    shifts: Float[np.ndarray, "n p"] | None = None
    robustness: Robustness | None = None
    refused: str = ""

    @property
    def numbers(self) -> Int[np.ndarray, " n"]:
        """The number by which the reader knows each row of x."""
        return np.arange(len(self.x)) if self.rows is None else self.rows

    @property
    def level(self) -> str:
        """The level of the intervals, in per cent."""
        return f"{100 * (1 - self.alpha):g}\N{NO-BREAK SPACE}%"

    @property
    def has_errors(self) -> bool:
        """Whether there are standard errors."""
        return bool(self.fit.converged and np.isfinite(list(self.fit.bse.values())).all())

    @property
    def discrete(self) -> bool:
        """Whether the values of the model are isolated."""
        return space_of(self.fit.model).discrete

    @property
    def largest(self) -> Float[np.ndarray, " n"]:
        """By how many standard errors each observation moved the estimate that it moved most."""
        return np.abs(self.shifts).max(1) if self.shifts is not None else np.zeros(len(self.x))

    def most_influential(self, most: int = 8) -> np.ndarray:
        """The rows that moved an estimate most, in decreasing order."""
        return np.argsort(-self.largest, kind="stable")[:most]


def gather(
    fit: Fit,
    x: Any,
    columns: Sequence[str] | None,
    rows: Any,
    alpha: float,
    bootstrap: Bootstrap | None,
    comparison: Comparison | None,
) -> Evidence:
    """Check the arguments of a report, and compute what it shows."""
    if np.ndim(fit.loss) > 0:
        raise ValueError("A report is of one fit; these are replications.")
    rows = _row_numbers(rows, fit.n)
    columns = _columns(columns if columns is not None else getattr(x, "columns", None), fit.d)
    sample, x = _read(fit, x)
    check_sample(fit, sample)
    if bootstrap is not None and bootstrap.names != fit.names:
        raise ValueError(
            f"bootstrap is of {', '.join(bootstrap.names)}, but the fit is of {', '.join(fit.names)}."
        )
    fit = dataclasses.replace(fit, names=distinct_names(fit.names))
    weights = _weights(fit, x)
    known = Evidence(fit, x, sample, columns, rows, alpha, bootstrap, comparison, weights)
    if not known.has_errors:
        why = "there are no standard errors to measure them by."
        why = why if fit.converged else "there is no minimum to look at."
        return known._replace(refused=f"Influence and robustness were not computed: {why}")
    moved = as_rows(dfbeta(fit, sample)).on_host()
    known = known._replace(shifts=np.asarray(moved, np.float64) / np.array(list(fit.bse.values())))
    try:
        return known._replace(robustness=robustness(fit, sample))
    except TypeError as reason:  # a discrete model need not have distant observations
        return known._replace(refused=str(reason))


def _weights(fit: Fit, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"] | None:
    field = getattr(getattr(fit.discrepancy, "diffusion", None), "field", None)
    weight = getattr(field, "weight", None)
    if weight is None:
        return None
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(weight)(jnp.asarray(x)))


def _read(fit: Fit, x: Any) -> tuple[Any, Float[np.ndarray, "n d"]]:
    """The data for computations, and in memory in double precision."""
    values = x if hasattr(x, "dtype") else np.asarray(x)
    if values.dtype.kind in "iub" and hasattr(values, "astype"):  # an array of whole numbers
        values = values.astype(float)
    rows = read(values, space_of(fit.model)).in_double()
    return rows.plain, rows.on_host().astype(np.float64)


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that a document can hold, all of them different."""
    texts = [clean(name) for name in names]
    count = Counter(texts)
    return tuple(text if count[text] == 1 else f"{text} ({i})" for i, text in enumerate(texts))


def _row_numbers(rows: Any, n: int) -> Int[np.ndarray, " n"] | None:
    """The numbers of the rows as an array, or an error if there is not one for each row."""
    if rows is None:
        return None
    numbers = np.asarray(rows)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"rows must be a whole number for each of the {n} rows of x, got shape {numbers.shape}."
        )
    return numbers


def _columns(columns: Any, d: int) -> tuple[str, ...]:
    if columns is None:
        return ("x",) if d == 1 else tuple(f"x[{j}]" for j in range(d))
    names = tuple(clean(str(column)) for column in columns)
    if len(names) != d:
        raise ValueError(f"columns must name each of the {d} columns of x, got {len(names)} names.")
    return names
