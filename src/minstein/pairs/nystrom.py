"""G of the kernel's Nyström approximation k̃(x, y) = k(x, C) k(C, C)⁻¹ k(C, y) on landmarks C among the observations.

k̃ is a kernel itself, and of finite rank: with T_i φᵢ = S[k(·, c)](xᵢ) for every landmark c, a pair sum is ⟨S, M S⟩ for
S = Σᵢ T_i φᵢ and M = k(C, C)⁻¹, less the pairs of points with themselves. Linear work in n, a block of rows at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float

from .. import errors
from .._types import Array, Tree
from ..kernels import AbstractRadial
from ..padding import TILE
from ..sample import Sample
from .forms import AbstractFactored, AbstractOperator, Features, Full, square_distances


@dataclass(frozen=True)
class Nystrom:
    """Sum the pairs of the kernel's Nyström approximation, which has rank d times the number of landmarks.

    Args:
        landmarks: how many observations, chosen at random, the approximation is exact at.

    >>> x = np.random.default_rng(0).standard_normal((1000, 4))
    >>> model, kernel = ms.models.Gaussian(np.zeros(4), 1.0), ms.kernels.IMQ(2.0)
    >>> exact, approximate = ms.KSD(kernel)(model, x), ms.KSD(kernel, backend=ms.Nystrom(200))(model, x)
    >>> bool(abs(exact - approximate) < 0.01)
    True
    """

    landmarks: int = 100

    def __post_init__(self):
        if not isinstance(self.landmarks, int) or self.landmarks < 1:
            raise errors.no_landmarks(self.landmarks)


class Landmarks(AbstractOperator):
    """A form with the coordinates of the landmarks, as the form has those of every row."""

    form: AbstractFactored | Full
    at: Tree

    @classmethod
    def of(cls, form: AbstractFactored | Full, sample: Sample, nystrom: Nystrom) -> "Landmarks":
        rows = sample.x.shape[0]
        lot = jax.random.uniform(jax.random.key(1), (rows,))
        chosen = lax.top_k(jnp.where(sample.real, lot, -1), min(nystrom.landmarks, rows))[1]
        return cls(form, jax.tree.map(lambda part: part[chosen], form.points))

    def apply(self, kernel, phi, n, once):
        """Σ_{j≠i} G_ij φⱼ = Tᵢᵀ M (S − Tᵢ φᵢ)."""
        M = self.metric(kernel)
        seen = lambda at, phi: jnp.sum(_seen(self, kernel, at, phi), 0)
        S = _by_blocks(seen, (self.form.points, phi), total=True)
        return _by_blocks(partial(_returned, self, kernel, M, S), (self.form.points, phi))

    def own(self, kernel, phi):
        """Tᵢᵀ M Tᵢ φᵢ."""
        back = lambda at, phi: jax.tree.map(jnp.negative, _returned(self, kernel, self.metric(kernel), 0, at, phi))
        return _by_blocks(back, (self.form.points, phi))

    def metric(self, kernel: AbstractRadial) -> Float[Array, "C C"]:
        """M = k(C, C)⁻¹, without the directions in which landmarks cannot be told apart."""
        w, Q = jnp.linalg.eigh(kernel.profile(square_distances(self.at["z"], self.at["z"]))[0])
        seen = w > _FLAT * w[-1]
        return Q * jnp.where(seen, 1 / jnp.where(seen, w, 1), 0) @ Q.T


_FLAT = 1e-10
"""The least eigenvalue that counts, in units of the largest."""


def _returned(form: Landmarks, kernel: AbstractRadial, M: Array, S: Array | int, at: Tree, phi: Features) -> Features:
    """Tᵢᵀ M (S − Tᵢ φᵢ) for a block of rows."""
    T, back = jax.vjp(lambda phi: _seen(form, kernel, at, phi), phi)
    return back(jnp.einsum("ab,ibr->iar", M, S - T))[0]


def _seen(form: Landmarks, kernel: AbstractRadial, at: Tree, phi: Features) -> Float[Array, "b C r"]:
    """Tᵢ φᵢ = κ tᵢ + 2κ′ mᵢᵀ(zᵢ − c) for a block of rows and every landmark c."""
    k, k1, _ = kernel.profile(square_distances(at["z"], form.at["z"]))
    return k[:, :, None] * phi.t[:, None, :] + 2 * k1[:, :, None] * _along(at, form.at, phi.m)


def _along(at: Tree, landmarks: Tree, m: Array) -> Float[Array, "b C r"]:
    """mᵢᵀ(zᵢ − c): of a matrix m in the coordinates z, of a number or a diagonal in y = Cᵀz."""
    if m.ndim == 3:
        return jnp.einsum("ice,ier->icr", at["z"][:, None, :] - landmarks["z"], m)
    coordinate = "y" if "y" in at else "z"
    return m.reshape(len(m), 1, -1) * (at[coordinate][:, None, :] - landmarks[coordinate])


def _by_blocks(compute: Callable, rows: Tree, *, total: bool = False) -> Tree:
    """compute(rows of a block) for block after block, the results one after the other or, if `total`, their sum."""
    length = jax.tree.leaves(rows)[0].shape[0]
    b = min(TILE, length)
    blocks = jax.tree.map(lambda part: part.reshape(length // b, b, *part.shape[1:]), rows)
    if total:
        start = jnp.zeros_like(jax.eval_shape(lambda: compute(*jax.tree.map(lambda part: part[0], blocks))))
        return lax.scan(lambda sums, block: (sums + compute(*block), None), start, blocks)[0]
    found = lax.map(lambda block: compute(*block), blocks)
    return jax.tree.map(lambda part: part.reshape(length, *part.shape[2:]), found)
