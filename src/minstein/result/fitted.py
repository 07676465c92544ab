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

    `ms.fit` returns it; under `vmap` the arrays have a leading axis of replications.

    Attributes:
        model: the fitted model.
        theta: the estimates as a vector, in the order of `names`.
        discrepancy: the discrepancy that was minimised; a θ-dependent diffusion is the one that was
            held.
        loss: its value at the fitted model.
        status: how the search ended, one of the numbers in `minstein.status`; `converged` and
            `message` put it in words.
        steps: the number of iterations of the search that won.
        condition: the condition number of the Hessian, in units in which its diagonal is one.
        cov: the covariance of the estimates; None if it was not asked for, NaN if the fit has not
            converged.
        as_v: whether a V-statistic replaced a U-statistic that had no minimum.
        trace: the loss at each step.
        n, d: the shape of the data.
        solver: the solver, in words.
        notes: other things that one should know.
        key: the key of the search if it was random.
        data: a digest of the sample, by which other data are refused if the same are needed;
            empty if unknown, as for rows on disk or on several devices.
        used: the number of parameters in the estimating equation of each parameter, by which
            intervals and Wald tests are corrected for small samples; None if it is not known, and
            then all parameters are counted.
        solver_kind: the name of the solver's class; empty in files of earlier versions.

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
    rivals: int = eqx.field(static=True, default=0)

    @property
    def model_name(self) -> str:
        """The name of the model's class, or the saved name of a model that is not in the file."""
        return self.model.text if isinstance(self.model, Missing) else type(self.model).__name__

    @property
    def converged(self) -> Any:
        """Whether a minimum was found: a boolean, or an array of them for replications."""
        return _numbers(_plain(self.status) == status.CONVERGED)

    @property
    def message(self) -> str:
        """How the search ended, in words."""
        if not self._batch:
            return status.MEANING[int(self.status)]
        counts = zip(*np.unique(np.asarray(self.status), return_counts=True), strict=True)
        return " ".join(f"{count}: {status.MEANING[int(code)]}" for code, count in counts)

    @property
    def params(self) -> dict[str, Any]:
        """The estimates by name, on their natural scale."""
        return self._by_name(self.theta)

    @property
    def bse(self) -> dict[str, Any]:
        """Standard errors by name; NaN if the fit has not converged or none were asked for."""
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

        k is the number of parameters in the equation of the estimate, `used`. Intervals of positive
        parameters are symmetric in the logarithm and stay positive; those of weights stay in (0,
        1). NaN if the fit has not converged, or if k is not below n.
        """
        half, centre, spread = width(alpha, self.n, self._used), self.params, self.bse
        found = {}
        for i, (name, link) in enumerate(zip(self.names, self.links, strict=True)):
            low, high = interval(centre[name], spread[name], link, half[..., i])
            found[name] = (_numbers(low), _numbers(high))
        return found

    def wald_test(self, R: Any, r: Any = 0.0) -> Wald:
        """The Wald test of the linear hypothesis Rθ = r, or of a smaller model.

        A hypothesis about one parameter has a p-value below alpha exactly if its value is outside
        the interval of level 1 − alpha, unless the parameter is positive or a weight, whose
        intervals are on another scale.

        Args:
            R: a row for each hypothesis, a column for each parameter; or the fit of the same model
                with some of its parameters held by `ms.fixed`, to test whether they have these
                values.
            r: the value of Rθ under the hypothesis.
        """
        if self._batch or not self.converged:
            raise ValueError(f"A Wald test needs one fit that converged. {self.message}")
        if isinstance(R, Fit):
            R, r = _held(R, self)
        return wald(_plain(self.theta), self.cov_params(), R, r, self.n, self._used)

    def summary(self, alpha: Any = 0.05) -> Summary:
        """The fit as a table of estimates, standard errors and intervals, with what was done. Print
        it, or convert it.
        """
        if self._batch:
            raise ValueError("A summary is of one fit; these are replications.")
        hidden = len(self.names) - _FEW_ROWS if len(self.names) > _MOST_ROWS else 0
        columns, rows = _table(self, alpha)
        notes = [f"… and {hidden} more parameters."] if hidden else []
        notes += [*_without_intervals(self), *self.notes]
        variables = f" of {self.d} variables" if self.d > 1 else ""
        return Summary(
            clean(f"{self.model_name}, {self.n} observations{variables}"),
            tuple((name, clean(value)) for name, value in _facts(self)),
            columns,
            rows[: len(rows) - hidden],
            tuple(map(clean, notes)),
        )

    def _by_name(self, values: Float[Array, "*r p"]) -> dict[str, Any]:
        values = _plain(values)
        return {name: _numbers(values[..., i]) for i, name in enumerate(self.names)}

    @property
    def _used(self) -> Float[Array, "*r p"]:
        """`used`, or all parameters if it is not known, as in older files and while JAX is tracing."""
        unknown = self.used is None or is_traced(self.used)
        return (
            np.full(len(self.names), float(len(self.names))) if unknown else np.asarray(self.used)
        )

    @property
    def _batch(self) -> bool:
        return np.ndim(self.loss) > 0

    def save(self, path: str | Path) -> None:
        """Write the fit to a JSON file, whole or not at all; `ms.load(path)` reads it back."""
        write(self, path)

    def __repr__(self) -> str:
        names = clean(", ".join(self.names))
        if is_traced(self):
            return f"<Fit of {names}, being traced>"
        if self._batch:
            return f"<{np.size(self.loss)} fits of {names} to n = {self.n}. {self.message}>"
        return str(self.summary())


def check_sample(fit: Fit, x: Data) -> None:
    """Raise if data that have been read are not the sample that was fitted."""
    if x.shape != (fit.n, fit.d):
        raise _another_sample(
            f"has shape {x.shape}, but the fit was made from a sample of shape {fit.n, fit.d}"
        )
    if fit.data and as_rows(x).digest() not in ("", fit.data):
        raise _another_sample(
            "has other values, or the same in another order, than the sample that was fitted"
        )


def _held(smaller: Fit, larger: Fit) -> tuple[Array, Array]:
    """R and r of the hypothesis that parameters of only the larger model have the values that they
    have in the smaller one.
    """
    extra = [name not in smaller.names for name in larger.names]
    shapes = lambda fit: [np.shape(leaf) for leaf in jax.tree.leaves(fit.model)]
    nested = any(extra) and set(smaller.names) <= set(larger.names)
    if not nested or shapes(smaller) != shapes(larger):
        raise ValueError(
            f"The fit of {', '.join(smaller.names)} is not nested in that of {', '.join(larger.names)}. "
            "Fit the same model with some of its parameters held: ms.fixed(value)."
        )
    structure = jax.tree.structure(larger.model)
    at_smaller = jax.tree.unflatten(structure, jax.tree.leaves(smaller.model))
    return np.eye(len(extra))[extra], theta(at_smaller)[extra]


_MOST_ROWS, _FEW_ROWS = 30, 5
"""A summary shows at most the first number of parameters; if there are more, only the second."""


def _without_intervals(fit: Fit) -> tuple[str, ...]:
    """A note on the estimates that have standard errors but not intervals, if there are any."""
    without = [name for name, k in zip(fit.names, fit._used, strict=True) if k >= fit.n]
    if not without or not fit.converged or fit.cov is None:
        return ()
    which = ", ".join(without[:_FEW_ROWS]) + (", …" if len(without) > _FEW_ROWS else "")
    return (
        f"No intervals for {len(without)} of {len(fit.names)} parameters ({which}): their equations involve "
        f"at least as many parameters as there are observations, {fit.n}, so no degrees of freedom are left.",
    )


def _table(fit: Fit, alpha: Any) -> tuple[tuple[str, ...], tuple]:
    """Columns and rows of a summary; only estimates if there are no standard errors."""
    estimates, spread = fit.params, fit.bse
    if not fit.converged or not np.isfinite(list(spread.values())).all():
        return ("estimate",), tuple((clean(name), (estimates[name],)) for name in fit.names)
    ends = fit.conf_int(alpha)
    columns = ("estimate", "std. error", f"{100 * (1 - alpha):g} % from", "to")
    return columns, tuple((clean(n), (estimates[n], spread[n], *ends[n])) for n in fit.names)


def _facts(fit: Fit) -> tuple[tuple[str, str], ...]:
    """What was minimised, how, and how it ended."""
    discrepancy = fit.discrepancy
    facts = [("Loss", f"{float(fit.loss):.6g}, {discrepancy.kind}"), *discrepancy.facts()]
    steps = f"{int(fit.steps)} step{'s' if int(fit.steps) != 1 else ''}"
    facts += [("Solver", f"{fit.solver}, {steps}"), ("Status", fit.message)]
    if np.isfinite(fit.condition):
        facts.append(("Condition", f"{float(fit.condition):.3g}"))
    if fit.converged and fit.cov is not None:
        facts.append(
            ("Errors", discrepancy.errors_by if np.isfinite(fit.cov).all() else _NOT_SMOOTH)
        )
    return tuple(facts)


_NOT_SMOOTH = "none, because the loss is not smooth at its minimum; see ms.bootstrap"


def _plain(array: Array) -> Array:
    """A NumPy array, which keeps its precision whatever JAX's settings are, unless JAX is tracing."""
    return array if is_traced(array) else np.asarray(array)


def _numbers(array: Any) -> Any:
    """A Python number for a single value that is known, else the array."""
    return array if is_traced(array) or np.ndim(array) else array.item()


def load(path: str | Path, *, model: Any = None, discrepancy: Any = None) -> Fit:
    """Read a fit that `fit.save(path)` wrote. Nothing in the file is executed.

    Args:
        path: the file.
        model: the model that was fitted, if it has functions or modules of your own, which are not
            in the file.
        discrepancy: likewise the discrepancy, if its kernel or diffusion is a function.

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
