"""What a discrepancy is, and what a fit asks of it."""

import abc
import contextlib
import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._text import as_call
from ..._types import Array, LogDensity, Scalar, Theta, is_traced
from ...data.boundary import precision, run
from ...data.in_memory import as_rows
from ...data.keys import as_key, no_key
from ...data.reading import read_or_leave
from ...data.rows import AbstractRows, Data
from ...data.sample import AnySample, Sample
from ...data.spaces import Box, space_of
from ...params import names, theta, unwrap
from ...stein.tangents import MANY
from ..methods import Method
from .objective import AbstractObjective


class AbstractDiscrepancy(eqx.Module):
    """How badly a model fits a sample, without the model's normaliser: `discrepancy(model, x)`."""

    is_random: ClassVar[bool] = False
    """Whether it draws at random, so that only a solver that follows random updates can fit it."""

    errors_by: ClassVar[str] = "sandwich, from the Hessian of the loss that was minimised"
    """How standard errors are computed, in words."""

    needs_stein_class: ClassVar[bool] = False
    """Whether it relies on the Stein identity, which may fail at an edge of the support."""

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def looks_up(self) -> bool:
        """Whether it must inspect the data before it can be compiled."""
        return False

    def __call__(self, model: LogDensity, x: Any, *, key: Any = None) -> Any:
        """The loss at this model: a number (NumPy data), or a JAX scalar, differentiable in the
        model.

        `key`, an integer or a key of JAX, is for discrepancies that draw at random.
        """
        x = read_or_leave(x, space_of(model))
        ready = self.with_key(key).ready(model, x)
        loss = run(_loss, ready, model, x, often=True)
        if not is_traced(loss) and not np.isfinite(loss):
            self.explain(model, x, float(loss))
        return loss

    @abc.abstractmethod
    def ready(self, model: LogDensity, x: Data) -> "AbstractDiscrepancy":
        """Validate the data and return a copy with anything precomputed from them."""

    @abc.abstractmethod
    def objective(
        self, model: LogDensity, sample: Any, *, natural: bool = False, keep: bool = False
    ) -> AbstractObjective:
        """Return the loss as a function of η = params.to_real(model).

        Args:
            model: the model, with its marks.
            sample: the rows, a `Sample` or, if it can read them from disk, a `Table`.
            natural: whether it is a function of θ = params.theta(model) instead.
            keep: whether to store what does not depend on θ, which pays if the loss is evaluated
                often.
        """

    def loss(self, model: LogDensity, sample: AnySample) -> Scalar:
        """The loss at a model."""
        model = unwrap(model)
        return self.objective(model, sample).value(model)

    def information(self, model: LogDensity, sample: AnySample) -> Float[Array, "p p"]:
        """The information tensor g, the metric on θ that the discrepancy induces.

        The Hessian at the truth is 2g. A diffusion that depends on θ is held at the model.
        """
        held = self.held_at(model).objective(model, sample, natural=True)
        return held.jet(jnp.asarray(theta(model))).curvature

    def stein_matrix(self, model: LogDensity, sample: Sample) -> Float[Array, "N N"]:
        """k⁰ at all pairs of rows, at a model without marks, if there is such a kernel."""
        raise TypeError(
            f"Only DKSD, KSD and DiscreteKSD have a Stein kernel, got {type(self).__name__}."
        )

    @abc.abstractmethod
    def explain(self, model: LogDensity, x: Data, loss: float) -> Any:
        """Raise the error that explains why the loss is not finite."""

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """A short description of the loss."""

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Further lines of the summary, as pairs of a title and a text."""
        return ()

    @property
    def irregular(self) -> str | None:
        """Why the sandwich gives no standard errors, or None if it does."""
        return None

    @property
    def box(self) -> Box | None:
        """The box at whose edges the diffusion vanishes, or None if there is none."""
        return None

    def with_key(self, key: Any) -> "AbstractDiscrepancy":
        """Return a copy that draws with this key, or self if nothing is drawn at random."""
        return self

    # What a fit asks of it

    @property
    def pilots(self) -> tuple[str, ...]:
        """Names of discrepancies by which a pilot fit must first be made, each tried if the one
        before has failed; empty if none is needed.
        """
        return ()

    def held_at(self, model: LogDensity) -> "AbstractDiscrepancy":
        """Return a copy with a θ-dependent diffusion held at this model."""
        return self

    def after_pilot(self, pilot: LogDensity, x: AbstractRows) -> "AbstractDiscrepancy":
        """Return a copy that uses the fitted model of a pilot."""
        return self

    def judge(self, model: LogDensity, x: AbstractRows) -> "AbstractDiscrepancy":
        """Return a copy that knows how it did at the fitted model."""
        return self

    def rejection(self, fit: Any, pilot: Any) -> "Rejection | None":
        """Why a fit by it after this pilot is not to be used, or None."""
        return None

    def is_solved(self, loss: Any, n: int) -> Any:
        """Whether a minimum with this loss is a solution; not so for equations that have none."""
        return True

    @property
    def rests_on_pilot(self) -> bool:
        """Whether a pilot fit determines the estimate, rather than where the search starts."""
        return False

    def doubts(self, pilot: Any) -> tuple[str, ...]:
        """What a fit says of its pilot and of the model."""
        return ()

    @property
    def designed_at(self) -> Theta | None:
        """The estimate at which it was designed and from which a search starts, or None."""
        return None

    @property
    def companion(self) -> "AbstractDiscrepancy | None":
        """Another discrepancy that is easier to minimise, or None.

        Its estimate is a further start, and the two estimates are compared.
        """
        return None

    def simplify(self, model: LogDensity, x: AbstractRows) -> "AbstractDiscrepancy":
        """Return a cheaper version if a search on these data would take too long, or self."""
        return self

    def check_memory(self, model: LogDensity, x: AbstractRows) -> None:  # most need little
        """Raise if a fit needs more memory than there is."""

    def as_v(self) -> "AbstractDiscrepancy":
        """Return the V-statistic of a U-statistic, or self if it is neither."""
        return self

    def notes(self, x: AbstractRows) -> tuple[str, ...]:
        """Notes on how the loss is computed on these data."""
        return ()

    def is_quadratic(self, model: LogDensity, d: int) -> bool:
        """Whether the loss is quadratic in η, judged without evaluating it."""
        return False

    def is_laborious(self, entries: int) -> bool:
        """Whether derivatives are too much work for a search, given the number of entries of the data
        times that of parameters.
        """
        return False

    def default_solver(self, model: LogDensity, x: AbstractRows) -> Method:
        """The method that minimises this loss on these data if the user gives no solver."""
        if len(names(model)) <= MANY and self._is_quadratic_on(model, x):
            return Method.CLOSED_FORM
        if self.wants_gradients_only(model, x):
            return Method.LBFGS
        return Method.QUASI_NEWTON if x.reads_from_disk else Method.GAUSS_NEWTON

    def wants_gradients_only(self, model: LogDensity, x: AbstractRows) -> bool:
        """Whether there are too many parameters or data for second derivatives."""
        p = len(names(model))
        return p > MANY or (self.is_laborious(p * x.size) and not x.reads_from_disk)

    def _is_quadratic_on(self, model: LogDensity, x: AbstractRows) -> bool:
        """`is_quadratic` in the precision of the data, because JAX caches NumPy arrays in the model in
        the precision in which it first sees them.
        """
        with contextlib.nullcontext() if is_traced((x, model)) else precision(x, model):
            return self.is_quadratic(model, x.shape[1])


class Rejection(NamedTuple):
    """Why a fit is not used, and what is done instead.

    Attributes:
        reason: in words, as a clause.
        fallback: the name of the discrepancy that takes its place.
        again: whether another pilot may help.
    """

    reason: str
    fallback: str
    again: bool


def _loss(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> Scalar:
    return discrepancy.loss(model, sample)


def check_together(name: str, x: Data) -> None:
    """Refuse rows that are on disk or spread over devices, for what needs them on one."""
    as_rows(x).require_together(name)


class AbstractRandom(AbstractDiscrepancy):
    """A discrepancy that draws at random, so that it is known only up to Monte Carlo error."""

    is_random: ClassVar[bool] = True
    key: eqx.AbstractVar[PRNGKeyArray | None]

    def with_key(self, key):
        if key is None:
            raise no_key(type(self).__name__)
        return dataclasses.replace(self, key=as_key(key))

    def default_solver(self, model, x):
        many = self.wants_gradients_only(model, x)
        return Method.SGD if many else Method.RIEMANNIAN_SGD
