"""G of a kernel on a sample: the sum of the operators of its summands, each with its own features."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from ..data.sample import Sample
from ..kernels import Span
from ..kernels._kernel import Free
from .autodiff import ByAutodiff
from .backends import AbstractBackend, Summand
from .finite_rank import Ones
from .forms import Features
from .operator import AbstractOperator
from .reduce import change_features, reduce_term


class OfKernel(AbstractOperator):
    """The sum over the summands of a kernel: each changes the features, sums over the pairs, and
    changes the fields back.
    """

    terms: tuple[Summand, ...]
    sample: Sample
    backend: AbstractBackend

    def apply(self, phis, *, still=False, once=False):
        return self._add_up(phis, lambda part, phis: part.apply(phis, still=still, once=once))

    def own(self, phis):
        return self._add_up(phis, lambda part, phis: part.own(phis))

    def _add_up(self, phis: Features, compute: Callable) -> Features:
        total = phis.zeros_like()
        for term in self.terms:
            part, change = operator_of(term, self.sample, phis, self.backend)
            fields = compute(part, jax.vmap(change)(phis))
            total = jax.tree.map(jnp.add, total, change_back(change, phis, fields))
        return total


def operator_of(
    term: Summand, sample: Sample, phis: Features, backend: AbstractBackend
) -> tuple[AbstractOperator, Callable[[Features], Features]]:
    """Return the operator of one summand, and the change of features that it needs."""
    match term:
        case Free():
            return ByAutodiff(term.kernel, sample.x, sample.real), lambda phi: phi
        case Span():
            return Ones(), partial(change_features, term, sample)
        case _:
            form = reduce_term(term, sample, phis.first())[0]
            return backend.operator(term, form, sample), partial(change_features, term, sample)


def change_back(change: Callable, phis: Features, fields: Features) -> Features:
    """Return the fields of the features themselves, given those of changed features: the transpose
    of the change, which is linear.
    """
    return jax.vmap(lambda psi: jax.vjp(change, phis.first())[1](psi)[0])(fields)
