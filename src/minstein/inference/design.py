"""`design`: a discrepancy for a model and a sample, after what is wanted of the estimate."""

from typing import Any

from .._types import LogDensity
from ..data.checks import no_parameters
from ..data.in_memory import as_rows
from ..data.reading import read
from ..data.spaces import needs_continuous, space_of
from ..discrepancies.base import AbstractDiscrepancy
from ..discrepancies.names import GOALS, as_discrepancy
from ..discrepancies.support import support_of
from ..fit import fit
from ..params import names


def design(
    model: LogDensity, x: Any, goal: str = "efficient", *, support: tuple[Any, Any] | None = None
) -> AbstractDiscrepancy:
    """Return the discrepancy that `ms.fit(model, x, goal=goal)` uses.

    For `goal="efficient"` it is `ms.Efficient`: fields are placed on the data, and their best
    combination is learned at each θ by least squares of ∂_θ log p on Stein features. If the
    equations are rejected, it is what is used instead, score matching or KSD.

    For `goal="robust"` it is DKSD with the diffusion exp(−r²/2a²), r the distance from the median in
    robust units. The weight is left out if the score of the model falls off far from the data
    anyway. An efficient design is not robust.

    Args:
        model: log p_θ(x) up to a constant, a start for the pilot fit.
        x: the sample, of shape (n, d) or (n,).
        goal: "efficient" or "robust".
        support: (low, high), numbers or shape (d,), infinite where there is no edge, for models on
            a half-line or a box; None means that edges are looked for, unless JAX is transforming
            the call.

    >>> x = np.array([1.2, -0.3, 0.4, 2.2, 0.9, 1.7, -5.0, 0.6])
    >>> ms.design(ms.models.Gaussian(0.0, 1.0), x, "robust").diffusion
    Pointwise(field=Redescending(a=2.5, centre=[0.75], scale=[1.03782]))
    """
    x = read(x, space_of(model))
    if space_of(model).discrete:
        raise needs_continuous("design", space_of(model))
    if not names(model):
        raise no_parameters()
    if goal not in GOALS:
        raise ValueError(f'goal must be "efficient" or "robust", got {goal!r}.')
    if goal == "robust":
        return as_discrepancy(goal, model, as_rows(x), support_of(model, x, support))
    return fit(
        model, x, goal=goal, support=support, covariance=False, throw=False, progress=False
    ).discrepancy
