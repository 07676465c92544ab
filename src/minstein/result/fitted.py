"""What a fit returns."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from .. import errors
from .._text import clean
from .._types import Array, is_traced, namespace
from ..data.in_memory import as_rows
from ..data.rows import Data
from ..discrepancies.base import AbstractDiscrepancy
from ..params import theta
from ..solvers import status
from .intervals import Wald, interval, wald, width
from .storage import Missing, not_a_fit, read, write
from .summary import Summary
from .validity import flaw


class Fit(eqx.Module):
    """A fitted model, how it was found, and how far to trust it. It holds no data and computes
    nothing later.

    Made by `ms.fit`; under `vmap` the arrays have a leading axis of replications.

    Attributes:
        model: the fitted model.
        theta: the estimates as a vector, in the order of `names`.
        discrepancy: the one that was minimised, with a θ-dependent diffusion held where it was
            held.
        loss: its value at the fitted model.
        status: how the search ended, a number of `minstein.status`; `converged` and `message` put
            it in words.
        steps: iterations of the search that won.
        condition: the condition number of the Hessian, in units in which its diagonal is one.
        cov: the covariance of the estimates, or None where it was not asked for; NaN where the fit
            has not converged.
        as_v: whether the V-statistic had to stand in for a U-statistic without a minimum.
        trace: the loss at each step.
        n, d: the shape of the data.
        solver: what was done, in words.
        notes: what else one should know.
        key: the key of the search where it was random.
        data: a digest of the sample, by which other data are refused where the same are needed;
            empty if unknown, as for rows on disk or on several devices.
        used: how many parameters the estimating equation of each one involves, by which intervals
            and Wald tests are corrected for small samples; None if that is not known, and then all
            are counted.
        solver_kind: the name of the solver's class; empty in files that are older than it.

    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())
    >>> fit.params, fit.converged, fit.n
    ({'loc': 3.0}, True, 3)
    """

    model: Any
    theta: Float[Array, "*r p"]
    discrepancy: AbstractDiscrepancy
    loss: Float[Array, "*r"]
    status: Int[Array, "*r"]
    steps: Int[Array, "*r"]
    condition: Float[Array, "*r"]
    cov: Float[Array, "*r p p"] | None
    as_v: Bool[Array, "*r"]
    trace: Float[Array, "*r t"]
    key: Any
    n: int = eqx.field(static=True)
    d: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    links: tuple[str, ...] = eqx.field(static=True)
    solver: str = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)
    data: str = eqx.field(static=True, default="")
    used: Float[Array, "*r p"] | None = None
    solver_kind: str = eqx.field(static=True, default="")

    @property
    def model_name(self) -> str:
        """The name of the model's class, or of a model of one's own that is not in the file."""
        return self.model.text if isinstance(self.model, Missing) else type(self.model).__name__

    @property
    def converged(self) -> Any:
        """Whether a minimum was found: true or false, or an array of them for replications."""
        return _numbers(_plain(self.status) == status.CONVERGED)

    @property
    def message(self) -> str:
        """How the search ended, in words."""
        if not self._batch:
            return status.MEANING[int(self.status)]
        codes, counts = np.unique(np.asarray(self.status), return_counts=True)
        return " ".join(
            f"{count}: {status.MEANING[int(code)]}"
            for code, count in zip(codes, counts, strict=True)
        )

    @property
    def params(self) -> dict[str, Any]:
        """The estimates by name, on their natural scale."""
        return self._by_name(self.theta)

    @property
    def bse(self) -> dict[str, Any]:
        """Standard errors by name; NaN where the fit has not converged or none were asked for."""
        if self.cov is None:
            return self._by_name(np.full((*np.shape(self.loss), len(self.names)), np.nan))
        cov = _plain(self.cov)
        xp = namespace(cov)
        return self._by_name(xp.sqrt(xp.diagonal(cov, axis1=-2, axis2=-1)))

    def cov_params(self) -> Float[Array, "*r p p"]:
        """The covariance matrix of the estimates, in the order of `names`."""
        if self.cov is None:
            raise _no_covariance(self.discrepancy.irregular)
        return _plain(self.cov)

    def conf_int(self, alpha: Any = 0.05) -> dict[str, tuple[Any, Any]]:
        """Intervals of level 1 − alpha by name: t(n − k) · √(n/(n − k)) standard errors to either
        side.

        k is how many parameters the equation of the estimate involves, `used`. Those of positive
        parameters are symmetric in the logarithm and stay positive; those of weights stay in (0,
        1). NaN where the fit has not converged, or where k is not below n.
        """
        half = width(alpha, self.n, self._used)
        estimates, errors_ = self.params, self.bse
        ends = (
            interval(estimates[name], errors_[name], link, half[..., i])
            for i, (name, link) in enumerate(zip(self.names, self.links, strict=True))
        )
        return {
            name: (_numbers(low), _numbers(high))
            for name, (low, high) in zip(self.names, ends, strict=True)
        }

    def wald_test(self, R: Any, r: Any = 0.0) -> Wald:
        """The Wald test of the linear hypothesis Rθ = r, or of a smaller model.

        A hypothesis about one parameter has a p-value below alpha exactly if its value is outside
        the interval of level 1 − alpha, unless the parameter is positive or a weight: intervals of
        those are on another scale.

        Args:
            R: a row for each hypothesis, a column for each parameter; or the fit of the same model
                with some of its parameters held by `ms.fixed`, to test whether they are what they
                were held at.
            r: what Rθ is under the hypothesis.
        """
        if self._batch or not self.converged:
            raise ValueError(f"A Wald test needs one fit that converged. {self.message}")
        if isinstance(R, Fit):
            R, r = _held(R, self)
        return wald(_plain(self.theta), self.cov_params(), R, r, self.n, self._used)

    def summary(self, alpha: Any = 0.05) -> Summary:
        """The fit as a table: estimates, standard errors, intervals, and what was done. Print it,
        or convert it.
        """
        if self._batch:
            raise ValueError("A summary is of one fit; these are replications.")
        shown = self.names if len(self.names) <= _MOST_ROWS else self.names[:_FEW_ROWS]
        more = (
            ()
            if shown == self.names
            else (f"… and {len(self.names) - len(shown)} more parameters.",)
        )
        columns, rows = _table(self, shown, alpha)
        rows = tuple((clean(name), values) for name, values in rows)
        facts = tuple((name, clean(value)) for name, value in _facts(self))
        notes = more + _without_intervals(self) + self.notes
        return Summary(clean(_title(self)), facts, columns, rows, tuple(map(clean, notes)))

    def _by_name(self, values: Float[Array, "*r p"]) -> dict[str, Any]:
        values = _plain(values)
        return {name: _numbers(values[..., i]) for i, name in enumerate(self.names)}

    @property
    def _used(self) -> Float[Array, "*r p"]:
        """`used`, or all parameters where it is not known: in older files, and while JAX is
        tracing.
        """
        if self.used is None or is_traced(self.used):
            return np.full(len(self.names), float(len(self.names)))
        return np.asarray(self.used)

    @property
    def _batch(self) -> bool:
        return np.ndim(self.loss) > 0

    def save(self, path: str | Path) -> None:
        """Write the fit to a JSON file; `ms.load(path)` reads it back. The file is complete or not
        there.
        """
        write(self, path)

    def __repr__(self) -> str:
        names = clean(", ".join(self.names))
        if is_traced(self):
            return f"<Fit of {names}, being traced>"
        if self._batch:
            return f"<{np.size(self.loss)} fits of {names} to n = {self.n}. {self.message}>"
        return str(self.summary())


def check_sample(fit: Fit, x: Data) -> None:
    """Refuse data that have been read and are not the sample that the fit was made from."""
    if x.shape != (fit.n, fit.d):
        raise _another_sample(
            f"has shape {x.shape}, but the fit was made from a sample of shape {fit.n, fit.d}"
        )
    if fit.data and as_rows(x).digest() not in ("", fit.data):
        raise _another_sample(
            "has other values, or the same in another order, than the fit was made from"
        )


def _held(smaller: Fit, larger: Fit) -> tuple[Array, Array]:
    """R and r of the hypothesis that what only the larger model fits is as the smaller one has it."""
    extra = [name not in smaller.names for name in larger.names]
    values = jax.tree.leaves(smaller.model)
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(larger.model)]
    if (
        shapes != [np.shape(leaf) for leaf in values]
        or not any(extra)
        or not set(smaller.names) <= set(larger.names)
    ):
        raise ValueError(
            f"The fit of {', '.join(smaller.names)} is not nested in that of {', '.join(larger.names)}. "
            "Fit the same model with some of its parameters held: ms.fixed(value)."
        )
    at_smaller = jax.tree.unflatten(jax.tree.structure(larger.model), values)
    return np.eye(len(extra))[extra], theta(at_smaller)[extra]


_MOST_ROWS, _FEW_ROWS = 30, 5
"""A fit with more parameters than the first number shows only as many as the second."""


def _title(fit: Fit) -> str:
    variables = f" of {fit.d} variables" if fit.d > 1 else ""
    return f"{fit.model_name}, {fit.n} observations{variables}"


def _without_intervals(fit: Fit) -> tuple[str, ...]:
    """For which estimates there are no intervals, although there are standard errors."""
    without = [name for name, k in zip(fit.names, fit._used, strict=True) if k >= fit.n]
    if not without or not fit.converged or fit.cov is None:
        return ()
    which = ", ".join(without[:_FEW_ROWS]) + (", …" if len(without) > _FEW_ROWS else "")
    return (
        f"No intervals for {len(without)} of {len(fit.names)} parameters ({which}): their equations involve as many "
        f"parameters as there are observations, {fit.n}, or more, so that nothing is left to tell the error from.",
    )


def _table(fit: Fit, shown: tuple[str, ...], alpha: Any) -> tuple[tuple[str, ...], tuple]:
    """Columns and rows; estimates alone where there are no standard errors."""
    estimates, spread = fit.params, fit.bse
    if not fit.converged or not np.isfinite(list(spread.values())).all():
        return ("estimate",), tuple((name, (estimates[name],)) for name in shown)
    ends = fit.conf_int(alpha)
    columns = ("estimate", "std. error", f"{100 * (1 - alpha):g} % from", "to")
    return columns, tuple((name, (estimates[name], spread[name], *ends[name])) for name in shown)


def _facts(fit: Fit) -> tuple[tuple[str, str], ...]:
    """What was minimised, how, and how it ended."""
    discrepancy = fit.discrepancy
    facts = [("Loss", f"{float(fit.loss):.6g}, {discrepancy.kind}"), *discrepancy.facts()]
    steps = f"{int(fit.steps)} step{'s' if int(fit.steps) != 1 else ''}"
    facts += [("Solver", f"{fit.solver}, {steps}"), ("Status", fit.message)]
    if np.isfinite(fit.condition):
        facts.append(("Condition", f"{float(fit.condition):.3g}"))
    if fit.converged and fit.cov is not None:
        facts.append(("Errors", _SANDWICH if np.isfinite(fit.cov).all() else _NOT_SMOOTH))
    return tuple(facts)


_SANDWICH = "sandwich, from the Hessian of the loss that was minimised"
_NOT_SMOOTH = "none, as the loss is not smooth at its minimum; see ms.bootstrap"


def _plain(array: Array) -> Array:
    """A NumPy array, which keeps its digits whatever JAX's settings are, unless JAX is tracing."""
    return array if is_traced(array) else np.asarray(array)


def _numbers(array: Any) -> Any:
    """A Python number for a single value that is known, else the array."""
    return array if is_traced(array) or np.ndim(array) else array.item()


def load(path: str | Path, *, model: Any = None, discrepancy: Any = None) -> Fit:
    """Read a fit that `fit.save(path)` wrote. Nothing in the file is executed.

    Args:
        path: the file.
        model: where the model has functions or modules of your own: the model that was fitted, to
            take them from.
        discrepancy: likewise, for a kernel or a diffusion that is a function.

    >>> import tempfile
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(f"{folder}/fit.json")
    ...     same = ms.load(f"{folder}/fit.json")
    >>> same.params == fit.params
    True
    """
    fit = read(path, SimpleNamespace(model=model, discrepancy=discrepancy))
    reason = flaw(fit) if isinstance(fit, Fit) else "it holds something else"
    if reason:
        raise not_a_fit(path, reason)
    return fit


@errors.explained("inference.md")
def _no_covariance(irregular: str | None) -> ValueError:
    if irregular:
        return ValueError(irregular)
    return ValueError(
        "The fit was made with covariance=False, so it has no standard errors. Fit again without it."
    )


@errors.explained("inference.md")
def _another_sample(how: str) -> ValueError:
    return ValueError(f"x {how}. A fit holds no data: pass the same x again.")
