"""Other ways to the same number, each in a process of its own; other packages each in an environment of their own.

The number is the V-statistic of KSD² with the kernel (1 + r²)^(−1/2), for the standard normal distribution as the
model. A peer is a module here with a function `calls(x)`: for each variant, such as a block size, a call without
arguments that returns the value and its gradient in (μ, σ), or None where it gives none.
"""

import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import difference
from ..processes import ROOT, json_lines, run
from ..timing import Timing

REFERENCE = "NumPy, blocked"
"""The peer that the others are compared with."""

CHECKED = 32_000
"""The largest sample that is compared as it is; beyond, these rows are repeated, whose V-statistic is the same."""


@dataclass(frozen=True)
class Peer:
    """A way to the number.

    Args:
        module: its name in this package.
        requirements: what its environment holds besides NumPy; none for that of minstein.
        gives: what a call returns, as its author states it.
        until: the size up to which it goes whatever that takes, and no further; None, as far as is reasonable.
    """

    module: str
    requirements: tuple[str, ...] = ()
    gives: str = "V and its gradient"
    until: int | None = None


PEERS = {
    "minstein": Peer("ours", until=1_024_000),
    "minstein, every pair": Peer("ours_by_tiles", until=CHECKED),
    REFERENCE: Peer("numpy_blocked", until=CHECKED),
    "NumPy, n × n × d": Peer("numpy_whole", gives="V"),
    "numba, one thread": Peer("numba_loops", ("numba==0.68.1",)),
    "C, one thread": Peer("c_loops"),
    "JAX, autodiff of pairs": Peer("autodiff"),
    "coreax": Peer("coreax_ksd", ("coreax==1.0.0",), "√V"),
    "goodpoints": Peer("goodpoints_mmd", ("goodpoints==0.6.3", "jax"), "V"),
    "ksd-metric": Peer("ksd_metric_ksd", ("ksd-metric==0.2.0",), "√V"),
    "stein-thinning": Peer("stein_thinning_ksd", ("stein-thinning==0.2.0",), "√V of the first 1, 2, …, n rows"),
}


@dataclass(frozen=True)
class Measured:
    """The time of one peer at one size, its best variant, and its number as `calls` returns it."""

    n: int
    d: int
    variant: str
    time: Timing
    value: float
    gradient: list[float] | None
    memory: float
    stopped: str

    def error(self, reference: "Measured") -> float:
        """The larger of the relative differences of the value and, if it is given, of the gradient."""
        gradients = ([1.0], [1.0]) if self.gradient is None else (self.gradient, reference.gradient)
        return difference((self.value, gradients[0]), (reference.value, gradients[1]))


def measured(name: str, d: int, sizes: Iterable[int]) -> list[Measured]:
    """A peer at growing sizes, in one fresh process, until it takes too long; raises ProcessError if it cannot run."""
    peer = PEERS[name]
    python = str(environment(*peer.requirements)) if peer.requirements else sys.executable
    within = [str(n) for n in sizes if peer.until is None or n <= peer.until]
    lines = json_lines(python, "benchmarks.peers", peer.module, str(d), *within, *(["--patient"] if peer.until else []))
    return [Measured(**{**line, "time": Timing(**line["time"])}) for line in lines]


def environment(requirement: str, *also: str) -> Path:
    """The interpreter of an environment that holds a peer, such as coreax==1.0.0; raises ProcessError without one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = ROOT / ".venv" / "peers" / f"{version}-{requirement.replace('==', '-')}"
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(home)])
        run([str(python), "-m", "pip", "install", "--quiet", requirement, *also, "numpy"])
        ready.touch()
    return python
