"""What a solver is, and the loop that iterative ones share."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .. import errors
from .._text import as_call
from .._types import Array, Scalar, Theta, Tree, is_traced
from ..data.compiling import compiled
from ..data.keys import no_key
from ..data.rows import AbstractRows, disk_steps
from ..discrepancies.base import AbstractDiscrepancy, AbstractObjective
from ..params import reach
from . import status
from .progress import bar


class Chains(NamedTuple):
    """The Monte-Carlo errors of η and of the loss, and the acceptance rate of the Markov chains."""

    jitter: Float[Array, "*k p"]
    error: Float[Array, "*k"]
    moved: Float[Array, "*k"]


class Candidates(NamedTuple):
    """Where the search from each start ended; `condition` is NaN if the solver did not compute it."""

    eta: Float[Array, "k p"]
    value: Float[Array, " k"]
    status: Int[Array, " k"]
    steps: Int[Array, " k"]
    trace: Float[Array, "k t"]
    condition: Float[Array, " k"]
    chains: Chains | None = None


def single_candidate(
    eta: Theta,
    value: Scalar,
    code: Any,
    steps: Any,
    trace: Float[Array, " t"],
    condition: Any = np.nan,
    chains: Chains | None = None,
) -> Candidates:
    """The end of a search from one start."""
    condition = jnp.asarray(condition, value.dtype)
    found = Candidates(eta, value, code, steps, trace, condition, chains)
    return jax.tree.map(lambda part: jnp.asarray(part)[None], found)


class AbstractSolver(eqx.Module):
    """A way to minimise an objective from several starts."""

    flat: ClassVar[bool] = False
    """Whether it is meant for losses with plateaus, on which different ends have the same loss."""

    polishes: ClassVar[bool] = False
    """Whether its result is so rough that Newton steps improve it, once the Hessian is known."""

    follows_updates: ClassVar[bool] = False
    """Whether it follows random updates, so that it does not need a loss."""

    works_from_disk: ClassVar[bool] = True
    """Whether it visits the rows in order, so that they may stay on disk."""

    keeps: ClassVar[bool] = True
    """Whether it evaluates the loss often, so that what does not depend on θ is worth storing."""

    slack: ClassVar[Any] = 0.01
    """How far from the minimum a search may end and still count as converged, in standard errors;
    None if derivatives cannot tell how far that is.
    """

    depends_on_start: ClassVar[bool] = True
    """Whether the result, or the number of steps, depends on the start."""

    def __repr__(self) -> str:
        return as_call(self)

    def check(self, discrepancy: AbstractDiscrepancy, x: AbstractRows, key: Any) -> None:
        """Raise if this solver cannot minimise this discrepancy on these data with this key."""
        if discrepancy.is_random and not self.follows_updates:
            raise _needs_a_loss(type(self).__name__)
        if x.reads_from_disk and not self.works_from_disk:
            raise disk_steps(type(self).__name__)
        discrepancy.with_key(key)
        if self.needs_key and key is None:
            raise no_key(type(self).__name__)

    @property
    def looking(self) -> "AbstractIterative | None":
        """The solver itself, if it can evaluate many starts and continue from a few; else None."""
        return None

    @property
    def for_few_rows(self) -> "AbstractSolver":
        """The solver for a few rows in memory, whose minimum is the start for all rows."""
        return self

    def prepare(self, curvature: Callable[[], tuple[Array, Array]]) -> "AbstractSolver":
        """Return a copy that knows the Hessian and the noise of the loss near the minimum, or self
        if it does not use them.
        """
        return self

    @property
    def needs_key(self) -> bool:
        """Whether the search is random."""
        return False

    @property
    def extra_starts(self) -> int:
        """Random starts besides the model's own values and its family's start."""
        return 0

    @abc.abstractmethod
    def search(
        self,
        objective: AbstractObjective,
        etas: Float[Array, "k p"],
        key: Any,
        progress: bool | None,
    ) -> Candidates:
        """Minimise from each row of etas."""


class State(NamedTuple):
    """A search in progress. `inner` is the state of the solver itself."""

    origin: Theta
    eta: Theta
    value: Scalar
    status: Int[Array, ""]
    steps: Int[Array, ""]
    trace: Float[Array, " t"]
    inner: Tree


RUNNING, DROPPED = -1, -2
"""The status of a search that continues, and of one that is not wanted."""


class Look(NamedTuple):
    """The loss at several starts, and a function that computes the spread of each parameter there."""

    value: Float[np.ndarray, " m"]
    spreads: Callable[[], Float[np.ndarray, "m p"]]


class AbstractIterative(AbstractSolver):
    """A solver that moves one vector step by step until it stops with a status."""

    max_steps: eqx.AbstractVar[int]
    starts: eqx.AbstractVar[int]

    @property
    def looking(self):
        return self

    @property
    def needs_key(self):
        return self.starts > 0

    @property
    def extra_starts(self):
        return self.starts

    @abc.abstractmethod
    def begin(self, objective: AbstractObjective, eta: Theta) -> tuple[Scalar, Tree]:
        """The loss at a start, or ∞ if the first step computes it, and the solver's own state."""

    @abc.abstractmethod
    def step(
        self, objective: AbstractObjective, state: State
    ) -> tuple[Theta, Scalar, Tree, Int[Array, ""]]:
        """The next vector, its loss, the solver's own state, and the status, RUNNING to continue."""

    def search(self, objective, etas, key, progress):
        running = np.full(etas.shape[0], RUNNING)
        return self._finish(objective, _begin(self, objective, etas, running), progress)

    def search_among(
        self,
        objective: AbstractObjective,
        etas: Float[Array, "m p"],
        rows: Int[np.ndarray, " k"],
        progress: bool | None,
    ) -> Candidates:
        """Minimise from some rows of etas, with the program that `look` has already compiled."""
        found = self._finish(
            objective, _begin(self, objective, etas, _only(rows, len(etas))), progress
        )
        return jax.tree.map(
            lambda part: np.asarray(part)[rows], found
        )  # one by one, indexing in JAX takes longer

    def look(
        self, objective: AbstractObjective, etas: Float[Array, "m p"], rows: Int[np.ndarray, " k"]
    ) -> Look:
        """The loss at some rows of etas, with a function for the spreads there."""
        states = _begin(self, objective, etas, _only(rows, len(etas)))
        states = _advance(self, objective, states, np.asarray(0))
        return Look(np.asarray(states.value), lambda: np.asarray(_spreads(self, objective, states)))

    @abc.abstractmethod
    def spread(self, objective: AbstractObjective, state: State) -> Theta:
        """How far each parameter must move to change the loss by the contribution of one
        observation.
        """

    def _finish(
        self, objective: AbstractObjective, states: State, progress: bool | None
    ) -> Candidates:
        """Continue every running search until it ends."""
        if is_traced((objective, states)) or objective.sample.x.shape[0] <= _ROWS_IN_ONE_GO:
            states = _advance(self, objective, states, np.asarray(self.max_steps))
        else:
            with bar(progress, self.max_steps, type(self).__name__) as shown:
                while bool(jnp.any(states.status == RUNNING)):
                    states = _advance(self, objective, states, np.asarray(1))
                    shown.update(1)
                    shown.set_postfix(loss=f"{float(jnp.nanmin(states.value)):.4g}")
        unknown = np.full(states.value.shape, np.nan, states.value.dtype)
        return Candidates(
            states.eta, states.value, states.status, states.steps, states.trace, unknown
        )


_ROWS_IN_ONE_GO = 2048
"""Up to this size a search is one compiled loop; beyond it the loop is in Python, to show a progress
bar.
"""


@compiled
def _begin(
    solver: AbstractIterative,
    objective: AbstractObjective,
    etas: Float[Array, "k p"],
    codes: Int[Array, " k"],
) -> State:
    def one(eta: Theta, code: Array) -> State:
        value, inner = solver.begin(objective, eta)
        trace = jnp.full(solver.max_steps + 1, jnp.nan, eta.dtype).at[0].set(value)
        return State(eta, eta, value, code, jnp.asarray(0), trace, inner)

    return jax.vmap(one)(etas, codes)


def _only(rows: Int[np.ndarray, " k"], count: int) -> Int[np.ndarray, " m"]:
    """The initial status of each search, if only some rows are wanted."""
    codes = np.full(count, DROPPED)
    codes[rows] = RUNNING
    return codes


@compiled(often=True)
def _advance(
    solver: AbstractIterative, objective: AbstractObjective, states: State, most: Int[Array, ""]
) -> State:
    """Advance every running search by at most `most` steps, after the loss at its start is known."""

    def body(state: State) -> State:
        eta, value, inner, code = solver.step(objective, state)
        steps = jnp.where(jnp.isinf(state.value), 0, state.steps + 1)
        trace = jnp.asarray(state.trace).at[steps].set(value)
        code = jnp.where((code == RUNNING) & (steps >= solver.max_steps), status.LIMIT, code)
        endless = ((code == status.LIMIT) & _falls_on(trace)) | (
            (code == status.STALLED) & _is_bottomless(trace)
        )
        code = jnp.where(endless, status.RUNAWAY, code)
        return State(state.origin, eta, value, code, steps, trace, inner)

    def one(state: State) -> State:
        last = state.steps + most
        unfinished = lambda s: (s.status == RUNNING) & ((s.steps < last) | jnp.isposinf(s.value))
        return jax.lax.while_loop(unfinished, body, state)

    return jax.lax.map(one, states)


@compiled
def _spreads(
    solver: AbstractIterative, objective: AbstractObjective, states: State
) -> Float[Array, "m p"]:
    return jax.vmap(lambda state: solver.spread(objective, state))(states)


def _is_bottomless(trace: Float[Array, " t"]) -> Array:
    """Whether the loss has fallen so far that only overflow has stopped it."""
    return jnp.nanmin(trace) < trace[0] - _BOTTOMLESS * jnp.abs(trace[0])


_BOTTOMLESS = 1e10
"""A loss that falls by more than this many times its size at the start has no minimum."""


def _falls_on(trace: Float[Array, " t"]) -> Array:
    """Whether the loss fell by more than half its size in the last quarter of all steps."""
    before = trace[-1 - max(1, (trace.size - 1) // 4)]
    return before - trace[-1] > jnp.abs(before) / 2


def ran_away(objective: AbstractObjective, origin: Theta, eta: Theta) -> Array:
    """Whether a search has left the range of parameters that one could report."""
    size = 1e8 * (1 + jnp.abs(origin) + objective.sample.largest)
    farthest = jnp.minimum(jnp.asarray(reach(objective.model)), size)
    return jnp.any(jnp.abs(eta - origin) > farthest)


@errors.explained("discrete.md")
def _needs_a_loss(solver: str) -> TypeError:
    return TypeError(
        f"{solver} minimises a loss, and contrastive divergence has none, only a random update. "
        "Use ms.RiemannianSGD, ms.SGD, or leave out solver=..."
    )
