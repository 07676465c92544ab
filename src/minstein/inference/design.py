"""`design`: a discrepancy for a model and a sample, after what is wanted of the estimate:
efficiency or robustness.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity, Scalar, Theta, is_traced
from ..data.boundary import run
from ..data.checks import no_parameters
from ..data.reading import read
from ..data.rows import Data
from ..data.sample import Sample
from ..data.spaces import needs_continuous, space_of
from ..discrepancies.default import robust_discrepancy
from ..discrepancies.ksd import DKSD
from ..discrepancies.names import DISCREPANCIES
from ..discrepancies.score_regression import (
    Learned,
    basis_on,
    features_at,
    learn,
    pilot_discrepancy,
)
from ..fit import fit
from ..kernels import Designed, FiniteRank, Scaled
from ..kernels.finite_rank import Checks
from ..models._family import is_family, starting_models
from ..params import from_real, names, theta, to_real, unwrap, with_theta
from ..stein.operator import score

ROUNDS = 6
"""Rounds of learning the fields again."""

STEP = 2.0
"""The longest step of a round, in standard errors of the pilot."""

A = 2.5
"""The distance from the median at which a robust weight has fallen to e^(−1/2), in one dimension.
"""

REST = 0.05
"""The most information that the pilot's kernel may add to that of the fields, in any direction."""


def design(
    model: LogDensity, x: Any, goal: str = "efficient", *, support: tuple[Any, Any] | None = None
) -> DKSD:
    """The discrepancy for this model and this sample, for `ms.fit` and wherever a discrepancy is
    wanted.

    For `goal="efficient"` the kernel is K = Σ_j f_j f_jᵀ + ηk with fields f_j for which S[f_j] is
    nearly the Fisher score, so that the estimate is nearly as efficient as that of maximum
    likelihood. They are found by least squares of ∂_θ log p on Stein features at a pilot fit by
    KSD, whose intercept stands for the unknown normaliser, and learned again along a few steps of
    Fisher scoring. Three checks decide whether the design is used; else the discrepancy is that of
    the pilot, and says why: `discrepancy.kernel.checks`.

    For `goal="robust"` the diffusion is exp(−r²/2a²), r the distance from the median in robust
    units, held there. It is left out if the score of the model falls off far from the data
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
    match goal:
        case "efficient":
            return _efficient(model, x, support)
        case "robust":
            return _robust(model, x)
        case _:
            raise ValueError(f'goal must be "efficient" or "robust", got {goal!r}.')


DISCREPANCIES["efficient"] = lambda model, x, support: design(
    model, x, "efficient", support=support
)
DISCREPANCIES["robust"] = lambda model, x, support: design(model, x, "robust", support=support)


def _efficient(model: LogDensity, x: Data, support: tuple[Any, Any] | None) -> DKSD:
    pilot = pilot_discrepancy(model, x, support)
    with warnings.catch_warnings():
        for kind in (errors.BoundaryWarning, errors.PrecisionWarning):
            warnings.simplefilter("ignore", kind)  # the fit by the design says it
        found = fit(model, x, pilot, throw=False, progress=False)
    basis = basis_on(x, pilot)
    at = (pilot, basis, found.theta, found.cov)
    fields, share, theta, r_squared, distance, identity = run(_learned, at, model, x)
    xp = jnp if is_traced((fields, found)) else np
    checks = Checks(
        names(model),
        basis.fields[0].size,
        x.shape[0],
        xp.asarray(found.converged),
        r_squared,
        distance,
        identity,
    )
    used = checks.accepted
    kernel = Designed(
        FiniteRank(basis, xp.where(used, fields, 0)),
        Scaled(pilot.kernel, xp.where(used, share, 1)),
        xp.where(used, theta, found.theta),
        checks,
    )
    return DKSD(kernel, pilot.diffusion, unbiased=False)


def _robust(model: LogDensity, x: Data) -> DKSD:
    """The kernel is wide where location, or location and scale, of a family are fitted, and only
    there.
    """
    free = {name.partition("[")[0] for name in names(model)}
    wide = is_family(model) and "loc" in free and free <= {"loc", "scale"}
    xp = jnp if is_traced((model, x)) else np
    a = xp.where(_redescends(model, x), np.inf, A)
    return robust_discrepancy(x, a=a, widening=4.0 if wide else 1.0)


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


def _learned(
    tree: tuple, model: LogDensity, sample: Sample
) -> tuple[Array, Scalar, Theta, Theta, Scalar, Array]:
    """Fields, the share of the pilot's kernel, the estimate, and what the design is judged by."""
    pilot, basis, start, cov = tree
    eta0 = to_real(with_theta(model, start))
    jacobian = jax.jacfwd(lambda eta: theta(from_real(model, eta)))(eta0)
    precision = jacobian.T @ jnp.linalg.solve(cov, jacobian)
    length = lambda step: jnp.sqrt(step @ precision @ step)

    def scored(_: Any, eta: Theta) -> Theta:
        found = learn(features_at(pilot, basis, model, sample, eta))
        step = jnp.linalg.solve(found.cov, found.mean)
        return eta + step * jnp.minimum(1, STEP / length(step))

    eta = jax.lax.fori_loop(0, ROUNDS, scored, eta0)
    found = learn(features_at(pilot, basis, model, sample, eta))
    root = jnp.linalg.cholesky(found.cov)
    return (
        basis.spread(solve_triangular(root, found.coefficients.T, lower=True).T),
        _share(pilot, model, sample, eta, found),
        theta(from_real(model, eta)),
        found.r_squared,
        length(eta - eta0),
        _extremes(root, -found.slope),
    )


def _share(pilot: DKSD, model: LogDensity, sample: Sample, eta: Theta, found: Learned) -> Scalar:
    """The factor of the pilot's kernel with which it adds at most so much information in any
    direction.
    """
    of_fields = found.slope.T @ jnp.linalg.solve(found.cov, found.slope)
    of_pilot = pilot.objective(model, sample).jet(eta).metric
    return REST / _extremes(jnp.linalg.cholesky(of_fields), of_pilot)[1]


def _extremes(root: Float[Array, "p p"], matrix: Float[Array, "p p"]) -> Float[Array, " 2"]:
    """The extreme eigenvalues of L⁻¹ M L⁻ᵀ, symmetrised."""
    half = solve_triangular(root, matrix, lower=True)
    whole = solve_triangular(root, half.T, lower=True)
    return jnp.linalg.eigvalsh((whole + whole.T) / 2)[jnp.array([0, -1])]
