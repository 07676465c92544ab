"""The discrepancy that serves the goal "robust"."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, LogDensity, is_traced
from ..data.boundary import run
from ..data.rows import Data
from ..data.sample import Sample
from ..models._family import is_family, starting_models
from ..params import names, unwrap
from ..stein.operator import score
from .default import robust_discrepancy
from .ksd import DKSD

A = 2.5
"""The distance from the median at which a robust weight has fallen to e^(−1/2), in one dimension.
"""


def robust(model: LogDensity, x: Data, support: Any = None) -> DKSD:
    """DKSD that gives no weight to distant observations, unless the score of the model itself falls
    off there.

    The kernel is wide if location, or location and scale, of a family are fitted, and only then.
    """
    free = {name.partition("[")[0] for name in names(model)}
    wide = is_family(model) and "loc" in free and free <= {"loc", "scale"}
    xp = jnp if is_traced((model, x)) else np
    a = xp.where(_redescends(model, x), np.inf, A)
    return robust_discrepancy(x, support, a=a, widening=4.0 if wide else 1.0)


def _redescends(model: LogDensity, x: Data) -> Any:
    """Whether the score falls off with the distance from the data along each axis."""
    near, far = run(_far_scores, _FAR, starting_models(model, x)[-1], x)
    with np.errstate(all="ignore"):  # beyond an edge of the support there is no score, nor a rate
        rates = (jnp if is_traced(near) else np).log(far / near) / np.log(_FAR[1] / _FAR[0])
    return (rates < _FALLS).all()


_FAR = np.array([1e2, 1e4])
"""Distances, in units of the data's spread, between which the rate of the score is measured."""

_FALLS = -0.5
"""A score whose rate is below this falls off; that of Student's t has rate −1."""


def _far_scores(distances: Array, model: LogDensity, sample: Sample) -> Float[Array, "2 rays"]:
    d = sample.x.shape[1]
    spread = jnp.sqrt(
        jnp.sum(sample.zero_padding((sample.x - sample.centre) ** 2), 0) / sample.size
    )
    rays = jnp.concatenate([jnp.eye(d), -jnp.eye(d)]) * spread
    size = lambda x: jnp.linalg.norm(spread * score(unwrap(model), x))
    return jax.vmap(lambda r: jax.vmap(lambda ray: size(sample.centre + r * ray))(rays))(
        jnp.asarray(distances)
    )
