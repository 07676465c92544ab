"""Stochastic descent: the walk over minibatches that every stochastic solver takes."""

import abc
import time
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .. import errors
from .._types import Array, Scalar, Theta, Tree, is_traced
from ..data.compiling import compiled
from ..data.sample import Sample
from ..discrepancies.base import AbstractObjective
from . import status
from ._solver import RUNNING, AbstractSolver, single_candidate
from .checkpoint import checkpoint
from .progress import bar
from .settling import BLOCKS, add_to_block, block_of, judge_settled


class Walk(NamedTuple):
    """A descent in progress: all that is needed to continue. `inner` is the state of the solver itself.

    For contrastive divergence, `chains` are those that persist, and `blocks` holds sums of η over
    equal parts of the last steps.
    """

    eta: Theta
    mean: Theta
    inner: Tree
    key: Any
    order: Int[Array, " N"]
    position: Int[Array, ""]
    steps: Int[Array, ""]
    status: Int[Array, ""]
    trace: Float[Array, " t"]
    chains: Tree
    blocks: Float[Array, "b p"]


class AbstractStochastic(AbstractSolver):
    """Descent by a fixed number of steps, each on a minibatch drawn without replacement in its epoch.

    If standard errors are requested, the Hessian on the whole sample is known, and a Newton step
    follows. The loss of a minibatch is unbiased for that of the sample, for U- and V-statistics.
    """

    polishes: ClassVar[bool] = True
    follows_updates: ClassVar[bool] = True
    works_from_disk: ClassVar[bool] = False
    keeps: ClassVar[bool] = False
    slack: ClassVar[Any] = 0.02
    steps: eqx.AbstractVar[int]
    batch: eqx.AbstractVar[int]
    average: eqx.AbstractVar[float]
    checkpoint: eqx.AbstractVar[str | None]
    every: eqx.AbstractVar[int]

    @property
    def needs_key(self):
        return True

    @abc.abstractmethod
    def begin(self, eta: Theta) -> Tree:
        """The solver's own state."""

    @abc.abstractmethod
    def move(
        self, objective: AbstractObjective, eta: Theta, inner: Tree, t: Array
    ) -> tuple[Theta, Tree, Scalar]:
        """One step on a minibatch: the new vector, the solver's own state, and the loss before the
        step.
        """

    def search(self, objective, etas, key, progress):
        batch = self._batch(objective)
        walk = _start(self, objective, etas, key, batch)
        if is_traced((objective, walk)):
            walk = _advance(self, objective, walk, batch, jnp.asarray(self.steps))
        else:
            walk = self._walk(objective, walk, batch, progress)
        averaged = walk.steps > self.steps * (1 - self.average)  # false if it broke off before
        eta = jnp.where(averaged, walk.mean, walk.eta)
        code = jnp.where(walk.status == RUNNING, status.FINISHED, walk.status)
        if objective.discrepancy.is_random:
            code, value, chains = judge_settled(
                objective, walk.blocks, eta, code, key, self.steps, self.average
            )
        else:
            value, chains = _final_loss(objective, eta, walk.trace, walk.steps), None
        return single_candidate(eta, value, code, walk.steps, walk.trace, chains=chains)

    def _batch(self, objective: AbstractObjective) -> int:
        n = objective.sample.n
        if is_traced(n):
            return min(self.batch, objective.sample.x.shape[0])
        batch = min(self.batch, int(n))
        if batch < 2:
            raise _small_batch(batch)
        return batch

    def _walk(
        self, objective: AbstractObjective, walk: Walk, batch: int, progress: bool | None
    ) -> Walk:
        """Take all the steps, from a checkpoint if there is one, and save checkpoints on the way."""
        path, sample = self.checkpoint, objective.sample
        saves = None if path is None else checkpoint(path, self, sample)
        walk = walk if saves is None else saves.resume(walk)
        saved = int(walk.steps)
        try:
            for latest in self._portions(objective, walk, batch, progress):
                walk = latest
                if saves is not None and int(walk.steps) >= min(saved + self.every, self.steps):
                    saves.save(walk)
                    saved = int(walk.steps)
        finally:
            if saves is not None and int(walk.steps) > saved:
                saves.save(walk)
        return walk

    def _portions(
        self, objective: AbstractObjective, walk: Walk, batch: int, progress: bool | None
    ) -> Iterator[Walk]:
        """Yield the walk after each portion of its steps, and whenever a checkpoint is due."""
        portion, first = 10, int(walk.steps)
        with bar(progress, self.steps, type(self).__name__) as shown:
            shown.update(first)
            while int(walk.steps) < self.steps and int(walk.status) == RUNNING:
                before, began = int(walk.steps), time.perf_counter()
                due = before + self.every - (before - first) % self.every
                until = jnp.asarray(min(self.steps, before + portion, due))
                walk = jax.block_until_ready(_advance(self, objective, walk, batch, until))
                if objective.sample.blocks is None:  # else processes must take the same portions
                    portion = _portion(portion, time.perf_counter() - began)
                shown.update(int(walk.steps) - before)
                shown.set_postfix(loss=f"{float(walk.trace[max(0, int(walk.steps) - 1)]):.4g}")
                yield walk


@compiled
def _final_loss(objective: AbstractObjective, eta: Theta, trace: Array, steps: Array) -> Scalar:
    """The loss on the whole sample, or the mean over the last tenth of the minibatches if that is
    too much work.
    """
    if not objective.sums_pairs or objective.sample.x.shape[0] <= _ALL_PAIRS:
        return objective(eta)
    index = jnp.arange(trace.size)
    return jnp.mean(trace, where=(index < steps) & (index >= 0.9 * steps - 1))


_ALL_PAIRS = 20_000
"""Rows up to which the pair sum of the whole sample is worth computing at the end."""


def _portion(portion: int, seconds: float) -> int:
    """The number of steps that takes about half a second, judged by the last portion."""
    return int(np.clip(portion * 0.5 / max(seconds, 1e-3), portion / 10 + 1, 10 * portion))


def _shuffle(key: Any, sample: Sample) -> Int[Array, " N"]:
    """A random order of the observations, with the padding last."""
    return jnp.argsort(jnp.where(sample.real, jax.random.uniform(key, sample.real.shape), 2))


@compiled
def _start(
    solver: AbstractStochastic, objective: AbstractObjective, etas: Array, key: Any, batch: int
) -> Walk:
    """Begin at the start with the lowest loss on the first minibatch, or at the last start if the
    loss is random.
    """
    key, fresh = jax.random.split(key)
    order = _shuffle(fresh, objective.sample)
    rows = order[:batch]
    if objective.discrepancy.is_random:
        eta, chains, blocks = etas[-1], objective.on_rows(rows).x, BLOCKS
    else:
        losses = jax.lax.map(objective.part(rows, etas[0], None, ())[0], etas)
        eta, chains, blocks = (
            etas[jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))],
            (),
            0,
        )
    trace = jnp.full(solver.steps, jnp.nan, eta.dtype)
    zero, none = jnp.asarray(0), jnp.zeros((blocks, eta.size), eta.dtype)
    running = jnp.asarray(RUNNING)
    return Walk(
        eta,
        jnp.zeros_like(eta),
        solver.begin(eta),
        key,
        order,
        zero,
        zero,
        running,
        trace,
        chains,
        none,
    )


@eqx.filter_jit
def _advance(
    solver: AbstractStochastic,
    objective: AbstractObjective,
    walk: Walk,
    batch: int,
    until: Int[Array, ""],
) -> Walk:
    """Continue the walk until the number of steps is `until`, or the loss is not finite."""

    def next_epoch(walk: Walk) -> Walk:
        key, fresh = jax.random.split(walk.key)
        return walk._replace(
            key=key,
            order=_shuffle(fresh, objective.sample),
            position=jnp.zeros_like(walk.position),
        )

    def body(walk: Walk) -> Walk:
        walk = jax.lax.cond(
            walk.position + batch > objective.sample.n, next_epoch, lambda walk: walk, walk
        )
        rows = jax.lax.dynamic_slice_in_dim(walk.order, walk.position, batch)
        fresh = jax.random.fold_in(walk.key, walk.steps)
        part, chains = objective.part(rows, walk.eta, fresh, walk.chains)
        eta, inner, value = solver.move(part, walk.eta, walk.inner, walk.steps)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(eta))
        eta, inner = jax.tree.map(
            lambda new, old: jnp.where(fine, new, old), (eta, inner), (walk.eta, walk.inner)
        )
        since = walk.steps + 1 - solver.steps * (1 - solver.average)  # steps in the average so far
        mean = walk.mean + jnp.where(
            since > 0, (eta - walk.mean) / jnp.maximum(jnp.ceil(since), 1), 0
        )
        return walk._replace(
            eta=eta,
            mean=mean.astype(eta.dtype),
            inner=inner,
            position=walk.position + batch,
            steps=walk.steps + 1,
            status=jnp.where(fine, RUNNING, status.DIVERGED),
            trace=jnp.asarray(walk.trace).at[walk.steps].set(value),
            chains=chains,
            blocks=add_to_block(
                walk.blocks, block_of(walk.steps, solver.steps, solver.average), eta
            ),
        )

    return jax.lax.while_loop(
        lambda walk: (walk.steps < until) & (walk.status == RUNNING), body, walk
    )


def check_settings(solver: AbstractStochastic) -> None:
    """Raise a ValueError if the numbers of steps and rows or the share to average make no sense."""
    if solver.steps < 1 or solver.every < 1:
        raise ValueError(f"{type(solver).__name__}: steps and every must be at least 1.")
    if solver.batch < 2:
        raise _small_batch(solver.batch)
    if not 0 <= solver.average <= 1:
        raise ValueError(
            f"{type(solver).__name__}: average is a share between 0 and 1, got {solver.average:g}."
        )


@errors.explained("fitting.md")
def _small_batch(batch: int) -> ValueError:
    return ValueError(f"A minibatch needs at least 2 observations, got {batch}.")
