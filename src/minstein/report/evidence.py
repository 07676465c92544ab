"""What a report is made from: a fit, its data, and what influence functions and robustness say
about them.
"""

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
        x: its data.
        columns: the name of each column of x.
        alpha: intervals are of level 1 − alpha.
        shifts: by how many standard errors each observation moved each estimate, or None.
        robustness: how the estimate behaves under outliers, or None.
        refused: why there are no shifts and no robustness.
        bootstrap: estimates from resampled data, or None.
        sample: the data where they are, for what is computed from them.
        comparison: efficiency and robustness of this and other discrepancies, or None.
        rows: the numbers of the rows where the data come from; None counts them from 0.
        weights: of each observation under a diffusion that falls off, relative to one at its
            centre, or None.
    """

    fit: Fit
    x: Float[np.ndarray, "n d"]
    columns: tuple[str, ...]
    alpha: float
    shifts: Float[np.ndarray, "n p"] | None
    robustness: Robustness | None
    refused: str
    bootstrap: Bootstrap | None
    sample: Any
    comparison: Comparison | None = None
    rows: Int[np.ndarray, " n"] | None = None
    weights: Float[np.ndarray, " n"] | None = None

    @property
    def numbers(self) -> Int[np.ndarray, " n"]:
        """The number by which the reader knows each row of x."""
        return np.arange(len(self.x)) if self.rows is None else self.rows

    @property
    def has_errors(self) -> bool:
        """Whether there are standard errors."""
        return bool(self.fit.converged and np.isfinite(list(self.fit.bse.values())).all())

    @property
    def discrete(self) -> bool:
        """Whether the model is one of isolated values."""
        return space_of(self.fit.model).discrete

    @property
    def largest(self) -> Float[np.ndarray, " n"]:
        """By how many standard errors each observation moved the estimate that it moved most."""
        return np.abs(self.shifts).max(1) if self.shifts is not None else np.zeros(len(self.x))

    def most_influential(self, most: int = 8) -> np.ndarray:
        """The rows that moved an estimate most, the first first."""
        return np.argsort(-self.largest, kind="stable")[:most]


def gather(
    fit: Fit, x: Any, columns: Sequence[str] | None, alpha: float, bootstrap: Bootstrap | None
) -> Evidence:
    """Check what a report was asked for, and compute what it needs."""
    if np.ndim(fit.loss) > 0:
        raise ValueError("A report is of one fit; these are replications.")
    titles = _columns(columns if columns is not None else getattr(x, "columns", None), fit.d)
    x, data = _read(fit, x)
    check_sample(fit, x)
    if bootstrap is not None and bootstrap.names != fit.names:
        raise ValueError(
            f"bootstrap is of {', '.join(bootstrap.names)}, but the fit is of {', '.join(fit.names)}."
        )
    fit = dataclasses.replace(fit, names=distinct_names(fit.names))
    bare = Evidence(
        fit, data, titles, alpha, None, None, "", bootstrap, x, weights=_weights(fit, data)
    )
    if not bare.has_errors:
        why = (
            "there are no standard errors to measure them by."
            if fit.converged
            else "there is no minimum to look at."
        )
        return bare._replace(refused=f"Influence and robustness were not computed: {why}")
    moved = as_rows(dfbeta(fit, x)).on_host()
    shifts = np.asarray(moved, np.float64) / np.array(list(fit.bse.values()))
    try:
        return bare._replace(shifts=shifts, robustness=robustness(fit, x))
    except TypeError as reason:  # not every model has observations that are far out
        return bare._replace(shifts=shifts, refused=str(reason))


def _weights(fit: Fit, data: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"] | None:
    field = getattr(getattr(fit.discrepancy, "diffusion", None), "field", None)
    weight = getattr(field, "weight", None)
    if weight is None:
        return None
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(weight)(jnp.asarray(data)))


def _read(fit: Fit, x: Any) -> tuple[Any, Float[np.ndarray, "n d"]]:
    """The data as what is computed from them wants them, and as what looks at them does."""
    values = x if hasattr(x, "dtype") else np.asarray(x)
    if values.dtype.kind in "iub" and hasattr(values, "astype"):  # an array of whole numbers
        values = values.astype(float)
    rows = read(values, space_of(fit.model)).in_double()
    return rows.plain, rows.on_host().astype(np.float64)


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names that a document can hold, no two of them the same."""
    texts = [clean(name) for name in names]
    count = Counter(texts)
    return tuple(text if count[text] == 1 else f"{text} ({i})" for i, text in enumerate(texts))


def row_numbers(rows: Any, n: int) -> Int[np.ndarray, " n"] | None:
    """The numbers of the rows, after checking that there are as many as rows."""
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
    titles = tuple(clean(str(column)) for column in columns)
    if len(titles) != d:
        raise ValueError(
            f"columns must name each of the {d} columns of x, got {len(titles)} names."
        )
    return titles
