"""The cases by name. `python -m benchmarks.cases NAME` runs one in this process and prints its rows as JSON lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..processes import XLA_ON_ONE_THREAD


@dataclass(frozen=True)
class Case:
    """A module of this package with a function `rows`, and the process it wants.

    Args:
        module: its name.
        what: what it measures.
        environment: variables that must be set before anything is imported.
        one_core: whether the process is bound to a single core.
    """

    module: str
    what: str
    environment: Mapping[str, str] = field(default_factory=dict)
    one_core: bool = False


CASES = {
    "curve": Case("curve", "CPU time against n of minstein and nine peers, one variable and five"),
    "value-and-gradient": Case("value_and_gradient", "what a gradient costs"),
    "tiles": Case("exact", "every pair of 32 000 observations: time and memory"),
    "oracle": Case("oracle", "against autodiff over pairs in JAX"),
    "coreax": Case("versus_coreax", "against coreax"),
    "numpy": Case("versus_numpy", "against blocked NumPy on one core", XLA_ON_ONE_THREAD, one_core=True),
    "native": Case("native", "what compiled loops would save"),
    "lines": Case("linear_time", "a million observations of one variable"),
    "fourier": Case("fourier", "a million observations of two variables"),
    "recompile": Case("recompile", "what compiles again"),
    "fit": Case("fitting", "whole fits, the first in a process and later ones"),
    "inference": Case("inference", "standard errors"),
    "discrete": Case("discrete", "Ising models and restricted Boltzmann machines"),
    "design": Case("design", "designed discrepancies"),
    "quick": Case("quick", "linear time against tiles, small"),
}
