"""Means over observations: the discrepancy and its objective."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from ... import errors
from ..._types import Array, LogDensity, Scalar, Theta
from ...data.sample import Sample
from ...stein.tangents import WORK, by_batches, gram_of_tangents, tangents
from .discrepancy import AbstractDiscrepancy
from .objective import AbstractObjective, Jet, Second, Zeroth
from .on_disk import loss_on_disk, root


class AbstractPointwise(AbstractDiscrepancy):
    """A mean over observations, a U-statistic of degree one."""

    def is_laborious(self, entries):
        return entries > WORK

    def objective(self, model, sample, *, natural=False, keep=False):
        return PointObjective(model, sample, natural, self)

    @abc.abstractmethod
    def contributions(self, model: LogDensity, sample: Sample) -> Float[Array, " N"]:
        """The term of each row."""

    @abc.abstractmethod
    def residuals(self, model: LogDensity, sample: Sample) -> Float[Array, "N q"]:
        """Functions r of θ with information tensor g = mean of ∂rᵀ∂r; zero in padding."""


class PointObjective(AbstractObjective):
    """The mean of a discrepancy's contributions, summed over the blocks of the sample.

    A sample in memory is a single block.
    """

    model: Any
    sample: Any  # a Sample, or a Table of rows on disk
    natural: bool = eqx.field(static=True)
    discrepancy: AbstractPointwise

    def __call__(self, vector):
        if self.sample.all_at_once:
            return self.value(self.at(vector))
        return loss_on_disk(self, vector)

    def value(self, model):
        total = lambda block: jnp.sum(self._contributions(model, block))
        return self.sample.sum(total) / self.sample.size

    def value_and_grad(self, vector: Theta) -> tuple[Scalar, Theta]:
        """The loss and its gradient, in one pass over the blocks."""
        value, gradient = self.sample.sum(lambda block: self._sum_and_grad(vector, block))
        return value / self.sample.size, gradient / self.sample.size

    def zeroth(self, vector):
        if not self.sample.all_at_once:
            return None
        rows = self._contributions(self.at(vector), self.sample)
        return Zeroth(jnp.sum(rows) / self.sample.size, rows)

    def jet(self, vector):
        def sums(block: Sample) -> tuple[Array, Array, Array, Array]:
            r = lambda vector: self.discrepancy.residuals(self.at(vector), block)
            squares = jnp.sum(r(vector) ** 2)
            return *self._sum_and_grad(vector, block), gram_of_tangents(r, vector), squares

        value, gradient, gram, squares = self.sample.sum(sums)
        n = self.sample.size
        return Jet(value / n, gradient / n, gram / n, gram / n, squares / n**2)

    def second(self, vector):
        whole, n = self.sample.all_at_once, self.sample.size

        def sums(block: Sample) -> tuple[Array, Array, Array]:
            hessian, rows = self._hessian_and_rows(vector, block)
            return hessian, jnp.sum(rows, axis=1), rows if whole else rows @ rows.T

        hessian, gradient, rows = self.sample.sum(sums)
        return Second(hessian / n, gradient / n, rows if whole else root(rows))

    def shares(self, vector, z):
        there = Sample(z, jnp.asarray(len(z)), self.sample.centre)
        return jax.jacfwd(lambda vector: self._contributions(self.at(vector), there))(vector).T

    def part(self, rows, vector, key, chains):
        if self.discrepancy.looks_up:
            raise looks_up()
        return dataclasses.replace(self, sample=self.on_rows(rows)), chains

    def _contributions(self, model: LogDensity, block: Sample) -> Float[Array, " N"]:
        return block.zero_padding(self.discrepancy.contributions(model, block))

    def _sum_and_grad(self, vector: Theta, block: Sample) -> tuple[Scalar, Theta]:
        total = lambda vector: jnp.sum(self._contributions(self.at(vector), block))
        return jax.value_and_grad(total)(vector)

    def _hessian_and_rows(
        self, vector: Theta, block: Sample
    ) -> tuple[Float[Array, "p p"], Float[Array, "p N"]]:
        """The Hessian of the sum over a block, and the gradient of each contribution.

        For much data in reverse mode, which takes longer to compile but less time and memory.
        """
        contributions = lambda vector: self._contributions(self.at(vector), block)
        residuals = lambda vector: self.discrepancy.residuals(self.at(vector), block)
        entries = jax.eval_shape(residuals, vector).size
        if vector.size**2 * entries > _ENTRIES:
            gradient = jax.grad(lambda vector: jnp.sum(contributions(vector)))
            push = lambda e: jax.jvp(gradient, (vector,), (e,))[1]
            hessian = by_batches(push, jnp.eye(vector.size, dtype=vector.dtype), entries)
            return hessian, tangents(contributions, vector)

        def sum_and_rows(vector: Theta) -> tuple[Array, Array]:
            rows = jax.jacfwd(contributions)(vector).T
            return jnp.sum(rows, axis=1), rows

        return jax.jacfwd(sum_and_rows, has_aux=True)(vector)


_ENTRIES = 1 << 24
"""The most second derivatives of contributions in memory at once: 128 MB in float64."""


@errors.explained("discrete.md")
def looks_up() -> TypeError:
    return TypeError(
        "MPF with form='kl' or 'l1' looks up which neighbours were observed, which jit, vmap and minibatches do not "
        "allow. Use form='mean' there."
    )
