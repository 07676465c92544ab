"""G applied to rows on disk: each pair of blocks in turn, with two blocks in memory at a time."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array
from ..data.sample import Sample, Table
from ..kernels import Span, Term
from . import between
from .backends import Summand, Tiles, radial, spans
from .forms import Features
from .of_kernel import OfKernel
from .operator import Fields, Products, products


class ByBlocks(NamedTuple):
    """The pair sum of a batch of features at rows on disk. Terms of finite rank need one pass over
    the blocks, and no pairs of blocks.

    Attributes:
        terms: the terms of the kernel.
        table: the rows.
        batch: gives the batch of features at a block, each time that the block is read.
        still: whether all members of the batch except the first have m = 0.
    """

    terms: tuple[Summand, ...]
    table: Table
    batch: Callable[[Sample], Features]
    still: bool

    def products(self) -> Products:
        """Return ⟨φ_a, G φ_b⟩. G is symmetric, so each block is paired with those before it only."""
        sums = self._sums()

        def one(at: Sample) -> Products:
            phis = self.batch(at)
            earlier = self._near(at, phis, at.numbers[0] // self.table.disk.block)
            half, _ = products(phis, Fields(earlier, earlier))
            here = between.fields(
                self._radial, at, at, phis, same=jnp.asarray(True), still=self.still
            )
            far = between.received(self._spans, sums, at, phis, among=True)
            off, on = products(phis, Fields(_add(here, far), self._own(at, phis)))
            return Products(off + half + half.T, on)

        return self.table.sum(one)

    def fields(self, diagonal: Array) -> Callable[[Sample], Features]:
        """Return a function that gives G φ_a at a block, with `diagonal` times each point's own."""
        sums = self._sums()

        def at(block: Sample) -> Features:
            phis = self.batch(block)
            own = jax.tree.map(lambda part: diagonal * part, self._own(block, phis))
            far = between.received(self._spans, sums, block, phis, among=True)
            return _add(self._near(block, phis), far, own)

        return at

    def fields_elsewhere(self, at: Sample) -> Features:
        """Return G φ_a at points that are not rows of the table."""
        phis = self.batch(at)
        far = between.received(self._spans, self._sums(), at, phis, among=False)
        return _add(self._near(at, phis), far)

    def _own(self, block: Sample, phis: Features) -> Features:
        return OfKernel(self.terms, block, Tiles()).own(phis)

    @property
    def _spans(self) -> tuple[Span, ...]:
        return spans(self.terms)

    @property
    def _radial(self) -> tuple[Term, ...]:
        return radial(self.terms)

    def _near(self, at: Sample, phis: Features, until: Array | None = None) -> Features:
        """Return the fields of radial terms at points with features φ, from all blocks or from those
        before the block `until`.
        """
        if not self._radial:
            return phis.zeros_like()

        def one(block: Sample) -> Features:
            same = jnp.asarray(False) if at.first is None else at.first == block.first
            return between.fields(
                self._radial, at, block, self.batch(block), same=same, still=self.still
            )

        return self.table.sum(one, until)

    def _sums(self) -> tuple[Float[Array, "q r"], ...]:
        """Return the sums over all rows that terms of finite rank need."""
        if not self._spans:
            return ()
        return self.table.sum(lambda block: between.sent(self._spans, block, self.batch(block)))


def _add(*fields: Features) -> Features:
    return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]), *fields)
