"""Pointwise losses for discrete models: MPF, discrete Fisher divergence, pseudo-likelihood."""

from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import errors
from .._types import Array, LogDensity, is_traced
from ..data.rows import Data
from ..data.sample import Sample, bucket
from ..data.spaces import AbstractDiscrete, Finite, needs_discrete, space_of
from ..models.enumeration import as_alphabet
from ..params import as_function
from ..stein.diagnose import density_problem
from .base import AbstractPointwise, check_together, looks_up
from .methods import Method
from .neighbours import check_neighbours, count_observed, log_ratios, log_ratios_of


class AbstractRatios(AbstractPointwise):
    """A mean over observations of a function of probability ratios between neighbouring states."""

    def explain(self, model, x, loss):
        explain_ratios(model, x, loss)


class MPF(AbstractRatios):
    """Minimum probability flow: the initial rate at which probability flows away from the data.

    The rate from x to a neighbour y is exp(½(log p(y) − log p(x))). With q the empirical
    distribution, there are three forms:

        mean  the mean over observations of Σ_y exp(½(log p(y) − log p(x))) over all neighbours y.
              It is an M-estimator with standard errors, and consistent even if every state is
              observed.
        kl    the same sum over unobserved neighbours y only: the derivative of KL(q‖q_t) at t = 0,
              which Sohl-Dickstein et al. (2011) minimise. It is zero for every θ if every
              neighbour is observed.
        l1    `Σ_y |(Γᵀq)_y|`, the L¹ norm of the flow, as printed in the paper. It is 2·kl if no
              observed state gains probability, and larger otherwise. It has kinks.

    If no two observed states are neighbours, mean, kl and l1/2 are equal.

    Args:
        neighbours: a function of one state x that returns its neighbours, of shape (k, d), or None
            for the states that differ from x in one coordinate (by one, for counts). It must be
            symmetric.
        form: 'mean', 'kl' or 'l1'.

    >>> x = np.array([[1, 1], [1, 1], [1, -1], [-1, -1]])
    >>> loss = ms.MPF()(ms.models.Ising(ms.fixed([0.0, 0.0]), 0.3), x)
    >>> bool(np.isclose(loss, (6 * np.exp(-0.3) + 2 * np.exp(0.3)) / 4))
    True
    """

    neighbours: Callable | None
    form: str = eqx.field(static=True)
    own: Any = eqx.field(repr=False)
    counts: Any = eqx.field(repr=False)

    def __init__(self, neighbours: Callable | None = None, *, form: str = "mean"):
        if form not in ("mean", "kl", "l1"):
            raise ValueError(f"MPF: form must be 'mean', 'kl' or 'l1', got {form!r}.")
        self.neighbours = None if neighbours is None else as_function(neighbours)
        self.form = form
        self.own = self.counts = None

    @property
    def looks_up(self) -> bool:
        """Whether the loss depends on which neighbours were observed."""
        return self.form != "mean"

    def ready(self, model, x):
        space = discrete_space("MPF", model)
        if self.neighbours is not None or self.looks_up:
            check_together("MPF with custom neighbours or in this form", x)
        if self.neighbours is not None and not is_traced(x):
            check_neighbours(self.neighbours, np.asarray(x))
        if not self.looks_up:
            return self
        if is_traced(x):
            raise looks_up()
        own, counts = count_observed(space, self.neighbours, np.asarray(x))
        if self.form == "kl" and counts.all():
            raise _nothing_unobserved()
        filler = bucket(len(x)) - len(x)
        own, counts = (
            np.pad(own, (0, filler), constant_values=1),
            np.pad(counts, ((0, filler), (0, 0))),
        )
        return eqx.tree_at(
            lambda d: (d.own, d.counts), self, (own, counts), is_leaf=lambda leaf: leaf is None
        )

    def contributions(self, model, sample):
        r = self._log_ratios(model, sample)
        out = jnp.exp(r / 2)
        if self.form == "mean":
            return jnp.sum(out, axis=1)
        own, seen = jnp.asarray(self.own)[:, None], jnp.asarray(self.counts)
        away = jnp.sum(jnp.where(seen == 0, out, 0), axis=1)
        if self.form == "kl":
            return away
        back = jnp.where(seen > 0, seen * jnp.exp(-jnp.where(seen > 0, r, 0) / 2), 0)
        return away + jnp.abs(jnp.sum(back - own * out, axis=1)) / self.own

    def residuals(self, model, sample):
        """√2 exp(¼ log-ratio): its squared derivatives are half the Hessian if log p is linear."""
        return sample.zero_padding(jnp.sqrt(2.0) * jnp.exp(self._log_ratios(model, sample) / 4))

    def _log_ratios(self, model: LogDensity, sample: Sample) -> Float[Array, "N k"]:
        if self.neighbours is not None:
            return log_ratios_of(model, self.neighbours, sample)
        return _flatten(log_ratios(model, discrete_space("MPF", model), sample))

    @property
    def irregular(self):
        return _no_sandwich_for_flow(self.form) if self.looks_up else None

    @property
    def kind(self):
        return f"minimum probability flow, form '{self.form}'"

    def default_solver(self, model, x):
        has_kinks = self.form == "l1" and not self.wants_gradients_only(model, x)
        return Method.DIRECT_SEARCH if has_kinks else super().default_solver(model, x)

    def facts(self):
        return () if self.neighbours is None else (("Neighbours", repr(self.neighbours)),)


class DFD(AbstractRatios):
    """The discrete Fisher divergence of Matsubara et al. (2023), up to a term that is free of θ.

    It is the mean over observations of Σ_j [(p(x^j−)/p(x))² − 2p(x)/p(x^j+)], where x^j− and x^j+
    have coordinate j one value lower and higher: cyclically on a finite alphabet, while p(x^j−) = 0
    for a count of 0. With ρ_j = p(x^j−)/p(x), it equals E Σ_j (ρ_j of the model − ρ_j of the data)²
    up to that term.

    >>> x = np.array([0, 1, 1, 2, 4])
    >>> loss = ms.DFD()(ms.models.ConwayMaxwellPoisson(2.0, 1.0), x)             # x²/λ² − 2(x + 1)/λ
    >>> bool(np.isclose(loss, np.mean(x**2 / 4 - (x + 1))))
    True
    """

    def ready(self, model, x):
        discrete_space("DFD", model)
        return self

    def contributions(self, model, sample):
        down, up = self._down_and_up(model, sample)
        return jnp.sum(jnp.exp(2 * down) - 2 * jnp.exp(-up), axis=1)

    def residuals(self, model, sample):
        """p(x^j−)/p(x)."""
        return sample.zero_padding(jnp.exp(self._down_and_up(model, sample)[0]))

    def _down_and_up(self, model: LogDensity, sample: Sample) -> tuple[Array, Array]:
        """log p(x^j−) − log p(x) and log p(x^j+) − log p(x)."""
        space = discrete_space("DFD", model)
        r = log_ratios(model, space, sample)
        first, last = r[..., 0], r[..., -1]
        return (first, last) if space.shifts[0] < 0 else (last, first)  # in a cycle, down is last

    @property
    def companion(self):
        return MPF()

    @property
    def kind(self):
        return "discrete Fisher divergence"


class PseudoLikelihood(AbstractRatios):
    """Besag's pseudo-likelihood: minus the mean over observations of Σ_j log p(x_j | x_−j).

    It is not a Stein discrepancy, but the reference estimator for models on a finite alphabet.

    >>> x = np.array([[1, 1], [1, 1], [1, -1], [-1, -1]])
    >>> fit = ms.fit(ms.models.Ising(ms.fixed([0.0, 0.0]), 0.0), x, ms.PseudoLikelihood())
    >>> bool(np.isclose(fit.params["coupling"], np.arctanh(np.mean(x[:, 0] * x[:, 1]))))
    True
    """

    def ready(self, model, x):
        finite_space("PseudoLikelihood", model)
        return self

    def contributions(self, model, sample):
        return jnp.sum(jax.nn.logsumexp(self._logits(model, sample), axis=2), axis=1)

    def residuals(self, model, sample):
        """√(2π_k), whose squared derivatives are half the conditional Fisher information."""
        return sample.zero_padding(
            _flatten(
                jnp.sqrt(2.0) * jnp.exp(jax.nn.log_softmax(self._logits(model, sample), axis=2) / 2)
            )
        )

    def _logits(self, model: LogDensity, sample: Sample) -> Float[Array, "N d a"]:
        """log p as a function of each coordinate, minus its value at the observation."""
        r = log_ratios(model, finite_space("PseudoLikelihood", model), sample)
        return jnp.concatenate([jnp.zeros_like(r[..., :1]), r], axis=2)

    @property
    def kind(self):
        return "minus the log pseudo-likelihood"


def discrete_space(name: str, model: LogDensity) -> AbstractDiscrete:
    """Return the discrete space on which a model is defined, or raise if there is none."""
    space = space_of(model)
    if not isinstance(space, AbstractDiscrete):
        raise needs_discrete(name, "a finite alphabet or counts", space)
    return space


def finite_space(name: str, model: LogDensity) -> Finite:
    """Return the finite alphabet on which a model is defined, or raise if there is none."""
    return as_alphabet(space_of(model), name)


def explain_ratios(model: LogDensity, x: Data, loss: float) -> NoReturn:
    """Raise the error that explains why a loss made of probability ratios is not finite."""
    raise density_problem(model, x) or _bad_ratio(loss)


def _flatten(r: Float[Array, "N d a"]) -> Float[Array, "N k"]:
    return r.reshape(r.shape[0], -1)


@errors.explained("discrete.md")
def _nothing_unobserved() -> ValueError:
    return ValueError(
        "Every neighbour of every observation was itself observed, so MPF with form='kl', the flow to unobserved "
        "states, is zero for every θ. Use form='mean'."
    )


@errors.explained("discrete.md")
def _bad_ratio(value: float) -> ValueError:
    return ValueError(
        f"The discrepancy is {value} although log p is finite at every observation. Usual cause: a neighbouring state "
        "is far more probable than the observation, so that a ratio overflows. Start nearer to the data."
    )


@errors.explained("discrete.md")
def _no_sandwich_for_flow(form: str) -> str:
    return (
        f"No standard errors: MPF with form='{form}' depends on which neighbours were observed, so it is not a "
        "mean of independent terms, as the sandwich requires. Use ms.bootstrap(fit, x, key), or form='mean'."
    )
