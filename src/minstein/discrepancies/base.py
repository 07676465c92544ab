"""What a discrepancy is: a mean over points, a mean over pairs, or something that is drawn at
random.
"""

import abc
import contextlib
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .. import errors
from .._text import as_call
from .._types import Array, LogDensity, Scalar, Theta, is_traced
from ..data.boundary import precision, run
from ..data.in_memory import as_rows
from ..data.keys import as_key, no_key
from ..data.reading import read_or_leave
from ..data.rows import AbstractRows, Data
from ..data.sample import AnySample, Sample
from ..data.spaces import Box, space_of
from ..pairs.backends import Summand
from ..pairs.forms import Features
from ..pairs.operator import AbstractOperator
from ..pairs.stored import Stored
from ..params import names, theta, unwrap, with_theta
from ..stein.tangents import MANY, WORK, gram_of_tangents
from .methods import Method


class AbstractDiscrepancy(eqx.Module):
    """How badly a model fits a sample, without the model's normaliser: `discrepancy(model, x)`."""

    is_random: ClassVar[bool] = False
    """Whether it draws at random, so that only a solver that follows random updates can fit it."""

    needs_stein_class: ClassVar[bool] = False
    """Whether it rests on the Stein identity of fields on the reals or in a box, which may fail at
    an edge of the support.
    """

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
        """Raise where this discrepancy is not defined on such data; else itself, with what it looks
        up in them.
        """

    @abc.abstractmethod
    def loss(self, model: LogDensity, sample: Any) -> Scalar:
        """The loss at a model without marks, on a `Sample` or, where it is made for rows on disk, a
        `Table`.
        """

    @abc.abstractmethod
    def information(self, model: LogDensity, sample: Any) -> Float[Array, "p p"]:
        """The information tensor g, the metric on θ that the discrepancy induces; the Hessian at
        the truth is 2g.
        """

    def stein_matrix(self, model: LogDensity, sample: Sample) -> Float[Array, "N N"]:
        """k⁰ at all pairs of rows, at a model without marks, if there is such a kernel."""
        raise TypeError(
            f"Only DKSD, KSD and DiscreteKSD have a Stein kernel, got {type(self).__name__}."
        )

    @abc.abstractmethod
    def explain(self, model: LogDensity, x: Data, loss: float) -> Any:
        """Raise the error that says why the loss is not finite."""

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """What the loss is, in a few words."""

    def facts(self) -> tuple[tuple[str, str], ...]:
        """What else a summary says of it."""
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
    def needs_pilot(self) -> bool:
        """Whether a fit must first be made by another discrepancy, for `held_at`."""
        return False

    def held_at(self, model: LogDensity) -> "AbstractDiscrepancy":
        """Return a copy with a θ-dependent diffusion held at this model."""
        return self

    @property
    def designed_at(self) -> Theta | None:
        """The estimate at which it was designed, from where a search starts, or None."""
        return None

    @property
    def companion(self) -> "AbstractDiscrepancy | None":
        """Another discrepancy that is easier to minimise, or None.

        Its estimate is a further start, and the two estimates are compared.
        """
        return None

    def simplify(self, model: LogDensity, x: AbstractRows) -> "AbstractDiscrepancy":
        """Return a copy that a search can afford on these data, or self if it can afford this one."""
        return self

    def check_memory(self, model: LogDensity, x: AbstractRows) -> None:  # most need little
        """Raise if a fit needs more memory than there is."""

    def as_v(self) -> "AbstractDiscrepancy":
        """Return the V-statistic of a U-statistic, or self if it is neither."""
        return self

    def notes(self, x: AbstractRows) -> tuple[str, ...]:
        """What a fit says of how the loss was computed on these data."""
        return ()

    def is_quadratic(self, model: LogDensity, d: int) -> bool:
        """Whether the loss is quadratic in η, judged without evaluating it."""
        return False

    def is_laborious(self, entries: int) -> bool:
        """Whether derivatives are too much work for a search: for this many entries of the data,
        once for each parameter.
        """
        return False

    def default_solver(self, model: LogDensity, x: AbstractRows) -> Method:
        """The way to minimise this loss on these data if none is given."""
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
        """JAX remembers how a NumPy array of indices in the model was read: it must be read in one
        precision throughout.
        """
        with contextlib.nullcontext() if is_traced((x, model)) else precision(x, model):
            return self.is_quadratic(model, x.shape[1])


def _loss(discrepancy: AbstractDiscrepancy, model: LogDensity, sample: AnySample) -> Scalar:
    return discrepancy.loss(unwrap(model), sample)


def check_together(name: str, x: Data) -> None:
    """Refuse rows that are on disk or spread over devices, for what needs them on one."""
    as_rows(x).require_together(name)


class AbstractRandom(AbstractDiscrepancy):
    """A discrepancy that draws at random, so that it is known only up to the error of Monte Carlo."""

    is_random: ClassVar[bool] = True
    key: eqx.AbstractVar[PRNGKeyArray | None]

    def with_key(self, key):
        if key is None:
            raise no_key(type(self).__name__)
        return dataclasses.replace(self, key=as_key(key))

    def default_solver(self, model, x):
        many = self.wants_gradients_only(model, x)
        return Method.SGD if many else Method.RIEMANNIAN_SGD


class AbstractPointwise(AbstractDiscrepancy):
    """A mean over observations, a U-statistic of degree one."""

    def is_laborious(self, entries):
        return entries > WORK

    def loss(self, model, sample):
        term = lambda block: jnp.sum(block.zero_padding(self.contributions(model, block)))
        return sample.sum(term) / sample.size

    @abc.abstractmethod
    def contributions(self, model: LogDensity, sample: Sample) -> Float[Array, " N"]:
        """The term of each row."""

    @abc.abstractmethod
    def residuals(self, model: LogDensity, sample: Sample) -> Float[Array, "N q"]:
        """Functions r of θ with information tensor g = mean of ∂rᵀ∂r; zero in padding."""

    def information(self, model, sample):
        def term(block: Sample) -> Float[Array, "p p"]:
            at = lambda vector: self.residuals(unwrap(with_theta(model, vector)), block)
            return gram_of_tangents(at, jnp.asarray(theta(model)))

        return sample.sum(term) / sample.size


class AbstractPairwise(AbstractDiscrepancy):
    """A mean over pairs of observations of a symmetric bilinear form in per-point features φ = (t,
    m).
    """

    unbiased: eqx.AbstractVar[bool]

    @property
    @abc.abstractmethod
    def still(self) -> bool:
        """Whether m in φ = (t, m) is the same for every θ."""

    @abc.abstractmethod
    def features(self, model: LogDensity, sample: Sample) -> Features:
        """φ at each row, zero in padding."""

    @abc.abstractmethod
    def operator(self, sample: Sample) -> AbstractOperator:
        """G on the points of a sample."""

    @abc.abstractmethod
    def stored(self, model: LogDensity, sample: Sample) -> tuple[Stored, ...] | None:
        """What is θ-free in the pair sum, or None where it is too large or there is nothing."""

    @abc.abstractmethod
    def as_v(self) -> "AbstractPairwise":
        """Return the V-statistic instead of the U-statistic."""

    def visited_terms(self, sample: Sample) -> tuple[Summand, ...] | None:
        """The terms of the kernel if pairs of rows in one place are visited one by one, all of them
        or those within parts; else None.
        """
        return None

    def on_few_rows(self) -> "AbstractPairwise":
        """The same discrepancy, its pairs summed in a way that suits a small part of the sample."""
        return self

    def pairs(self, sample: AnySample) -> Scalar:
        """The number of pairs in the mean."""
        return sample.size * (sample.size - 1 if self.unbiased else sample.size)


@errors.explained("discrete.md")
def looks_up() -> TypeError:
    return TypeError(
        "MPF with form='kl' or 'l1' looks up which neighbours were observed, which jit, vmap and minibatches do not "
        "allow. Use form='mean' there."
    )


@errors.explained("choosing.md")
def too_few(n: int) -> ValueError:
    return ValueError(
        f"A U-statistic of degree two needs at least 2 observations, got {n}. "
        "Use unbiased=False for the V-statistic, or give more data."
    )
