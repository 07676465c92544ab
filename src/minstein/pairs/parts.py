"""G within random parts of the sample: a block (incomplete) U-statistic, where all pairs are too
many.

The rows are dealt out at random to B parts. Only pairs within a part are summed, and each part b of
n_b observations counts (n − 1)/(n_b − 1) times, so that a mean over all pairs becomes Σ_b (n_b/n)
U_b, unbiased for the same. Its variance is 4ζ₁/n + 2ζ₂/(n n_b), where that of all pairs is 4ζ₁/n +
2ζ₂/n². Seen as an operator it is a symmetric G again, so value, gradient, Hessian and sandwich are
those of this statistic; the sandwich counts the second term twice and so errs on the safe side.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Int

from .._types import Array, Tree
from ..data.padding import bucket
from ..data.sample import Sample
from . import tiles
from .forms import AbstractForm, AbstractWay


class Within(AbstractWay):
    """Every pair within each part: `members` are the numbers of the rows of each, padding last."""

    members: Int[Array, "B L"]
    n: Array

    @classmethod
    def of(cls, sample: Sample, count: int, seed: int) -> "Within":
        """Deal the observations of a sample out at random to this many parts."""
        rows = sample.x.shape[0]
        length = bucket(-(-rows // count))
        lot = jax.random.uniform(jax.random.key(seed), (rows,))
        order = jnp.argsort(jnp.where(sample.real, lot, 2))
        filled = jnp.full(count * length - rows, rows)  # no row: nothing is read or written
        return cls(jnp.concatenate([order, filled]).reshape(length, count).T, sample.n)

    def products(self, form, kernel, sources, once):
        compute = lambda form, sources, n: tiles.products(form, kernel, sources, n, once)
        return self._each(compute, form, sources)

    def fields(self, form, kernel, phi, once):
        compute = lambda form, phi, n: tiles.fields(form, kernel, phi, n)
        return self._each(compute, form, phi)

    def _each(self, compute: Callable, form: AbstractForm, rows: Tree) -> Tree:
        """compute(form, rows, n_b) in each part, weighted by (n − 1)/(n_b − 1)."""
        B = self.members.shape[0]

        def one(part: tuple) -> Tree:
            members, b = part
            n_b = (self.n - b + B - 1) // B
            taken = jax.tree.map(lambda leaf: _rows(leaf, members), rows)
            fields = compute(_taken(form, members), taken, n_b)
            return jax.tree.map(lambda leaf: (self.n - 1) / jnp.maximum(n_b - 1, 1) * leaf, fields)

        fields = lax.map(one, (self.members, jnp.arange(B)))
        places = self.members.reshape(-1)
        back = lambda leaf, like: (
            jnp.zeros_like(like).at[places].set(leaf.reshape(-1, *leaf.shape[2:]), mode="drop")
        )
        return jax.tree.map(back, fields, rows)


def _taken(form: AbstractForm, members: Int[Array, " L"]) -> AbstractForm:
    """The form of some rows; all else it holds is of every row."""
    return jax.tree.map(lambda leaf: _rows(leaf, members) if leaf.ndim == 2 else leaf, form)


def _rows(leaf: Array, members: Int[Array, " L"]) -> Array:
    return jnp.asarray(leaf).at[members].get(mode="fill", fill_value=0)
