"""Means over observations of a discrete model: MPF, the discrete Fisher divergence, pseudo-likelihood."""

from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from . import errors
from ._types import Array, LogDensity, is_traced
from .diagnose import in_pieces
from .discrepancy import AbstractPointwise, check_together
from .neighbours import check_neighbours, log_ratios, log_ratios_of, observed
from .params import as_function, unwrap
from .sample import Sample, bucket, run
from .sharded import AnyData, Data, Sharded
from .spaces import AbstractDiscrete, Finite, space_of


class MPF(AbstractPointwise):
    """Minimum probability flow: the rate at which probability leaves the data when they are set in motion towards p.

    The rate from x to a neighbour y is exp(½(log p(y) − log p(x))). With q the empirical distribution,

        mean  the mean over observations of Σ_y exp(½(log p(y) − log p(x))), over all neighbours y: an M-estimator,
              consistent also where every state is observed, with standard errors;
        kl    the same over neighbours y that were not observed: the derivative of KL(q‖q_t) at t = 0, which
              Sohl-Dickstein et al. (2011) minimise. Zero for every θ where every neighbour is observed;
        l1    `Σ_y |(Γᵀq)_y|`, the L¹ norm of the flow, as the paper prints it. It is 2·kl where no observed state
              gains probability, and larger else. It has kinks.

    Where no two observed states are neighbours, mean, kl and l1/2 are the same number.

    Args:
        neighbours: a function of one state x that returns its neighbours, of shape (k, d), or None for the states that
            differ from x in one coordinate (by one, for counts). It must be symmetric.
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
        """Whether it has to know which neighbours were observed."""
        return self.form != "mean"

    def ready(self, model, x):
        space = discrete_space("MPF", model)
        if self.neighbours is not None or self.looks_up:
            check_together("MPF with neighbours of your own or in this form", x)
        if self.neighbours is not None and not is_traced(x):
            check_neighbours(self.neighbours, np.asarray(x))
        if not self.looks_up:
            return self
        if is_traced(x):
            raise errors.looks_up()
        own, counts = observed(space, self.neighbours, np.asarray(x))
        if self.form == "kl" and counts.all():
            raise errors.nothing_unobserved()
        filler = bucket(len(x)) - len(x)
        own, counts = np.pad(own, (0, filler), constant_values=1), np.pad(counts, ((0, filler), (0, 0)))
        return eqx.tree_at(lambda d: (d.own, d.counts), self, (own, counts), is_leaf=lambda leaf: leaf is None)

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
        """√2 exp(¼ log-ratio), whose squared derivatives are half the Hessian where log p is linear in θ."""
        return sample.zero_padding(jnp.sqrt(2.0) * jnp.exp(self._log_ratios(model, sample) / 4))

    def _log_ratios(self, model: LogDensity, sample: Sample) -> Float[Array, "N k"]:
        if self.neighbours is not None:
            return log_ratios_of(model, self.neighbours, sample)
        return _flat(log_ratios(model, discrete_space("MPF", model), sample))

    def explain(self, model, x, loss):
        explain_ratios(model, x, loss)

    @property
    def irregular(self):
        return errors.no_sandwich_for_flow(self.form) if self.looks_up else None

    @property
    def kind(self):
        return f"minimum probability flow, form '{self.form}'"

    def facts(self):
        return () if self.neighbours is None else (("Neighbours", repr(self.neighbours)),)

    def is_quadratic(self, model, d):
        return False


class DFD(AbstractPointwise):
    """The discrete Fisher divergence of Matsubara et al. (2023), up to a term without θ.

    The mean over observations of Σ_j [(p(x^j−)/p(x))² − 2p(x)/p(x^j+)], where coordinate j is one value down in x^j−
    and one up in x^j+; cyclic on a finite alphabet, and p(x^j−) = 0 below the count 0. With ρ_j = p(x^j−)/p(x) it is
    E Σ_j (ρ_j of the model − ρ_j of the data)².

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
        return (r[..., -1], r[..., 0]) if isinstance(space, Finite) else (r[..., 0], r[..., -1])

    def explain(self, model, x, loss):
        explain_ratios(model, x, loss)

    @property
    def irregular(self):
        return None

    @property
    def kind(self):
        return "discrete Fisher divergence"

    def facts(self):
        return ()

    def is_quadratic(self, model, d):
        return False


class PseudoLikelihood(AbstractPointwise):
    """Besag's pseudo-likelihood: minus the mean over observations of Σ_j log p(x_j | the other coordinates).

    Not a Stein discrepancy; the reference estimator for models on a finite alphabet.

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
        """√(2π_k) for the conditional probabilities π_k, whose squared derivatives are half the Fisher information."""
        return sample.zero_padding(
            _flat(jnp.sqrt(2.0) * jnp.exp(jax.nn.log_softmax(self._logits(model, sample), axis=2) / 2))
        )

    def _logits(self, model: LogDensity, sample: Sample) -> Float[Array, "N d a"]:
        """log p as a function of each coordinate's value, zero at the value observed."""
        r = log_ratios(model, finite_space("PseudoLikelihood", model), sample)
        return jnp.concatenate([jnp.zeros_like(r[..., :1]), r], axis=2)

    def explain(self, model, x, loss):
        explain_ratios(model, x, loss)

    @property
    def irregular(self):
        return None

    @property
    def kind(self):
        return "minus the log pseudo-likelihood"

    def facts(self):
        return ()

    def is_quadratic(self, model, d):
        return False


def discrete_space(name: str, model: LogDensity) -> AbstractDiscrete:
    """The discrete space that a model lives on."""
    space = space_of(model)
    if not isinstance(space, AbstractDiscrete):
        raise errors.needs_discrete(name, "a finite alphabet or counts", space)
    return space


def finite_space(name: str, model: LogDensity) -> Finite:
    """The finite alphabet that a model lives on."""
    space = space_of(model)
    if not isinstance(space, Finite):
        raise errors.needs_discrete(name, "a finite alphabet", space)
    return space


def explain_ratios(model: LogDensity, x: AnyData, loss: float) -> NoReturn:
    """Raise the error that says why a loss made from ratios of p is not finite."""
    raise in_pieces(lambda x: _infinite(model, x), x) or errors.bad_ratio(loss)


def _infinite(model: LogDensity, x: Data) -> ValueError | None:
    infinite = lambda _, model, sample: sample.in_place(~jnp.isfinite(jax.vmap(unwrap(model))(sample.x)))
    flags = run(infinite, None, model, x, by_rows=True)
    bad = x.flags(flags) if isinstance(x, Sharded) else np.asarray(flags)[: len(x)]
    return errors.bad_log_density(bad) if bad.any() else None


def _flat(r: Float[Array, "N d a"]) -> Float[Array, "N k"]:
    return r.reshape(r.shape[0], -1)
