"""The objective of a discrepancy, as a function; `discrepancy.objective(model, sample)` is the same."""

from .._types import LogDensity
from ..data.sample import AnySample
from ..discrepancies.base import AbstractDiscrepancy
from ..discrepancies.base import AbstractObjective as AbstractObjective


def objective(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample, *, natural: bool = False
) -> AbstractObjective:
    """Return the loss as a function of η, or of θ if `natural`."""
    return discrepancy.objective(model, sample, natural=natural)
