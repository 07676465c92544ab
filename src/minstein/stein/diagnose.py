"""Find the observations at which a model or a loss is not finite."""

from typing import Any, NoReturn

import jax
import numpy as np

from .. import errors
from .._types import Array, LogDensity, is_traced, namespace
from ..data.boundary import run
from ..data.in_memory import as_rows
from ..data.rows import AbstractRows, Data
from ..data.sample import Sample
from ..params import unwrap
from .matrix_fields import divergence
from .operator import check_density, field_at, score


def explain(discrepancy: Any, model: LogDensity, x: Data, loss: float) -> NoReturn:
    """Raise an error that names the observations at which the score or the diffusion is not finite."""
    problem = as_rows(x).first_problem(lambda rows: _find_problem(discrepancy, model, rows))
    raise problem or _bad_loss(loss)


def _find_problem(discrepancy: Any, model: LogDensity, x: AbstractRows) -> ValueError | None:
    """Return an error that names the rows at which score, diffusion or divergence is not finite."""
    parts = run(_ingredients, discrepancy, model, x, by_rows=True)
    scores, fields, divergences = (x.flags(~namespace(part).isfinite(part)) for part in parts)
    if scores.any():
        return _bad_score(scores)
    if fields.any():
        return _bad_feature("The diffusion m", fields)
    if divergences.any():
        return _bad_feature("The divergence of the diffusion", divergences)
    return None


def _ingredients(discrepancy: Any, model: LogDensity, sample: Sample) -> tuple[Array, Array, Array]:
    """Score, diffusion and divergence of the diffusion at each observation."""
    model = unwrap(model)

    def one(x: Array) -> tuple[Array, Array, Array]:
        field = field_at(model, discrepancy.diffusion, x)
        return score(model, x), field(x), divergence(field, x)

    return jax.tree.map(sample.in_place, jax.vmap(one)(sample.x))


def check_possible(model: LogDensity, x: Data) -> None:
    """Raise if log p is not finite at some observations, naming them.

    The score may be finite at points where log p is not, so the loss would not reveal it. A model
    that provides a rough estimate (`start`) need only be possible at that estimate.
    """
    if is_traced((model, x)):
        return
    problem = density_problem(model, x)
    place = getattr(model, "start", None)
    if problem and (place is None or density_problem(place(as_rows(x).plain), x)):
        raise problem


def density_problem(model: LogDensity, x: Data) -> ValueError | None:
    """Return an error that names the observations at which log p is not finite, or None."""

    def problem(rows: AbstractRows) -> ValueError | None:
        bad = rows.flags(run(_not_finite, None, model, rows, by_rows=True))
        return _bad_log_density(bad) if bad.any() else None

    return as_rows(x).first_problem(problem)


def _not_finite(_: None, model: LogDensity, sample: Sample) -> Array:
    """Whether log p is not finite, at each observation."""
    check_density(unwrap(model), sample.x[0])
    return sample.in_place(~jax.numpy.isfinite(jax.vmap(unwrap(model))(sample.x)))


@errors.explained("your-own-model.md")
def _bad_log_density(bad: np.ndarray) -> ValueError:
    return ValueError(
        f"log p is not finite at {errors.rows_text(bad)}. Usual causes: (a) an observation outside "
        "the support of the model: "
        "transform or drop it; (b) a parameter out of its range: mark it with ms.positive(...)."
    )


@errors.explained("your-own-model.md")
def _bad_score(bad: np.ndarray) -> ValueError:
    rows = errors.rows_text(np.asarray(bad.any(axis=1)))
    coordinates = ", ".join(str(j) for j in np.flatnonzero(bad.any(axis=0)))
    return ValueError(
        f"The score ∇log p of the model is not finite at {rows}, coordinate {coordinates}. "
        "Usual causes: (a) an observation outside the support of the model: transform or drop it; "
        "(b) an observation exactly on a singularity or kink of log p: move the location a little; "
        "(c) a parameter out of its range: mark it with ms.positive(...)."
    )


@errors.explained("your-own-model.md")
def _bad_feature(what: str, flags: np.ndarray) -> ValueError:
    bad = np.asarray(flags.reshape(len(flags), -1).any(axis=1))
    return ValueError(
        f"{what} is not finite at {errors.rows_text(bad)}. Check it on x[{np.flatnonzero(bad)[0]}]."
    )


@errors.explained("your-own-model.md")
def _bad_loss(value: float) -> ValueError:
    return ValueError(
        f"The discrepancy is {value} although every score is finite. "
        "Usual causes: (a) an observation exactly on a kink of log p, where score matching finds no second derivative: "
        "move the location a little; (b) overflow, because the data are enormous in units of the model's scale: "
        "standardise x; (c) a kernel that is not finite or not twice differentiable at some pair of observations, "
        "such as two equal ones."
    )
