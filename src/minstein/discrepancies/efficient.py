"""`Efficient`: the likelihood equations without the normaliser."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity, Point, Scalar, Theta, is_traced
from ..data.boundary import run
from ..data.rows import Data
from ..data.sample import Sample
from ..params import names, theta, unwrap, with_theta
from ..stein import matrix_fields
from ..stein.diagnose import explain
from ..stein.diffusions import AbstractDiffusion, as_diffusion
from ..stein.operator import field_at, score
from .base import AbstractDiscrepancy, Rejection, check_together
from .continuous import check_continuous, check_inside
from .equations import EquationObjective
from .methods import Method
from .score_regression import (
    SHARE,
    At,
    Basis,
    Regression,
    basis_on,
    regress,
    regressors,
    suggested_fields,
    whitening_at,
)


class Efficient(AbstractDiscrepancy):
    """Mean Stein features of fields that are learned at θ itself: gᵀC⁻¹g, which vanishes at the
    estimate.

    At each θ the Fisher score ∂_k log p is regressed on the Stein features S[f_l] of given fields;
    g is the mean of the fitted part, C its covariance. The regression reads ∂_k log p̃ = c_k +
    Σ_l S[f_l] α_lk + rest, and its intercept estimates E_θ ∂_k log p̃. So g = 0 says that the mean
    of ∂_k log p̃ over the data is its mean under the model: the likelihood equations. If the fields
    span the score, the estimate has the efficiency of maximum likelihood and, under a wrong model,
    its target.

    Args:
        diffusion: m, as for `DSM`; it must vanish at the edges of the support.
        basis: the fields, placed on data by `ms.design`.
        start: θ from where a search begins.
        r_squared: of the regression at the estimate, each observation predicted by the others:
            the efficiency for each parameter.
        identity: the smallest and the largest eigenvalue of −C⁻¹∂g/∂θ at the estimate, which is the
            identity matrix if the model is true.

    >>> x = np.random.default_rng(0).exponential(size=50)
    >>> rate = ms.positive(1.0)
    >>> model = ms.models.from_log_density(lambda rate, x: -rate * x[0], rate, support=(0, np.inf))
    >>> fit = ms.fit(model, x, goal="efficient")
    >>> type(fit.discrepancy).__name__, bool(np.isclose(fit.theta[0], 1 / x.mean()))
    ('Efficient', True)
    """

    errors_by: ClassVar[str] = "infinitesimal jackknife, which includes the learning of the fields"
    needs_stein_class: ClassVar[bool] = True
    diffusion: AbstractDiffusion
    basis: Basis | None
    start: Theta | None
    r_squared: Float[Array, " p"] | None
    identity: Float[Array, " 2"] | None

    def __init__(
        self,
        diffusion: Any = None,
        basis: Any = None,
        start: Any = None,
        *,
        r_squared: Any = None,
        identity: Any = None,
    ):
        self.diffusion = as_diffusion(diffusion)
        self.basis = basis
        self.start = start
        self.r_squared = r_squared
        self.identity = identity

    def ready(self, model, x):
        check_continuous(self, model)
        check_inside(self.diffusion, x)
        check_together(type(self).__name__, x)
        return self

    @property
    def pilots(self):
        return ("ksd", "sm") if self.basis is None else ()

    def after_pilot(self, pilot, x):
        """Return a copy with fields placed on the data, whose search starts at this model."""
        box = self.diffusion.box
        M = _whitening(self.diffusion, pilot, x)
        basis = basis_on(x, None if box is None else box.box, len(names(pilot)), M)
        return Efficient(self.diffusion, basis, theta(pilot))

    def judge(self, model, x):
        r_squared, identity = run(_quality, self, model, x)
        return Efficient(
            self.diffusion, self.basis, theta(model), r_squared=r_squared, identity=identity
        )

    def rejection(self, fit, pilot):
        if pilot.rivals and not np.isfinite(pilot.cov).all():
            return Rejection(
                "KSD has several minima that the data do not tell apart", "ksd", again=False
            )
        if not fit.converged:
            return Rejection("they have no solution near a pilot fit", "ksd", again=True)
        if fit.cov is not None and not np.isfinite(fit.cov).all():
            return Rejection("they are not smooth in the parameters", "ksd", again=False)
        least = np.nan_to_num(np.asarray(self.r_squared), nan=-np.inf)
        if not least.min() > LEAST_R_SQUARED:
            which = fit.names[int(least.argmin())]
            return Rejection(
                f"the fields explain too little of the score of {which} (R² {least.min():.2f}; "
                f"{LEAST_R_SQUARED:g} is needed)",
                "sm",
                again=False,
            )
        return None

    def is_solved(self, loss, n):
        return n * loss < _ROOT

    def doubts(self, pilot):
        if is_traced(self.identity):
            return ()
        low, high = (float(value) for value in np.asarray(self.identity))
        fits = (low > 1 / APART and high < APART) or not np.isfinite(low + high)
        return () if fits else (_does_not_fit(low, high),)

    @property
    def designed_at(self):
        return self.start

    def regression(self, at: At, vector: Theta, sample: Sample) -> Regression:
        """The regression at this vector, in whose coordinates scores are taken."""
        return regress(*self.rows(at, vector, sample.x), sample.real)

    def rows(self, at: At, vector: Theta, x: Float[Array, "N d"]) -> tuple[Array, Array]:
        """S[f_l] for each field, and ∂ log p, at each row."""
        if self.basis is None:
            raise TypeError("Efficient needs fields placed on data: use ms.design(model, x).")
        return regressors(self.basis, self.diffusion, at, vector, x)

    def objective(self, model, sample, *, natural=False, keep=False):
        return EquationObjective(model, sample, natural, self)

    def loss(self, model, sample):
        return self.objective(model, sample).value(model)

    def explain(self, model, x, loss):
        explain(self, model, x, loss)

    @property
    def kind(self):
        return "Stein equations with learned fields"

    def facts(self):
        fields = () if self.basis is None else (("Fields", self._fields_text(self.basis)),)
        return (*fields, ("Diffusion", repr(self.diffusion)))

    def _fields_text(self, basis: Basis) -> str:
        parts = [
            "constants",
            "linear",
            *([f"{len(basis.bumps)} bumps"] if len(basis.bumps) else []),
        ]
        parts += [] if basis.whitening is None else ["two for each parameter"]
        if self.r_squared is None or is_traced(self.r_squared):
            return ", ".join(parts)
        return f"{', '.join(parts)}; R² of the score {np.min(np.asarray(self.r_squared)):.3f}"

    @property
    def box(self):
        return self.diffusion.box

    def default_solver(self, model, x):
        return Method.GAUSS_NEWTON

    def along(self, model: LogDensity, x: Point, u: Point) -> tuple[Scalar, Scalar, Scalar]:
        """In direction u at x: the size of the fields, what they carry, and their contribution."""
        m = field_at(model, self.diffusion, x)(x)
        mu = jnp.linalg.norm(matrix_fields.transpose_apply(m, u))
        height = 1.0 if self.basis is None else jnp.linalg.norm(self.basis(x))
        ms = matrix_fields.transpose_apply(m, score(model, x))
        return mu, mu * height, jnp.abs(u @ ms) * height


LEAST_R_SQUARED = 0.5
"""The least R² of any parameter. Below it the fields miss half of the information, as for modes far
apart, and the target under a wrong model is no longer that of maximum likelihood.
"""

APART = 3.0
"""The factor by which the information identity may fail before a fit says so. In simulations with
n = 100 to 300 and up to 19 parameters its eigenvalues lay between 0.6 and 1.8.
"""

_ROOT = 1e-6
"""n gᵀC⁻¹g is χ² with p degrees of freedom if θ is the truth; at a root it is zero, up to rounding.
"""


def _quality(
    discrepancy: Efficient, model: LogDensity, sample: Sample
) -> tuple[Float[Array, " p"], Float[Array, " 2"]]:
    """R² for each parameter, and the extreme eigenvalues of the information identity."""
    objective = EquationObjective(model, sample, True, discrepancy)
    around = objective.around(jnp.asarray(theta(model)))
    found, J = around.found, around.slopes.T
    root = jnp.linalg.cholesky(found.cov)
    half = jax.scipy.linalg.solve_triangular(root, -J, lower=True)
    whole = jax.scipy.linalg.solve_triangular(root, half.T, lower=True)
    return found.r_squared, jnp.linalg.eigvalsh((whole + whole.T) / 2)[jnp.array([0, -1])]


@errors.explained("designing.md")
def _does_not_fit(low: float, high: float) -> str:
    return (
        "The model does not seem to fit: the variance of the scores and their slope, equal if it does, differ by "
        f"factors from {low:.2g} to {high:.2g}. The estimate is then that of maximum likelihood, the closest model of "
        'the family; its standard errors allow for this. Gross errors are another cause: see goal="robust".'
    )


def _whitening(diffusion: AbstractDiffusion, model: LogDensity, x: Data) -> Any:
    """M for the fields that the model suggests, or None if they are not wanted.

    They are left out in one dimension, where bumps do as well; if there is no room for them; and if
    they jump, because E S[f] = 0 holds for continuous fields only.
    """
    n, d = x.shape
    if d == 1 or d + 2 * len(names(model)) > n // SHARE:
        return None
    M, steps, range_ = run(_suggested, diffusion, model, x)
    if not is_traced(steps) and np.any(steps > _JUMP * range_):
        return None
    return M


_JUMP, _SEGMENTS, _POINTS = 0.25, 32, 257
"""A field that changes by a quarter of its range within 1/256 of the way between two observations
jumps; how many such segments are looked at.
"""


def _suggested(
    diffusion: AbstractDiffusion, model: LogDensity, sample: Sample
) -> tuple[Array, Array, Array]:
    """M, and the largest step and the range of each suggested field along segments between
    observations.
    """
    at = lambda vector: unwrap(with_theta(model, vector))
    vector = jnp.asarray(theta(model))
    n = sample.n
    k = jnp.arange(_SEGMENTS)
    here, there = sample.x[(k * n) // _SEGMENTS], sample.x[((k + 0.5) * n / _SEGMENTS).astype(int)]
    t = jnp.linspace(0, 1, _POINTS, dtype=here.dtype)
    points = here[:, None] + t[:, None] * (there - here)[:, None]
    g = jax.vmap(jax.vmap(lambda x: suggested_fields(diffusion, at, vector, x)))(points)
    step = jnp.max(jnp.abs(jnp.diff(g, axis=1)), (0, 1))
    range_ = jnp.max(g, (0, 1)) - jnp.min(g, (0, 1))
    slack = jnp.sqrt(jnp.finfo(g.dtype).eps) * jnp.max(jnp.abs(g))
    return whitening_at(diffusion, at(vector), sample), step, range_ + slack
