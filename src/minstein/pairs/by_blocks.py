"""G applied to rows on disk: every block meets every block, two in memory at a time."""

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
    """The pair sum of a batch of features at rows on disk. Terms of finite rank need one pass and
    no pairs.

    Attributes:
        terms: those of the kernel.
        table: the rows.
        batch: the features at a block, leading axis a; computed anew whenever the block is read.
        still: whether all but the first have m = 0.
    """

    terms: tuple[Summand, ...]
    table: Table
    batch: Callable[[Sample], Features]
    still: bool

    def products(self) -> Products:
        """⟨φ_a, G φ_b⟩; the blocks before each stand for those after it as well."""
        sums = self._sums()

        def one(at: Sample) -> Products:
            phis = self.batch(at)
            half, _ = products(
                phis, Fields(*[self._near(at, phis, at.numbers[0] // self.table.disk.block)] * 2)
            )
            here = between.fields(
                self._radial, at, at, phis, same=jnp.asarray(True), still=self.still
            )
            far = between.received(self._spans, sums, at, phis, among=True)
            off, on = products(phis, Fields(_added(here, far), self._own(at, phis)))
            return Products(off + half + half.T, on)

        return self.table.sum(one)

    def fields(self, diagonal: Array) -> Callable[[Sample], Features]:
        """G φ_a at a block, with `diagonal` times what comes from each point itself."""
        sums = self._sums()

        def at(block: Sample) -> Features:
            phis = self.batch(block)
            own = jax.tree.map(lambda part: diagonal * part, self._own(block, phis))
            far = between.received(self._spans, sums, block, phis, among=True)
            return _added(self._near(block, phis), far, own)

        return at

    def fields_elsewhere(self, at: Sample) -> Features:
        """G φ_a at points that are none of the rows."""
        phis = self.batch(at)
        return _added(
            self._near(at, phis), between.received(self._spans, self._sums(), at, phis, among=False)
        )

    def _own(self, block: Sample, phis: Features) -> Features:
        return OfKernel(self.terms, block, Tiles()).own(phis)

    @property
    def _spans(self) -> tuple[Span, ...]:
        return spans(self.terms)

    @property
    def _radial(self) -> tuple[Term, ...]:
        return radial(self.terms)

    def _near(self, at: Sample, phis: Features, until: Array | None = None) -> Features:
        """The fields of radial terms at some points, where the features are φ, from all blocks, or
        those before one.
        """
        if not self._radial:
            return jax.tree.map(jnp.zeros_like, phis)

        def one(block: Sample) -> Features:
            same = jnp.asarray(False) if at.first is None else at.first == block.first
            return between.fields(
                self._radial, at, block, self.batch(block), same=same, still=self.still
            )

        return self.table.sum(one, until)

    def _sums(self) -> tuple[Float[Array, "q r"], ...]:
        """What terms of finite rank need to know of all rows."""
        flat = self._spans
        if not flat:
            return ()
        return self.table.sum(lambda block: between.sent(flat, block, self.batch(block)))


def _added(*fields: Features) -> Features:
    return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]), *fields)
