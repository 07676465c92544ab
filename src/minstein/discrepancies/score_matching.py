"""DSM and SM, means over observations."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from .. import errors
from .._types import Array, LogDensity, MatrixField, Point, Scalar
from ..stein import matrix_fields
from ..stein.affine import is_affine
from ..stein.diagnose import explain
from ..stein.diffusions import AbstractDiffusion, as_diffusion
from ..stein.divergence import AbstractDivergence, Exact
from ..stein.operator import field_at, score
from .base import AbstractPointwise
from .continuous import check_continuous, check_inside


class DSM(AbstractPointwise):
    """Diffusion score matching: the mean of ‖mᵀ∇log p‖² + 2∇·(mmᵀ∇log p) over the observations.

    Up to a term without θ it is E‖mᵀ(∇log p − ∇log q)‖² for data from q. Non-negative score
    matching is `DSM(lambda x: x)`.

    Args:
        diffusion: m, as for `DKSD`, but without θ.
        divergence: how ∇· is evaluated: exactly if not given; `ms.Hutchinson(key)` or
            `ms.Sliced(key)` if d is so large that d derivatives for each observation are too many.

    >>> x = np.array([0.1, -0.4, 0.7, 1.5])
    >>> loss = ms.DSM(lambda x: x)(ms.models.Gaussian(0.0, 1.0), x)
    >>> bool(np.isclose(loss, np.mean(x**4 - 6 * x**2)))                 # the score is −x, so mmᵀs = −x³
    True
    """

    needs_stein_class: ClassVar[bool] = True
    diffusion: AbstractDiffusion
    divergence: AbstractDivergence

    def __init__(self, diffusion: Any = None, *, divergence: AbstractDivergence | None = None):
        self.diffusion = as_diffusion(diffusion)
        if self.diffusion.follows_model:
            raise _theta_dependent_dsm()
        self.divergence = Exact() if divergence is None else divergence

    def ready(self, model, x):
        check_continuous(self, model)
        check_inside(self.diffusion, x)
        return self

    def contributions(self, model, sample):
        """‖mᵀ∇log p‖² + 2∇·(mmᵀ∇log p) at each row, in blocks of rows, so that few Hessians are in
        memory.
        """

        @jax.checkpoint
        def one(row_and_x: tuple[Array, Array]) -> Scalar:
            row, x = row_and_x
            field = field_at(model, self.diffusion, x)
            projected = matrix_fields.transpose_apply(field(x), score(model, x))
            return self.divergence.contribution(
                projected, lambda x: _diffuse(model, field, x), x, row
            )

        block = max(1, _ENTRIES // self.divergence.entries(sample.x.shape[1]))
        return sample.by_rows(one, (sample.numbers, sample.x), block)

    def along(self, model: LogDensity, x: Point, u: Point) -> tuple[Scalar, Scalar, Scalar]:
        """In direction u at x: the size of m, that of the field mmᵀ∇log p, and the contribution to the
        loss.
        """
        field = field_at(model, self.diffusion, x)
        mu, v = matrix_fields.transpose_apply(field(x), u), lambda x: _diffuse(model, field, x)
        ms = matrix_fields.transpose_apply(field(x), score(model, x))
        slope = jax.jvp(v, (x,), (u,))[1] @ u
        return jnp.linalg.norm(mu), jnp.abs(mu @ ms), jnp.abs((u @ ms) ** 2 + 2 * slope)

    def residuals(self, model, sample):
        """mᵀ∇log p at each row."""
        m = lambda x: field_at(model, self.diffusion, x)(x)
        return sample.zero_padding(
            jax.vmap(lambda x: matrix_fields.transpose_apply(m(x), score(model, x)))(sample.x)
        )

    def explain(self, model, x, loss):
        explain(self, model, x, loss)

    @property
    def box(self):
        return self.diffusion.box

    @property
    def kind(self):
        return type(self).__name__

    def facts(self):
        return (("Diffusion", repr(self.diffusion)),)

    def is_quadratic(self, model, d):
        return is_affine(self.diffusion, model, d)


def _diffuse(model: LogDensity, field: MatrixField, x: Point) -> Point:
    """mmᵀ∇log p."""
    m = field(x)
    return matrix_fields.apply(m, matrix_fields.transpose_apply(m, score(model, x)))


def SM(*, divergence: AbstractDivergence | None = None) -> DSM:
    """Score matching: DSM with the identity as diffusion, the mean of ‖∇log p‖² + 2Δlog p.

    It is twice the loss of Hyvärinen (2005) and of the paper's SM.

    Args:
        divergence: as for `DSM`.

    >>> x = np.array([0.1, -0.4, 0.7, 1.5])
    >>> loss = ms.SM()(ms.models.Gaussian(0.0, 1.0), x)
    >>> bool(np.isclose(loss, np.mean(x**2) - 2))
    True
    """
    return DSM(divergence=divergence)


_ENTRIES = 1 << 20
"""The most second derivatives in memory at once: 8 MB in float64."""


@errors.explained("choosing.md")
def _theta_dependent_dsm() -> TypeError:
    return TypeError(
        "DSM needs a diffusion that does not depend on the model, because its θ-dependent terms could then not be "
        "estimated. Use DKSD, or hold the diffusion at one model: diffusion.at(model)."
    )
