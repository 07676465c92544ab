"""What a solver is, and the loop that iterative ones share."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from .. import status
from .._text import as_call
from .._types import Array, Scalar, Theta, Tree, is_traced
from ..objective import AbstractObjective
from ..progress import bar


class Chains(NamedTuple):
    """What a search by Markov chains adds: the Monte-Carlo errors of η and of the loss, and the acceptance rate."""

    jitter: Float[Array, "*k p"]
    error: Float[Array, "*k"]
    moved: Float[Array, "*k"]


class Candidates(NamedTuple):
    """Where the search from each start ended; `condition` is NaN where the search did not learn it."""

    eta: Float[Array, "k p"]
    value: Float[Array, " k"]
    status: Int[Array, " k"]
    steps: Int[Array, " k"]
    trace: Float[Array, "k t"]
    condition: Float[Array, " k"]
    chains: Chains | None = None


class AbstractSolver(eqx.Module):
    """A way to minimise an objective from several starts."""

    def __repr__(self) -> str:
        return as_call(self)

    @property
    @abc.abstractmethod
    def needs_key(self) -> bool:
        """Whether the search is random."""

    @property
    @abc.abstractmethod
    def extra_starts(self) -> int:
        """Random starts besides the model's own values and its family's start."""

    @property
    @abc.abstractmethod
    def keeps(self) -> bool:
        """Whether the whole sample is visited often, so that what is θ-free is worth storing."""

    @property
    @abc.abstractmethod
    def slack(self) -> float | None:
        """How far from the minimum a search may end and still count as converged, in standard errors.

        None where derivatives are not to be trusted with the question.
        """

    @abc.abstractmethod
    def search(
        self, objective: AbstractObjective, etas: Float[Array, "k p"], key: Any, progress: bool | None
    ) -> Candidates:
        """Minimise from each row of etas."""


class State(NamedTuple):
    """One search under way. `inner` is the solver's own."""

    origin: Theta
    eta: Theta
    value: Scalar
    status: Int[Array, ""]
    steps: Int[Array, ""]
    trace: Float[Array, " t"]
    inner: Tree


RUNNING = -1


class AbstractIterative(AbstractSolver):
    """A solver that moves one vector by steps until its status is settled."""

    max_steps: eqx.AbstractVar[int]
    starts: eqx.AbstractVar[int]

    @property
    def needs_key(self):
        return self.starts > 0

    @property
    def extra_starts(self):
        return self.starts

    @property
    def keeps(self):
        return True

    @abc.abstractmethod
    def begin(self, objective: AbstractObjective, eta: Theta) -> tuple[Scalar, Tree]:
        """The loss at a start, or ∞ where the first step is to find it, and the solver's own state."""

    @abc.abstractmethod
    def step(self, objective: AbstractObjective, state: State) -> tuple[Theta, Scalar, Tree, Int[Array, ""]]:
        """The next vector, its loss, the solver's own state, and the status, RUNNING while there is none."""

    def search(self, objective, etas, key, progress):
        states = _begin(self, objective, etas)
        if is_traced((objective, etas)) or objective.sample.x.shape[0] <= _ROWS_IN_ONE_GO:
            states = _advance(self, objective, states, jnp.asarray(self.max_steps))
        else:
            with bar(progress, self.max_steps, type(self).__name__) as shown:
                while bool(jnp.any(states.status == RUNNING)):
                    states = _advance(self, objective, states, jnp.asarray(1))
                    shown.update(1)
                    shown.set_postfix(loss=f"{float(jnp.nanmin(states.value)):.4g}")
        unknown = jnp.full_like(states.value, jnp.nan)
        return Candidates(states.eta, states.value, states.status, states.steps, states.trace, unknown)


_ROWS_IN_ONE_GO = 2048
"""Up to this size a search is one compiled loop; beyond it the loop is in Python, for the progress bar's sake."""


@eqx.filter_jit
def _begin(solver: AbstractIterative, objective: AbstractObjective, etas: Float[Array, "k p"]) -> State:
    def one(eta: Theta) -> State:
        value, inner = solver.begin(objective, eta)
        trace = jnp.full(solver.max_steps + 1, jnp.nan, eta.dtype).at[0].set(value)
        return State(eta, eta, value, jnp.asarray(RUNNING), jnp.asarray(0), trace, inner)

    return jax.vmap(one)(etas)


@eqx.filter_jit
def _advance(solver: AbstractIterative, objective: AbstractObjective, states: State, most: Int[Array, ""]) -> State:
    """Every search that is still running, by at most so many steps."""

    def body(state: State) -> State:
        eta, value, inner, code = solver.step(objective, state)
        steps = jnp.where(jnp.isinf(state.value), 0, state.steps + 1)
        code = jnp.where((code == RUNNING) & (steps >= solver.max_steps), status.LIMIT, code)
        return State(state.origin, eta, value, code, steps, jnp.asarray(state.trace).at[steps].set(value), inner)

    def one(state: State) -> State:
        last = state.steps + most
        return jax.lax.while_loop(lambda s: (s.status == RUNNING) & (s.steps < last), body, state)

    return jax.lax.map(one, states)


def ran_away(objective: AbstractObjective, origin: Theta, eta: Theta, reach: Array) -> Array:
    """Whether a search has left the range in which parameters are numbers one could report."""
    size = 1e8 * (1 + jnp.abs(origin) + objective.sample.largest)
    return jnp.any(jnp.abs(eta - origin) > jnp.minimum(reach, size))
