"""`fit`: from a model, a sample and a discrepancy to a `Fit`."""

import contextlib
import dataclasses
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from . import errors, status
from ._types import Array, LogDensity, is_traced
from .default import default_discrepancy
from .diffusions import OfModel, Pointwise
from .discrepancies import DKSD, DSM
from .discrepancy import AbstractDiscrepancy, AbstractPairwise, AbstractPointwise, AbstractRandom, keyed
from .discrete import DFD, MPF
from .discrete_ksd import DiscreteKSD
from .disk import OnDisk
from .kernels import Designed
from .memory import available, for_pairs
from .models._family import AbstractFamily
from .objective import AbstractObjective, objective
from .pairs.nystrom import Nystrom
from .pairs.parts import Parts
from .params import links, names, to_real, with_theta
from .result import Fit
from .sample import AnySample, Sample, at_boundary, bucket, precision, read_or_leave, run
from .score_regression import Features, basis_on, features_at, learn, pilot_discrepancy
from .search import MANY, Outcome, searched
from .sharded import AnyData, Data, Sharded
from .solvers import (
    LBFGS,
    SGD,
    AbstractSolver,
    AbstractStochastic,
    ClosedForm,
    DirectSearch,
    GaussNewton,
    QuasiNewton,
    RiemannianSGD,
)
from .spaces import space_of
from .stein_class import stein_class
from .tangents import WORK


def fit(
    model: LogDensity,
    x: Any,
    discrepancy: AbstractDiscrepancy | None = None,
    *,
    solver: AbstractSolver | None = None,
    key: PRNGKeyArray | None = None,
    covariance: bool = True,
    throw: bool = True,
    progress: bool | None = None,
) -> Fit:
    """Fit a model to a sample by minimising a Stein discrepancy.

    Args:
        model: log p_θ(x) up to a constant: a family of `ms.models`, or any callable pytree. Its values are a start.
        x: the sample, of shape (n, d), or (n,) for one variable. Rows that are spread over devices, as a sharded
            `jax.Array` or by `ms.shard`, stay there; so do rows on disk, `ms.OnDisk(path)`.
        discrepancy: what to minimise. None means KSD as a V-statistic on standardised data with an IMQ kernel at the
            median distance, or MPF for a discrete model. A diffusion `of_model` is held at a pilot fit by that default,
            unless it is `moving`.
        solver: how: None means the closed form where the loss is quadratic in θ, else `ms.GaussNewton()`, or
            `ms.LBFGS()` for more than 100 parameters or very much data; for contrastive divergence
            `ms.RiemannianSGD`, or `ms.SGD` for more than 100 parameters.
        key: for solvers and discrepancies that draw at random.
        covariance: whether to compute standard errors.
        throw: whether to raise `NotConverged` or `SingularInformation` where no minimum was found, or to return a `Fit`
            whose `status` says so.
        progress: whether to show a progress bar: None means on a terminal, after two seconds.

    >>> x = np.array([1.2, -0.3, 0.4, 2.2, 0.9, 1.7, -5.0, 0.6])
    >>> fit = ms.fit(ms.models.StudentT(0.0, 1.0, 5.0), x)
    >>> fit.converged, {name: round(value, 3) for name, value in fit.params.items()}
    (True, {'loc': 0.912, 'scale': 0.798})
    """
    x = read_or_leave(x, space_of(model))
    if not names(model):
        raise errors.no_parameters()
    by_default = discrepancy is None
    discrepancy, ready = _ready(discrepancy or default_discrepancy(model, at_hand(x)), model, x)
    solver = _chosen(discrepancy, model, x) if solver is None else solver
    if isinstance(discrepancy, AbstractRandom) and not isinstance(solver, AbstractStochastic):
        raise errors.chains_need_steps(type(solver).__name__)
    if isinstance(x, OnDisk) and isinstance(solver, AbstractStochastic):
        raise errors.disk_steps(type(solver).__name__)
    keyed(discrepancy, key)
    if solver.needs_key and key is None:
        raise errors.no_key(type(solver).__name__)
    covariance = covariance and discrepancy.irregular is None
    if covariance and len(names(model)) > 10 * MANY:
        raise errors.too_many_for_covariance(len(names(model)))
    _check_memory(ready, model, x)
    task = _Task(model, x, solver, key, covariance, throw, progress)
    result = task.held(discrepancy) if _is_held(discrepancy) else task.solved(discrepancy, (), ready)
    result = _with_boundary(result, model, at_hand(x))
    return _checked(_with_hint(result, x) if by_default else result, x, throw)


def pilot_fit(model: LogDensity, x: Array, discrepancy: AbstractDiscrepancy) -> Fit:
    """A fit with its covariance for data that have been read, whether it converged or not, without a look at edges."""
    discrepancy, ready = _ready(discrepancy, model, x)
    return _Task(model, x, _chosen(discrepancy, model, x), None, True, False, False).solved(discrepancy, (), ready)


def _check_memory(discrepancy: AbstractDiscrepancy, model: LogDensity, x: AnyData) -> None:
    """Refuse a sum over pairs that needs more memory than there is."""
    elsewhere = is_traced(x) or isinstance(x, Sharded | OnDisk)
    if elsewhere or not isinstance(discrepancy, DKSD) or discrepancy.terms() is None:
        return
    width = discrepancy.width(model, x.shape[1])
    need, free = for_pairs(bucket(len(x)), width, x.dtype, len(names(model))), available()
    if need > free:
        raise errors.too_large(need, free, x.shape)


def _ready(
    discrepancy: AbstractDiscrepancy, model: LogDensity, x: AnyData
) -> tuple[AbstractDiscrepancy, AbstractDiscrepancy]:
    """The discrepancy, and as it is on these data; with pairs within parts only, where all would take hours."""
    ready = discrepancy.ready(model, x)
    many = len(x) > _ALL_PAIRS and not isinstance(x, Sharded | OnDisk)
    if many and isinstance(ready, DKSD) and ready.sums_all_pairs(x.shape[0], x.shape[1], x.dtype):
        discrepancy = ready = dataclasses.replace(ready, backend=Parts())
    return discrepancy, ready


_ALL_PAIRS = 100_000
"""Observations up to which a fit sums every pair, a minute's work for each pass over them."""


def _is_held(discrepancy: AbstractDiscrepancy) -> bool:
    diffusion = getattr(discrepancy, "diffusion", None)
    return isinstance(diffusion, OfModel) and not diffusion.moving


def _chosen(discrepancy: AbstractDiscrepancy, model: LogDensity, x: AnyData) -> AbstractSolver:
    p = len(names(model))
    laborious = isinstance(discrepancy, AbstractPointwise) and p * x.size > WORK
    many = p > MANY or (laborious and not isinstance(x, OnDisk))
    if isinstance(discrepancy, AbstractRandom):
        return SGD(steps=2000, average=0.5) if many else RiemannianSGD(step=falling, steps=500, batch=1000, average=0.5)
    if isinstance(discrepancy, MPF) and discrepancy.form == "l1" and not many:
        return DirectSearch()
    if p <= MANY and _is_quadratic(discrepancy, model, x):
        return ClosedForm()
    if many:
        return LBFGS()
    return QuasiNewton() if isinstance(x, OnDisk) else GaussNewton()


def _is_quadratic(discrepancy: AbstractDiscrepancy, model: LogDensity, x: AnyData) -> bool:
    """JAX remembers how a NumPy array of indices in the model was read: it must be read in one precision throughout."""
    with contextlib.nullcontext() if is_traced((x, model)) else precision(x, model):
        return discrepancy.is_quadratic(model, x.shape[1])


def falling(t: Array) -> Array:
    """Steps that fall as t^(−2/3) down to a twentieth, from where the average takes care of the noise."""
    return jnp.maximum(0.2 / (1 + t / 20) ** (2 / 3), 0.05)


def _with_boundary(result: Fit, start: LogDensity, x: Data) -> Fit:
    """Note where the Stein identity has a boundary term at the fitted model, or else at the start, and warn of it."""
    if is_traced(result):
        return result
    text = _boundary_term(result.discrepancy, result.model if result.converged else start, x)
    if not text:
        return result
    if result.converged:
        warnings.warn(text, errors.BoundaryWarning, stacklevel=3)
    return dataclasses.replace(result, notes=(*result.notes, text))


def _boundary_term(discrepancy: AbstractDiscrepancy, model: LogDensity, x: Data) -> str:
    """What is to be said about the Stein identity at the edges of the support; nothing where it holds."""
    found = stein_class(discrepancy, model, x) if isinstance(discrepancy, DKSD | DSM) else None
    return "" if found is None or found.holds else found.message


def _with_hint(result: Fit, x: AnyData) -> Fit:
    """Note where a design would have much smaller standard errors."""
    if is_traced(result) or not result.converged or result.cov is None or isinstance(result.discrepancy, MPF):
        return result
    few = _ENOUGH <= len(x) <= _MOST and len(result.names) <= _FEW
    if isinstance(x, Sharded | OnDisk) or not few or not np.isfinite(result.cov).all():
        return result
    pilot = pilot_discrepancy(result.model, x, None)
    found = learn(run(_features, (pilot, basis_on(x, pilot)), result.model, x))
    cut = 1 - found.standard_errors(len(x)) / np.array(list(result.bse.values()))
    if not (found.r_squared.min() > _SURE and cut.max() > _WORTH):
        return result
    text = errors.design_would_help(result.names[int(cut.argmax())], float(cut.max()))
    return dataclasses.replace(result, notes=(*result.notes, text))


def _features(tree: tuple, model: LogDensity, sample: Sample) -> Features:
    pilot, basis = tree
    return features_at(pilot, basis, model, sample, to_real(model))


_ENOUGH, _MOST, _FEW, _SURE, _WORTH = 200, 100_000, 20, 0.9, 0.2
"""When a design is recommended: observations, parameters, leave-one-out R², and the share by which an error is cut."""


def _checked(result: Fit, x: AnyData, throw: bool) -> Fit:
    """Raise, where that was asked for and the values are known."""
    if not throw or is_traced(result) or int(result.status) in (status.CONVERGED, status.FINISHED):
        return result
    if int(result.status) == status.NOT_FINITE:
        result.discrepancy.explain(result.model, x, float(result.loss))
    raise errors.not_converged(result)


class _Task(NamedTuple):
    """One call of `fit`, but for the discrepancy."""

    model: LogDensity
    x: AnyData
    solver: AbstractSolver
    key: Any
    covariance: bool
    throw: bool
    progress: bool | None

    def held(self, discrepancy: Any) -> Fit:
        """The fit with the diffusion held at a pilot fit, and then, if asked, at each fit until it moves no more."""
        pilot = self._pilot()
        if self.throw and not is_traced(pilot) and not pilot.converged:
            raise errors.no_pilot(pilot)
        result = _unless_failed(pilot, self.at(pilot, discrepancy))
        if not discrepancy.diffusion.refreeze or (not is_traced(result) and not result.converged):
            return result
        if is_traced(result):
            raise errors.refreeze_is_traced()
        for _ in range(_REFREEZES):
            before, result = result, self.at(result, discrepancy)
            if not result.converged or _same(before, result):
                return result
        if self.throw:
            raise errors.no_fixed_point(result, _REFREEZES)
        return eqx.tree_at(lambda fit: fit.status, result, np.asarray(status.LIMIT))

    def _pilot(self) -> Fit:
        """The fit by default."""
        x = _few(self.x)
        discrepancy, ready = _ready(default_discrepancy(self.model, x), self.model, x)
        solver = _chosen(discrepancy, self.model, x)
        return self._replace(x=x, solver=solver, covariance=False).solved(discrepancy, (), ready)

    def at(self, pilot: Fit, discrepancy: Any) -> Fit:
        """The fit with the diffusion held at another fit."""
        fixed = eqx.tree_at(lambda d: d.diffusion, discrepancy, Pointwise(discrepancy.diffusion.at(pilot.model)))
        where = "" if is_traced(pilot) else ": " + ", ".join(f"{k} = {v:.6g}" for k, v in pilot.params.items())
        return self.solved(fixed, (f"The diffusion is held at a pilot fit{where}.",), fixed.ready(self.model, self.x))

    def solved(self, discrepancy: AbstractDiscrepancy, notes: tuple[str, ...], ready: AbstractDiscrepancy) -> Fit:
        def drive(tree: tuple, model: LogDensity, sample: AnySample) -> Outcome:
            discrepancy, solver, etas = tree
            target = _objective(discrepancy, model, sample, solver.keeps)
            return searched(target, solver, etas, self.key, self.covariance, self.progress)

        solver, etas = (self._prepared if isinstance(self.x, OnDisk) else self._begun)(discrepancy)
        outcome = at_boundary(drive, (ready, solver, etas), self.model, self.x)
        if isinstance(discrepancy, AbstractPairwise) and discrepancy.unbiased:
            discrepancy, notes = _statistic(discrepancy, outcome, notes)
        notes += (
            _pairing(ready, self.x)
            + _reading(self.x)
            + _monte_carlo(outcome)
            + ((discrepancy.irregular,) if discrepancy.irregular else ())
        )
        return Fit(
            model=with_theta(self.model, outcome.theta),
            theta=outcome.theta,
            discrepancy=discrepancy,
            loss=outcome.value,
            status=outcome.status,
            steps=outcome.steps,
            condition=outcome.condition,
            cov=outcome.cov,
            as_v=outcome.as_v,
            trace=outcome.trace if is_traced(outcome) else outcome.trace[: int(outcome.steps) + 1],
            key=self.key,
            n=self.x.shape[0],
            d=self.x.shape[1],
            names=names(self.model),
            links=links(self.model),
            solver=repr(self.solver),
            notes=notes,
        )

    def _starts(self, discrepancy: AbstractDiscrepancy) -> Float[Array, "k p"]:
        """The model's own values, and its family's start on the data, unless the model itself is being traced.

        For a discrete model and a loss that is not convex, a fit by MPF, which often is. A design has an estimate.
        """
        if isinstance(discrepancy, DKSD) and isinstance(discrepancy.kernel, Designed):
            rows = to_real(with_theta(self.model, discrepancy.kernel.theta))
            return rows[None]
        models = [self.model]
        if isinstance(self.model, AbstractFamily) and not is_traced(self.model):
            models.append(self.model.start(self.x))
        if isinstance(discrepancy, DFD | DiscreteKSD):
            models.append(fit(models[-1], self.x, MPF(), covariance=False, throw=False, progress=self.progress).model)
        rows = [to_real(model) for model in models]
        return (jnp if is_traced(rows) else np).stack(rows)

    def _begun(self, discrepancy: AbstractDiscrepancy) -> tuple[AbstractSolver, Float[Array, "k p"]]:
        return self.solver, self._starts(discrepancy)

    def _prepared(self, discrepancy: AbstractDiscrepancy) -> tuple[AbstractSolver, Float[Array, "k p"]]:
        """The solver and its start from a fit of few rows, after which few passes over all of them are left to do."""
        rows, solver = _few(self.x), self.solver
        there = self._replace(x=rows, covariance=False, solver=getattr(solver, "otherwise", solver))
        etas = there._starts(discrepancy)
        if isinstance(solver, ClosedForm):
            return solver, etas
        ready = discrepancy.ready(self.model, rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.StatisticWarning)
            found = there.solved(discrepancy, (), ready)
        if not found.converged or found.as_v:
            return solver, etas
        if isinstance(solver, QuasiNewton):
            hessian, noise = run(_curved, ready, found.model, rows)
            solver = solver.at(hessian, noise * len(rows) / len(self.x))
        return solver, np.stack([to_real(found.model)])


def _curved(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: Sample) -> tuple[Array, Array]:
    """The Hessian in η, and the noise of the loss."""
    target, eta = objective(discrepancy, model, sample), to_real(model)
    return target.second(eta).hessian, target.jet(eta).noise


_REFREEZES = 50


def _same(before: Fit, after: Fit) -> bool:
    """Whether two fits agree to eight digits of the largest parameter."""
    return bool(np.max(np.abs(before.theta - after.theta)) <= 1e-8 * np.max(np.abs(after.theta)))


def _unless_failed(pilot: Fit, result: Fit) -> Fit:
    """A fit at a pilot that has failed has failed with it."""
    xp = jnp if is_traced((pilot, result)) else np
    code = xp.where(xp.asarray(pilot.status) == status.CONVERGED, result.status, pilot.status)
    result = eqx.tree_at(lambda fit: fit.status, result, code)
    if result.cov is None:
        return result
    return eqx.tree_at(lambda fit: fit.cov, result, xp.where(code == status.CONVERGED, result.cov, xp.nan))


def _pairing(discrepancy: AbstractDiscrepancy, x: AnyData) -> tuple[str, ...]:
    """What a fit says of its pair sums, where they are not the plain ones."""
    backend = discrepancy.pairing(x.shape[0], x.shape[1], x.dtype) if isinstance(discrepancy, DKSD) else None
    if isinstance(discrepancy, DKSD) and isinstance(discrepancy.backend, Parts):
        parts = discrepancy.backend.count(x.shape[0])
        return (errors.only_parts(x.shape[0], parts),) if parts > 1 else ()
    if isinstance(discrepancy, DKSD) and isinstance(discrepancy.backend, Nystrom):
        return (errors.only_landmarks(min(discrepancy.backend.landmarks, x.shape[0])),)
    if backend not in ("lines", "fourier"):
        return ()
    return (
        f'The pairs were summed in linear time, to ten digits or more of the largest term (the backend "{backend}").',
    )


def at_hand(x: AnyData) -> Float[Array | Sharded, "k d"]:
    """The data themselves or, of rows on disk, some in memory."""
    return x.impression if isinstance(x, OnDisk) else x


def _few(x: AnyData) -> Float[Array | Sharded, "k d"]:
    """The data themselves or, of rows on disk, so few that a fit of them is quick."""
    rows = at_hand(x)
    return rows[:: -(-len(rows) // _QUICK)] if isinstance(x, OnDisk) else rows


_QUICK = 1 << 12
"""Rows on disk that are fitted before all are."""


def _reading(x: AnyData) -> tuple[str, ...]:
    """What a fit says of rows on disk."""
    if not isinstance(x, OnDisk):
        return ()
    return (
        f"The rows were read from disk in blocks of {x.block}; scales that were not given are those of "
        f"{len(x.impression)} of them, and the search began at a fit of {len(_few(x))}.",
    )


def _monte_carlo(outcome: Outcome) -> tuple[str, ...]:
    """What a fit by Markov chains says of their noise."""
    if outcome.chains is None or is_traced(outcome):
        return ()
    jitter, error, moved = outcome.chains
    return (
        f"The chain moved in {100 * float(moved):.3g} % of its steps. "
        f"Monte-Carlo errors: {float(error):.2g} of the loss, at most {float(np.max(jitter)):.2g} of a parameter on "
        "its unconstrained scale.",
    )


def _statistic(discrepancy: AbstractPairwise, outcome: Outcome, notes: tuple) -> tuple[AbstractPairwise, tuple]:
    """The discrepancy as it was used in the end, with a warning where that is the V-statistic instead of the U."""
    if is_traced(outcome) or not outcome.as_v:
        return discrepancy, notes
    warnings.warn(errors.not_convex(), errors.StatisticWarning, stacklevel=4)
    return discrepancy.as_v(), (*notes, errors.not_convex())


@eqx.filter_jit
def _objective(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample, keep: bool) -> AbstractObjective:
    return objective(discrepancy, model, sample, keep=keep)
