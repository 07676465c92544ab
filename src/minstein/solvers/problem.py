"""A minimisation problem: the discrepancy, the data and the solver."""

from typing import Any, NamedTuple

from .. import errors
from .._types import LogDensity
from ..data.rows import AbstractRows
from ..discrepancies.base import AbstractDiscrepancy
from ..params import names
from ..stein.tangents import MANY
from ._solver import AbstractSolver


class Problem(NamedTuple):
    """One minimisation.

    Attributes:
        model: the model, whose values are a start.
        x: the sample.
        discrepancy: the discrepancy as the user gave it.
        ready: the same, with anything precomputed from the data.
        solver: the solver.
        key: for random starts and random steps.
        covariance: whether to compute standard errors.
        progress: whether to show a progress bar.
    """

    model: LogDensity
    x: AbstractRows
    discrepancy: AbstractDiscrepancy
    ready: AbstractDiscrepancy
    solver: AbstractSolver
    key: Any
    covariance: bool
    progress: bool | None

    def check_size(self) -> None:
        """Raise if standard errors would need too large a matrix, or the loss too much memory."""
        p = len(names(self.model))
        if self.covariance and p > _MOST:
            raise _too_many_for_covariance(p)
        self.ready.check_memory(self.model, self.x)


_MOST = 10 * MANY
"""The most parameters for which a requested matrix of second derivatives is computed: minutes."""


@errors.explained("fitting.md")
def _too_many_for_covariance(p: int) -> ValueError:
    return ValueError(
        f"The model has {p} parameters, too many for the matrix of second derivatives that standard errors need. "
        "Pass covariance=False."
    )
