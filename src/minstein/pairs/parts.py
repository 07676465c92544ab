"""G within random parts of the sample: a block (incomplete) U-statistic, for samples with too many
pairs.

The rows are dealt out at random to B parts. Only pairs within a part are summed, and each part b of
n_b observations has the weight (n − 1)/(n_b − 1), so that the mean over all pairs becomes
Σ_b (n_b/n) U_b, which has the same expectation. Its variance is 4ζ₁/n + 2ζ₂/(n n_b); that of the
mean over all pairs is 4ζ₁/n + 2ζ₂/n². The statistic is again given by a symmetric operator G, so
value, gradient, Hessian and sandwich are its own; the sandwich counts the second term twice and so
errs on the safe side.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Int

from .._types import Array, Tree
from ..data.padding import bucket
from ..data.sample import Sample
from .forms import AbstractWay
from .tiles import Tiles


class Within(AbstractWay):
    """Every pair within each part; `members` are the indices of its rows, padding last."""

    members: Int[Array, "B L"]
    n: Array

    @classmethod
    def of(cls, sample: Sample, count: int, seed: int) -> "Within":
        """Deal the observations of a sample out at random to `count` parts."""
        rows = sample.x.shape[0]
        length = bucket(-(-rows // count))
        lot = jax.random.uniform(jax.random.key(seed), (rows,))
        order = jnp.argsort(jnp.where(sample.real, lot, 2))
        beyond = jnp.full(count * length - rows, rows)  # an index that is neither read nor written
        return cls(jnp.concatenate([order, beyond]).reshape(length, count).T, sample.n)

    def sums(self, form, kernel, sources, once):
        B = self.members.shape[0]

        def one(part: tuple) -> Tree:
            members, b = part
            n_b = (self.n - b + B - 1) // B
            take = lambda leaf: jnp.asarray(leaf).at[members].get(mode="fill", fill_value=0)
            # arrays of a form with two axes have one row for each point; others hold for all
            some = jax.tree.map(lambda leaf: take(leaf) if leaf.ndim == 2 else leaf, form)
            sums = Tiles(n_b).sums(some, kernel, jax.tree.map(take, sources), once)
            return jax.tree.map(lambda leaf: (self.n - 1) / jnp.maximum(n_b - 1, 1) * leaf, sums)

        sums = lax.map(one, (self.members, jnp.arange(B)))
        places = self.members.reshape(-1)
        back = lambda leaf, like: (
            jnp.zeros_like(like).at[places].set(leaf.reshape(-1, *leaf.shape[2:]), mode="drop")
        )
        return jax.tree.map(back, sums, sources)
