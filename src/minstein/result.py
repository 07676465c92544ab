"""What a fit returns."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from . import errors, status
from ._types import Array, is_traced, namespace
from .discrepancies import DKSD, AbstractDiscrepancy
from .storage import read, write


class Fit(eqx.Module):
    """A fitted model, how it was found, and how far to trust it. It holds no data and computes nothing later.

    Made by `ms.fit`; under `vmap` the arrays have a leading axis of replications.

    Attributes:
        model: the fitted model.
        theta: the estimates as a vector, in the order of `names`.
        discrepancy: the one that was minimised, with a θ-dependent diffusion held where it was held.
        loss: its value at the fitted model.
        status: how the search ended, a number of `minstein.status`; `converged` and `message` put it in words.
        steps: iterations of the search that won.
        condition: the condition number of the Hessian, in units in which its diagonal is one.
        cov: the covariance of the estimates, or None where it was not asked for; NaN where the fit has not converged.
        as_v: whether the V-statistic had to stand in for a U-statistic without a minimum.
        trace: the loss at each step.
        n, d: the shape of the data.
        solver: what was done, in words.
        notes: what else one should know.
        key: the key of the search where it was random.
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
    solver: str = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)

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
        return " ".join(f"{count}: {status.MEANING[int(code)]}" for code, count in zip(codes, counts, strict=True))

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

    def _by_name(self, values: Float[Array, "*r p"]) -> dict[str, Any]:
        values = _plain(values)
        return {name: _numbers(values[..., i]) for i, name in enumerate(self.names)}

    @property
    def _batch(self) -> bool:
        return np.ndim(self.loss) > 0

    def save(self, path: str | Path) -> None:
        """Write the fit to a JSON file; `ms.load(path)` reads it back. The file is complete or not there."""
        write(self, path)

    def __repr__(self) -> str:
        if is_traced(self):
            return f"<Fit of {', '.join(self.names)}, being traced>"
        if self._batch:
            return f"<{np.size(self.loss)} fits of {', '.join(self.names)} to n = {self.n}. {self.message}>"
        return "\n".join([self._head(), *self._table(), *self._foot()])

    def _head(self) -> str:
        kind = f"{type(self.model).__name__}, {self.n} observations"
        return kind + (f" of {self.d} variables" if self.d > 1 else "")

    def _table(self) -> list[str]:
        shown = self.names if len(self.names) <= 30 else self.names[:5]
        width = max(map(len, shown))
        estimates, spread = self.params, self.bse
        sure = self.converged and bool(np.isfinite(list(spread.values())).all())
        head = f"{'':{width}}  {'estimate':>12}" + (f"  {'std. error':>12}" if sure else "")
        rows = [
            f"{name:{width}}  {estimates[name]:12.6g}" + (f"  {spread[name]:12.4g}" if sure else "") for name in shown
        ]
        more = [] if len(shown) == len(self.names) else [f"… and {len(self.names) - len(shown)} more"]
        return [head, *rows, *more]

    def _foot(self) -> list[str]:
        statistic = ""
        if isinstance(self.discrepancy, DKSD):
            statistic = f" ({'U' if self.discrepancy.unbiased else 'V'}-statistic)"
        steps = f"{int(self.steps)} step{'s' if self.steps != 1 else ''}"
        lines = [
            f"loss {float(self.loss):.6g}{statistic}: {self.discrepancy}",
            f"{self.solver}, {steps}, condition number {float(self.condition):.3g}. {self.message}",
        ]
        return lines + [f"Note: {note}" for note in self.notes]


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
        model: where the model has functions or modules of your own: the model that was fitted, to take them from.
        discrepancy: likewise, for a kernel or a diffusion that is a function.
    """
    fit = read(path, SimpleNamespace(model=model, discrepancy=discrepancy))
    if not isinstance(fit, Fit):
        raise errors.not_a_fit(path)
    return fit
