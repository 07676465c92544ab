"""Stochastic gradient descent on minibatches, plain and in the Stein metric."""

import abc
import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from .. import errors, status
from .._types import Array, Scalar, Theta, Tree, is_traced
from ..checkpoint import checkpoint
from ..objective import AbstractObjective, ChainObjective, PointObjective
from ..progress import bar
from ..sample import Sample
from ._solver import RUNNING, AbstractSolver, Candidates, Chains


class Walk(NamedTuple):
    """A descent under way: all that is needed to go on with it. `inner` is the solver's own.

    For contrastive divergence, `chains` are those that persist, and `blocks` holds sums of η over equal parts of the
    last steps.
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
    """Descent by so many steps, each on a minibatch drawn without replacement, anew in every epoch.

    The loss of a minibatch is unbiased for that of the sample, a U-statistic or a V-statistic as it may be.
    """

    steps: eqx.AbstractVar[int]
    batch: eqx.AbstractVar[int]
    average: eqx.AbstractVar[float]
    checkpoint: eqx.AbstractVar[str | None]
    every: eqx.AbstractVar[int]

    @property
    def needs_key(self):
        return True

    @property
    def extra_starts(self):
        return 0

    @property
    def keeps(self):
        return False

    @property
    def slack(self):
        return 0.25

    @abc.abstractmethod
    def begin(self, eta: Theta) -> Tree:
        """The solver's own state."""

    @abc.abstractmethod
    def move(self, objective: AbstractObjective, eta: Theta, inner: Tree, t: Array) -> tuple[Theta, Tree, Scalar]:
        """One step on a minibatch: the new vector, the solver's own state, and the loss before the step."""

    def search(self, objective, etas, key, progress):
        batch = self._batch(objective)
        walk = _start(self, objective, etas, key, batch)
        if is_traced((objective, walk)):
            walk = _advance(self, objective, walk, batch, jnp.asarray(self.steps))
        else:
            walk = self._walked(objective, walk, batch, progress)
        eta = jnp.where(self.average > 0, walk.mean, walk.eta)
        code = jnp.where(walk.status == RUNNING, status.FINISHED, walk.status)
        if isinstance(objective, ChainObjective):
            code, value, chains = _settled(self, objective, walk, eta, code, key)
        else:
            value, chains = _final_loss(objective, eta, walk.trace, walk.steps), None
        unknown = jnp.full_like(value, jnp.nan)
        return Candidates(eta[None], value[None], code[None], walk.steps[None], walk.trace[None], unknown[None], chains)

    def _batch(self, objective: AbstractObjective) -> int:
        n = objective.sample.n
        if is_traced(n):
            return min(self.batch, objective.sample.x.shape[0])
        batch = min(self.batch, int(n))
        if batch < 2:
            raise errors.small_batch(batch)
        return batch

    def _walked(self, objective: AbstractObjective, walk: Walk, batch: int, progress: bool | None) -> Walk:
        """All the steps, in portions of about half a second, with a bar and a checkpoint now and then."""
        saves = None if self.checkpoint is None else checkpoint(self.checkpoint, self, objective.sample)
        walk = walk if saves is None else saves.resumed(walk)
        portion, saved = 10, int(walk.steps)
        with bar(progress, self.steps, type(self).__name__) as shown:
            shown.update(int(walk.steps))
            try:
                while int(walk.steps) < self.steps and int(walk.status) == RUNNING:
                    before, began = int(walk.steps), time.perf_counter()
                    until = min(self.steps, before + portion, saved + self.every if saves else self.steps)
                    walk = jax.block_until_ready(_advance(self, objective, walk, batch, jnp.asarray(until)))
                    if objective.sample.blocks is None:  # several processes must take the same portions
                        portion = _portion(portion, time.perf_counter() - began)
                    shown.update(int(walk.steps) - before)
                    shown.set_postfix(loss=f"{float(walk.trace[max(0, int(walk.steps) - 1)]):.4g}")
                    if saves is not None and int(walk.steps) >= min(saved + self.every, self.steps):
                        saves.save(walk)
                        saved = int(walk.steps)
            finally:
                if saves is not None and int(walk.steps) > saved:
                    saves.save(walk)
        return walk


@eqx.filter_jit
def _final_loss(objective: AbstractObjective, eta: Theta, trace: Array, steps: Array) -> Scalar:
    """The loss on the whole sample, or the mean over the last tenth of the minibatches where that is too much work."""
    if isinstance(objective, PointObjective) or objective.sample.x.shape[0] <= _ALL_PAIRS:
        return objective(eta)
    index = jnp.arange(trace.size)
    return jnp.mean(trace, where=(index < steps) & (index >= 0.9 * steps - 1))


_ALL_PAIRS = 20_000
"""Rows up to which the pair sum of the whole sample is worth computing at the end."""


def _portion(portion: int, seconds: float) -> int:
    """The number of steps that takes about half a second, judged by the last portion."""
    return int(np.clip(portion * 0.5 / max(seconds, 1e-3), portion / 10 + 1, 10 * portion))


def _shuffled(key: Any, sample: Sample) -> Int[Array, " N"]:
    """A random order of the observations, with the padding last."""
    return jnp.argsort(jnp.where(sample.real, jax.random.uniform(key, sample.real.shape), 2))


@eqx.filter_jit
def _start(solver: AbstractStochastic, objective: AbstractObjective, etas: Array, key: Any, batch: int) -> Walk:
    """The start whose loss is lower on the first minibatch; the last start where that tells nothing, as for chains."""
    key, fresh = jax.random.split(key)
    order = _shuffled(fresh, objective.sample)
    rows = order[:batch]
    if isinstance(objective, ChainObjective):
        eta, chains, blocks = etas[-1], objective.on_rows(rows).x, _BLOCKS
    else:
        losses = jax.lax.map(objective.part(rows, etas[0], None, ())[0], etas)
        eta, chains, blocks = etas[jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))], (), 0
    trace = jnp.full(solver.steps, jnp.nan, eta.dtype)
    zero, none = jnp.asarray(0), jnp.zeros((blocks, eta.size), eta.dtype)
    running = jnp.asarray(RUNNING)
    return Walk(eta, jnp.zeros_like(eta), solver.begin(eta), key, order, zero, zero, running, trace, chains, none)


@eqx.filter_jit
def _advance(
    solver: AbstractStochastic, objective: AbstractObjective, walk: Walk, batch: int, until: Int[Array, ""]
) -> Walk:
    """The walk, continued until so many steps are done, or the loss is not finite."""

    def shuffle(walk: Walk) -> Walk:
        key, fresh = jax.random.split(walk.key)
        return walk._replace(key=key, order=_shuffled(fresh, objective.sample), position=jnp.zeros_like(walk.position))

    def body(walk: Walk) -> Walk:
        walk = jax.lax.cond(walk.position + batch > objective.sample.n, shuffle, lambda walk: walk, walk)
        rows = jax.lax.dynamic_slice_in_dim(walk.order, walk.position, batch)
        fresh = jax.random.fold_in(walk.key, walk.steps)
        part, chains = objective.part(rows, walk.eta, fresh, walk.chains)
        eta, inner, value = solver.move(part, walk.eta, walk.inner, walk.steps)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(eta))
        eta, inner = jax.tree.map(lambda new, old: jnp.where(fine, new, old), (eta, inner), (walk.eta, walk.inner))
        since = walk.steps + 1 - solver.steps * (1 - solver.average)  # steps in the average so far
        mean = walk.mean + jnp.where(since > 0, (eta - walk.mean) / jnp.maximum(jnp.ceil(since), 1), 0)
        return walk._replace(
            eta=eta,
            mean=mean.astype(eta.dtype),
            inner=inner,
            position=walk.position + batch,
            steps=walk.steps + 1,
            status=jnp.where(fine, RUNNING, status.DIVERGED),
            trace=jnp.asarray(walk.trace).at[walk.steps].set(value),
            chains=chains,
            blocks=_added(walk.blocks, _block(solver, walk.steps), eta),
        )

    return jax.lax.while_loop(lambda walk: (walk.steps < until) & (walk.status == RUNNING), body, walk)


_BLOCKS = 20
"""Parts of the last steps that are compared with one another."""


def _added(blocks: Float[Array, "b p"], block: Array, eta: Theta) -> Float[Array, "b p"]:
    """η added to its block, where there are blocks and it belongs to one."""
    return jnp.asarray(blocks).at[block].add(eta, mode="drop") if blocks.shape[0] else blocks


def _block(solver: AbstractStochastic, step: Array) -> Array:
    """The block to which a step belongs; past the last one for the early steps."""
    first = round(solver.steps * (1 - (solver.average or 0.5)))
    return jnp.where(step < first, _BLOCKS, (step - first) * _BLOCKS // max(1, solver.steps - first))


@eqx.filter_jit
def _settled(
    solver: AbstractStochastic, objective: ChainObjective, walk: Walk, eta: Theta, code: Array, key: Any
) -> tuple[Array, Scalar, Chains]:
    """Whether the first and the second half of the last steps agree but for their noise; the loss at the end."""
    steps = jnp.arange(solver.steps)
    counts = jnp.zeros(_BLOCKS, eta.dtype).at[_block(solver, steps)].add(1, mode="drop")
    means = (walk.blocks / counts[:, None]).reshape(2, _BLOCKS // 2, -1)
    spread = jnp.mean(jnp.var(means, axis=1, ddof=1), axis=0)
    drift = jnp.mean(means[1], axis=0) - jnp.mean(means[0], axis=0)
    t = drift**2 / jnp.where(spread > 0, spread * 4 / _BLOCKS, 1)
    agrees = jnp.sqrt(jnp.mean(t)) <= _DRIFT
    ends, moved = objective.discrepancy.ends(objective.at(eta), objective.sample.x, jax.random.fold_in(key, 1))
    sample, whole = objective.sample, dataclasses.replace(objective, ends=ends)
    loss, acceptance = whole(eta), jnp.sum(sample.zero_padding(moved)) / sample.size
    error = jnp.sqrt(jnp.sum(sample.zero_padding((whole.growth(eta) - loss) ** 2))) / sample.size
    code = jnp.where((code == status.FINISHED) & agrees, status.CONVERGED, code)
    code = jnp.where(acceptance == 0, status.REJECTED, code)
    long = jnp.mean((walk.blocks / counts[:, None]).reshape(_BLOCKS // 4, 4, -1), axis=1)
    jitter = jnp.std(long, axis=0, ddof=1) / jnp.sqrt(_BLOCKS / 4)
    return code, loss, Chains(jitter[None], error[None], acceptance[None])


_DRIFT = 5.0
"""How far the halves may be apart, in root mean square over the parameters, in standard errors as if blocks were
independent. They are not quite, which makes three or four no rarity; a steady drift gives eight."""


class SGD(AbstractStochastic):
    """Stochastic gradient descent by any optimiser of Optax, on the unconstrained scale of the parameters.

    For models with more parameters than `GaussNewton` can handle, such as energy networks, and for samples too large
    for all their pairs. It takes all its steps; whether they led to a minimum (within a quarter of a standard error) is
    checked where standard errors are asked for.

    Args:
        optimiser: an Optax optimiser, `optax.adam(1e-2)` if None.
        steps: how many.
        batch: observations in a minibatch.
        average: the share of the last steps over which the estimate is averaged; 0 takes the last vector itself.
        checkpoint: a file to which the walk is saved every so often. If it is there already, the walk goes on from it,
            with the result it would have had without the interruption.
        every: steps between checkpoints.

    >>> import optax
    >>> solver = ms.SGD(optax.adam(0.1), steps=100, batch=32)     # ms.fit(model, x, solver=solver, key=key)
    >>> solver.needs_key
    True
    """

    optimiser: Any = eqx.field(default=None, repr=False)
    steps: int = eqx.field(static=True, default=1000)
    batch: int = eqx.field(static=True, default=100)
    average: float = eqx.field(static=True, default=0.0)
    checkpoint: str | None = eqx.field(static=True, default=None)
    every: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        _check(self)

    def begin(self, eta):
        return self._optimiser().init(eta)

    def move(self, objective, eta, inner, t):
        value, gradient = jax.value_and_grad(objective)(eta)
        updates, inner = self._optimiser().update(gradient, inner, eta)
        return jnp.asarray(optax.apply_updates(eta, updates)), inner, value

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(1e-2) if self.optimiser is None else self.optimiser


class RiemannianSGD(AbstractStochastic):
    """Stochastic natural gradient descent of the paper: θ ← R_θ(−γ ĝ⁻¹ d̂), both estimated on a minibatch.

    d̂ is the gradient of the loss and ĝ the information tensor, as a V-statistic, which is positive semi-definite; where
    it is near singular, `ridge` times its mean diagonal is added to it. The Hessian of the loss is 2g, so γ = ½ is a
    Newton step, and from γ = 1 on the iterates oscillate. The retraction R is linear for parameters on ℝ; for positive
    and positive-definite ones it is linear in the logarithm, or in the logarithmic Cholesky factor, so that constraints
    always hold.

    Args:
        step: γ, a number or a function of the step's index such as `lambda t: 0.5 / (1 + t / 100)`.
        steps, batch, average, checkpoint, every: as for `SGD`.
        ridge: what is added to ĝ, in units of its mean diagonal.

    >>> solver = ms.RiemannianSGD(0.25, steps=100, batch=32)  # ms.fit(model, x, solver=solver, key=key)
    >>> solver.needs_key
    True
    """

    step: float | Scalar | Callable = 0.1
    steps: int = eqx.field(static=True, default=200)
    batch: int = eqx.field(static=True, default=100)
    ridge: float = 1e-6
    average: float = eqx.field(static=True, default=0.0)
    checkpoint: str | None = eqx.field(static=True, default=None)
    every: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        _check(self)
        if not callable(self.step) and not is_traced(self.step) and not self.step > 0:
            raise ValueError(f"RiemannianSGD: step must be positive, got {float(self.step):g}.")

    def begin(self, eta):
        return ()

    def move(self, objective, eta, inner, t):
        jet = objective.jet(eta)
        g = jet.metric + self.ridge * jnp.mean(jnp.diagonal(jet.metric)) * jnp.eye(eta.size, dtype=eta.dtype)
        step = self.step(t) if callable(self.step) else self.step
        return eta - step * jnp.linalg.solve(g, jet.gradient), inner, jet.value


def _check(solver: AbstractStochastic) -> None:
    if solver.steps < 1 or solver.every < 1:
        raise ValueError(f"{type(solver).__name__}: steps and every must be at least 1.")
    if solver.batch < 2:
        raise errors.small_batch(solver.batch)
    if not 0 <= solver.average <= 1:
        raise ValueError(f"{type(solver).__name__}: average is a share between 0 and 1, got {solver.average:g}.")
