"""G within random parts of the sample: a block (incomplete) U-statistic, where all pairs are too many.

The rows are dealt out at random to B parts. Only pairs within a part are summed, and each part b of n_b observations
counts (n − 1)/(n_b − 1) times, so that a mean over all pairs becomes Σ_b (n_b/n) U_b, unbiased for the same. Its
variance is 4ζ₁/n + 2ζ₂/(n n_b), where that of all pairs is 4ζ₁/n + 2ζ₂/n². Seen as an operator it is a symmetric G
again, so value, gradient, Hessian and sandwich are those of this statistic; the sandwich counts the second term twice
and so errs on the safe side.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Int

from .. import errors
from .._types import Array, Tree
from ..kernels import AbstractRadial
from ..padding import bucket
from ..sample import Sample
from . import tiles
from .forms import AbstractFactored, AbstractOperator, Full


@dataclass(frozen=True)
class Parts:
    """Sum only the pairs within random parts of the sample, each of so many observations or a little fewer.

    Args:
        rows: observations in a part. Work is proportional to it; what is lost in precision, to its inverse.

    >>> x = np.random.default_rng(0).standard_normal((1000, 4))
    >>> model, kernel = ms.models.Gaussian(np.zeros(4), 1.0), ms.kernels.IMQ(2.0)
    >>> all_pairs, some = ms.KSD(kernel)(model, x), ms.KSD(kernel, backend=ms.Parts(256))(model, x)
    >>> bool(abs(all_pairs - some) < 0.01)
    True
    """

    rows: int = 4096

    def count(self, n: int) -> int:
        """How many parts n observations make."""
        return -(-bucket(n) // min(bucket(self.rows), bucket(n)))

    def __post_init__(self):
        if not isinstance(self.rows, int) or self.rows < _FEWEST:
            raise errors.parts_too_small(self.rows, _FEWEST)


_FEWEST = 16


class Scattered(AbstractOperator):
    """A form whose rows are dealt out to parts: `members` are the numbers of the rows of each, padding last."""

    form: AbstractFactored | Full
    members: Int[Array, "B L"]

    @classmethod
    def of(cls, form: AbstractFactored | Full, sample: Sample, parts: Parts) -> "Scattered":
        rows = sample.x.shape[0]
        count = parts.count(rows)
        length = bucket(-(-rows // count))
        lot = jax.random.uniform(jax.random.key(0), (rows,))
        order = jnp.argsort(jnp.where(sample.real, lot, 2))
        order = jnp.concatenate([order, jnp.full(count * length - rows, rows)])  # no row: nothing is read or written
        return cls(form, order.reshape(length, count).T)

    def apply(self, kernel, phi, n, once):
        """Σ_{j≠i} G_ij φⱼ over the other observations of the part of i, weighted."""
        return self.each(lambda form, phi, n_b: tiles.apply(form, kernel, phi, n_b, once), phi, n)

    def own(self, kernel, phi):
        k, k1, _ = kernel.profile(jnp.zeros((), phi.t.dtype))
        return self.form.diagonal(k, 2 * k1, phi)

    def each(self, compute: Callable, rows: Tree, n: Array) -> Tree:
        """compute(form, rows, n_b) in each part, weighted by (n − 1)/(n_b − 1)."""
        B = self.members.shape[0]

        def one(part: tuple) -> Tree:
            members, b = part
            n_b = (n - b + B - 1) // B
            fields = compute(_taken(self.form, members), jax.tree.map(lambda leaf: _rows(leaf, members), rows), n_b)
            return jax.tree.map(lambda leaf: (n - 1) / jnp.maximum(n_b - 1, 1) * leaf, fields)

        fields = lax.map(one, (self.members, jnp.arange(B)))
        places = self.members.reshape(-1)
        back = lambda leaf, like: jnp.zeros_like(like).at[places].set(leaf.reshape(-1, *leaf.shape[2:]), mode="drop")
        return jax.tree.map(back, fields, rows)


def _taken(form: AbstractFactored | Full, members: Int[Array, " L"]) -> AbstractFactored | Full:
    """The form of some rows; all else it holds is of every row."""
    return jax.tree.map(lambda leaf: _rows(leaf, members) if leaf.ndim == 2 else leaf, form)


def _rows(leaf: Array, members: Int[Array, " L"]) -> Array:
    return jnp.asarray(leaf).at[members].get(mode="fill", fill_value=0)


def products(scattered: Scattered) -> Callable:
    """W_q S_q for each q, as `tiles.products` has it, within the parts."""

    def products(form: AbstractFactored, kernel: AbstractRadial, sources: tuple, n: Array, once: bool) -> tuple:
        return scattered.each(lambda form, sources, n_b: tiles.products(form, kernel, sources, n_b, once), sources, n)

    return products
