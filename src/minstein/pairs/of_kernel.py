"""G of a kernel on a sample: the sum of those of its summands, each in features of its own."""

from collections.abc import Callable
from typing import Any

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
from .reduce import reduce_span, reduce_term


class OfKernel(AbstractOperator):
    """Each summand changes the features, sums its pairs, and changes the fields back."""

    terms: tuple[Summand, ...]
    sample: Sample
    backend: AbstractBackend

    def apply(self, phis, *, still=False, once=False):
        return self._add_up(phis, lambda part, phis: part.apply(phis, still=still, once=once))

    def own(self, phis):
        return self._add_up(phis, lambda part, phis: part.own(phis))

    def _add_up(self, phis: Features, compute: Callable) -> Features:
        total = jax.tree.map(jnp.zeros_like, phis)
        for term in self.terms:
            part, change = operator_of(term, self.sample, phis, self.backend)
            fields = compute(part, jax.vmap(change)(phis))
            total = jax.tree.map(jnp.add, total, change_back(change, phis, fields))
        return total


def operator_of(
    term: Summand, sample: Sample, phis: Features, backend: AbstractBackend
) -> tuple[Any, Callable[[Features], Features]]:
    """The operator of one summand, and the change of features that it asks for."""
    if isinstance(term, Span):
        return Ones(), lambda phi: reduce_span(term, sample, phi)
    if isinstance(term, Free):
        return ByAutodiff(term.kernel, sample.x, sample.real), lambda phi: phi
    first = jax.tree.map(lambda part: part[0], phis)
    form = reduce_term(term, sample, first)[0]
    return backend.operator(term, form, sample), lambda phi: reduce_term(term, sample, phi)[1]


def change_back(change: Callable, phis: Features, fields: Features) -> Features:
    """Fields of changed features as those of the features themselves: the change is linear, this is
    its transpose.
    """
    first = jax.tree.map(lambda part: part[0], phis)
    return jax.vmap(lambda psi: jax.vjp(change, first)[1](psi)[0])(fields)
