"""Finding out why a loss is not finite, after it has happened."""

from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np

from . import errors
from ._fields import divergence
from ._types import Array, LogDensity
from .disk import OnDisk
from .operator import field_at, score
from .params import unwrap
from .sample import Sample, run
from .sharded import AnyData, Data, Sharded


def explain(discrepancy: Any, model: LogDensity, x: AnyData, loss: float) -> NoReturn:
    """Raise the error that names the observations at which something is not finite."""
    raise in_pieces(lambda x: _found(discrepancy, model, x), x) or errors.bad_loss(loss)


def in_pieces(find: Callable[[Any], ValueError | None], x: AnyData) -> ValueError | None:
    """What is wrong with the data, or, of rows on disk, with the first block that has something wrong."""
    if not isinstance(x, OnDisk):
        return find(x)
    for start, rows in x.pieces():
        problem = find(rows)
        if problem is not None:
            return errors.in_rows(problem, start, start + len(rows))
    return None


def _found(discrepancy: Any, model: LogDensity, x: Data) -> ValueError | None:
    parts = run(_ingredients, discrepancy, model, x, by_rows=True)
    if isinstance(x, Sharded):
        scores, fields, divergences = (np.where(x.flags(jax.numpy.isfinite(part)), 0.0, np.nan) for part in parts)
    else:
        scores, fields, divergences = (np.asarray(part)[: x.shape[0]] for part in parts)
    if not np.isfinite(scores).all():
        return errors.bad_score(scores)
    if not np.isfinite(fields).all():
        return errors.bad_feature("The diffusion m", fields)
    if not np.isfinite(divergences).all():
        return errors.bad_feature("The divergence of the diffusion", divergences)
    return None


def _ingredients(discrepancy: Any, model: LogDensity, sample: Sample) -> tuple[Array, Array, Array]:
    model = unwrap(model)

    def one(x: Array) -> tuple[Array, Array, Array]:
        field = field_at(model, discrepancy.diffusion, x)
        return score(model, x), field(x), divergence(field, x)

    return jax.tree.map(sample.in_place, jax.vmap(one)(sample.x))
