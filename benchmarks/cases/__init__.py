"""The cases by name. `python -m benchmarks.cases NAME` runs one in this process and prints its rows as JSON lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..processes import XLA_ON_ONE_THREAD


@dataclass(frozen=True)
class Case:
    """A module of this package with a function `rows`, and the process it wants.

    Args:
        module: its name.
        environment: variables that must be set before anything is imported.
        one_core: whether the process is bound to a single core.
    """

    module: str
    environment: Mapping[str, str] = field(default_factory=dict)
    one_core: bool = False


CASES = {
    "value-and-gradient": Case("value_and_gradient"),
    "oracle": Case("oracle"),
    "coreax": Case("versus_coreax"),
    "numpy": Case("versus_numpy", XLA_ON_ONE_THREAD, one_core=True),
    "memory": Case("memory"),
    "lines": Case("linear_time"),
    "recompile": Case("recompile"),
    "fit": Case("fitting"),
    "inference": Case("inference"),
    "discrete": Case("discrete"),
    "design": Case("design"),
}
