"""The loss as a function of one vector, with what solvers and inference need to know around a
point.

The vector is η = params.to_real(model), where every constraint holds automatically, or θ on the
natural scale.
"""

import jax.numpy as jnp

from ..._types import LogDensity, Scalar
from ...data.rows import needs_memory
from ...data.sample import AnySample, Table
from ...discrepancies.base import AbstractDiscrepancy, AbstractPairwise, AbstractPointwise
from ...discrepancies.contrastive import CD
from ...discrepancies.ksd import DKSD
from ._objective import AbstractObjective as AbstractObjective
from ._objective import Jet as Jet
from ._objective import Second as Second
from ._objective import Zeroth as Zeroth
from .chains import ChainObjective as ChainObjective
from .chains import chain_objective
from .pairs import PairObjective as PairObjective
from .points import PointObjective as PointObjective
from .table import TableObjective as TableObjective
from .table import TablePairs as TablePairs


def objective(
    discrepancy: AbstractDiscrepancy,
    model: LogDensity,
    sample: AnySample,
    *,
    natural: bool = False,
    keep: bool = False,
) -> AbstractObjective:
    """The loss in η, or in θ if `natural`; `keep` stores what is θ-free, for many evaluations."""
    if isinstance(sample, Table):
        return _on_disk(discrepancy, model, sample, natural)
    match discrepancy:
        case AbstractPairwise():
            stored = discrepancy.stored(model, sample) if keep else None
            return PairObjective(
                model, sample, natural, discrepancy, _diagonal(discrepancy, sample), stored
            )
        case AbstractPointwise():
            return PointObjective(model, sample, natural, discrepancy)
        case CD():
            return chain_objective(discrepancy, model, sample, natural)
        case _:
            raise TypeError(f"There is no way to minimise {type(discrepancy).__name__}.")


def _on_disk(
    discrepancy: AbstractDiscrepancy, model: LogDensity, sample: Table, natural: bool
) -> AbstractObjective:
    match discrepancy:
        case DKSD():
            return TablePairs(model, sample, natural, discrepancy, _diagonal(discrepancy, sample))
        case AbstractPointwise():
            return TableObjective(model, sample, natural, discrepancy)
        case _:
            raise needs_memory(type(discrepancy).__name__)


def _diagonal(discrepancy: AbstractPairwise, sample: AnySample) -> Scalar:
    return jnp.asarray(0 if discrepancy.unbiased else 1, sample.x.dtype)
