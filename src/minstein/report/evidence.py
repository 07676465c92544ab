"""What a report is made from: a fit, its data, and what influence functions and robustness say about them."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import errors
from ..efficiency import Comparison
from ..influence import dfbeta
from ..resampling import Bootstrap
from ..result import Fit
from ..robustness import Robustness, robustness
from ..sample import read
from ..sharded import Sharded
from ..spaces import space_of
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


def gathered(fit: Fit, x: Any, columns: Sequence[str] | None, alpha: float, bootstrap: Bootstrap | None) -> Evidence:
    """Check what a report was asked for, and compute what it needs."""
    if np.ndim(fit.loss) > 0:
        raise ValueError("A report is of one fit; these are replications.")
    titles = _columns(columns if columns is not None else getattr(x, "columns", None), fit.d)
    x, data = _read(fit, x)
    if data.shape != (fit.n, fit.d):
        raise errors.another_sample(data.shape, (fit.n, fit.d))
    if bootstrap is not None and bootstrap.names != fit.names:
        raise ValueError(f"bootstrap is of {', '.join(bootstrap.names)}, but the fit is of {', '.join(fit.names)}.")
    fit = dataclasses.replace(fit, names=distinct(fit.names))
    bare = Evidence(fit, data, titles, alpha, None, None, "", bootstrap, x)
    if not bare.has_errors:
        why = "there are no standard errors to measure them by." if fit.converged else "there is no minimum to look at."
        return bare._replace(refused=f"Influence and robustness were not computed: {why}")
    moved = dfbeta(fit, x)
    moved = moved.on_host() if isinstance(moved, Sharded) else moved
    shifts = np.asarray(moved, np.float64) / np.array(list(fit.bse.values()))
    try:
        return bare._replace(shifts=shifts, robustness=robustness(fit, x))
    except TypeError as reason:  # not every model has observations that are far out
        return bare._replace(shifts=shifts, refused=str(reason))


def _read(fit: Fit, x: Any) -> tuple[Any, Float[np.ndarray, "n d"]]:
    """The data as what is computed from them wants them, and as what looks at them does."""
    values = x if hasattr(x, "dtype") else np.asarray(x)
    values = values.astype(float) if values.dtype.kind in "iub" and not isinstance(values, Sharded) else values
    values = read(values, space_of(fit.model))
    if isinstance(values, Sharded):
        return values, values.on_host().astype(np.float64)
    data = np.asarray(values, np.float64)
    return data, data


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names that a document can hold, no two of them the same."""
    texts = [clean(name) for name in names]
    count = Counter(texts)
    return tuple(text if count[text] == 1 else f"{text} ({i})" for i, text in enumerate(texts))


def _columns(columns: Any, d: int) -> tuple[str, ...]:
    if columns is None:
        return ("x",) if d == 1 else tuple(f"x[{j}]" for j in range(d))
    titles = tuple(clean(str(column)) for column in columns)
    if len(titles) != d:
        raise ValueError(f"columns must name each of the {d} columns of x, got {len(titles)} names.")
    return titles
