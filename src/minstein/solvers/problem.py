"""What is to be minimised, on which data, and how."""

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
        model: where it starts.
        x: the sample.
        discrepancy: what is minimised, as the user knows it.
        ready: the same, with what it has precomputed from the data.
        solver: how.
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
"""Parameters up to which a matrix of second derivatives is made if it is asked for: minutes."""


@errors.explained("fitting.md")
def _too_many_for_covariance(p: int) -> ValueError:
    return ValueError(
        f"The model has {p} parameters, too many for the matrix of second derivatives that standard errors need. "
        "Pass covariance=False."
    )
