"""The Stein kernel as a symmetric bilinear form in per-point features, in three degrees of
generality.

With D = zᵢ − zⱼ, u = ‖D‖² and per-point features (t, m), m of shape (e, r),

    k⁰ = κ tᵢ·tⱼ + 2κ′[(mᵢᵀD)·tⱼ − tᵢ·(mⱼᵀD) − ⟨mᵢ, mⱼ⟩] − 4κ″ (mᵢᵀD)·(mⱼᵀD) = ⟨φᵢ, G_ij φⱼ⟩.

A form holds the θ-free part of G: coordinates and constants. Its features φ are what depends on θ:

    Multiple   m = h C        a number h at each point, C constant: scalar m, and every constant m
    Columns    m = C diag(h)  a vector h at each point: diagonal m
    Full       m              a matrix at each point
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Tree
from ..kernels import AbstractRadial
from .distances import DIFFERENCES, square_differences, square_distances


class Features(NamedTuple):
    """The features φ at each point, or G φ: the witness field and its Jacobian, of the same shapes."""

    t: Float[Array, "*n r"]
    m: Array

    def first(self) -> "Features":
        """The first member of a batch."""
        return Features(self.t[0], self.m[0])

    def as_batch(self) -> "Features":
        """A batch of which these features are the only member."""
        return Features(self.t[None], self.m[None])

    def zeros_like(self) -> "Features":
        return Features(jnp.zeros_like(self.t), jnp.zeros_like(self.m))


class Tile(NamedTuple):
    """κ, 2κ′, 4κ″ and r² for a block of pairs: rows are targets, columns are sources."""

    k: Float[Array, "a b"]
    c1: Float[Array, "a b"]
    c2: Float[Array, "a b"]
    u: Float[Array, "a b"]

    @property
    def T(self) -> "Tile":
        return Tile(*(part.T for part in self))


class AbstractWay(eqx.Module):
    """A way to visit the pairs of a form's points: by tiles, in a ring, within parts, …"""

    @abc.abstractmethod
    def sums(self, form: Any, kernel: AbstractRadial, sources: Tree, once: bool) -> Tree:
        """Return the sums over all pairs of what each point receives: W_q S_q for each q if the form
        is factored, else G φ.
        """


class AbstractForm(eqx.Module):
    """The θ-free part of the bilinear form."""

    is_factored: ClassVar[bool] = False
    """Whether G φ is computed from weights times sources, as in `AbstractFactored`."""

    @property
    @abc.abstractmethod
    def points(self) -> Tree:
        """The arrays, one row for each point, that the form needs on a tile; distances are those of
        the entry 'z'.
        """

    @abc.abstractmethod
    def diagonal(self, k: Any, c1: Any, phi: Features) -> Features:
        """G_ii φᵢ at every point, from κ(0) and 2κ′(0)."""

    @abc.abstractmethod
    def along(self, m: Array, D: dict[str, Array]) -> Float[Array, " r"]:
        """mᵀD for the features m of one point; D holds the differences of the `points` of two."""

    @abc.abstractmethod
    def overlap(self, m: Array, other: Array) -> Array:
        """⟨m, m′⟩ for the features of two points."""

    @abc.abstractmethod
    def sum_pairs(
        self,
        way: AbstractWay,
        kernel: AbstractRadial,
        phis: Features,
        *,
        still: bool,
        once: bool,
        at: Any = None,
    ) -> Features:
        """Return G applied to a batch of features, visiting the pairs in this way.

        `still` means that all members except the first have m = 0. `at` is the form at the points
        where the fields are wanted, if they are not those of the features.
        """

    @abc.abstractmethod
    def send(self, tile: Tile, at_i: Tree, at_j: Tree, sources: Any) -> Any:
        """Return what the targets i of a tile receive from the sources at the points j."""


class AbstractFactored(AbstractForm):
    """A form whose G φ at each point is a combination of the sums W_q S_q: weights of pairs times
    sources.

    Every W_q is symmetric in i and j, so one tile of it serves targets and sources alike.
    """

    is_factored: ClassVar[bool] = True

    def sum_pairs(self, way, kernel, phis, *, still, once, at=None):
        at = self if at is None else at
        if still:
            return self._sum_still(way, kernel, phis, once, at)
        one = lambda phi: at.gather(way.sums(self, kernel, self.sources(phi), once))
        return _each(one, phis)

    def _sum_still(
        self, way: AbstractWay, kernel: AbstractRadial, phis: Features, once: bool, at: Any
    ) -> Features:
        """For a batch (t₀, m), (t₁, 0), …, (t_p, 0): one product with each weight for the columns
        of all members.
        """
        sources, still = self.sources(phis.first()), jax.vmap(self.still_sources)(phis.t[1:])
        widths = [source.shape[1] for source in sources]
        wide = [
            jnp.concatenate([a, _side_by_side(b)], 1)
            for a, b in zip(sources[:2], still, strict=True)
        ]
        sums = way.sums(self, kernel, (*wide, *sources[2:]), once)
        own = at.gather(tuple(s[:, :width] for s, width in zip(sums, widths, strict=True)))
        rest = jax.vmap(at.gather_still)(
            *(_one_by_one(sums[q][:, widths[q] :], still[q].shape) for q in (0, 1))
        )
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), own, rest)

    def send(self, tile, at_i, at_j, sources):
        weights = self.weights(tile, at_i, at_j)
        return tuple(w @ source for w, source in zip(weights, sources, strict=True))

    @abc.abstractmethod
    def weights(self, tile: Tile, at_i: Tree, at_j: Tree) -> tuple[Float[Array, "a b"], ...]:
        """W_q for each q."""

    @abc.abstractmethod
    def sources(self, phi: Features) -> tuple[Float[Array, "n c"], ...]:
        """S_q for each q."""

    @abc.abstractmethod
    def gather(self, sums: tuple[Float[Array, "n c"], ...]) -> Features:
        """G φ from the sums W_q S_q."""

    @abc.abstractmethod
    def still_sources(
        self, t: Float[Array, "n r"]
    ) -> tuple[Float[Array, "n r"], Float[Array, "n c"]]:
        """The sources of φ = (t, 0) for the first two weights; those for the others are zero."""

    @abc.abstractmethod
    def gather_still(self, kt: Float[Array, "n r"], c1: Float[Array, "n c"]) -> Features:
        """G φ for φ = (t, 0)."""


class Multiple(AbstractFactored):
    """m = h C with a number h at each point: C enters through y = Cᵀz and w = ‖C‖² only.

    `y` is None if it equals z.
    """

    z: Float[Array, "n e"]
    y: Float[Array, "n r"] | None
    w: Any

    def along(self, m, D):
        return m * D["z" if self.y is None else "y"]

    def overlap(self, m, other):
        return self.w * m * other

    @property
    def points(self):
        return {"z": self.z} if self.y is None else {"z": self.z, "y": self.y}

    @property
    def _y(self):
        return self.z if self.y is None else self.y

    def weights(self, tile, at_i, at_j):
        square = tile.u if self.y is None else square_distances(at_i["y"], at_j["y"])
        return tile.k, tile.c1, self.w * tile.c1 + tile.c2 * square

    def sources(self, phi):
        y, t, h = self._y, phi.t, phi.m[:, None]
        return t, jnp.concatenate([h * y, t, jnp.sum(y * t, 1, keepdims=True), h], 1), h

    def gather(self, sums):
        kt, c1, second = sums
        y, r = self._y, self._y.shape[1]
        F = kt - y * c1[:, -1:] + c1[:, :r]
        return Features(F, jnp.sum(y * c1[:, r : 2 * r], 1) - c1[:, 2 * r] - second[:, 0])

    def still_sources(self, t):
        return t, jnp.concatenate([t, jnp.sum(self._y * t, 1, keepdims=True)], 1)

    def gather_still(self, kt, c1):
        return Features(kt, jnp.sum(self._y * c1[:, :-1], 1) - c1[:, -1])

    def diagonal(self, k, c1, phi):
        return Features(k * phi.t, -self.w * c1 * phi.m)


class Columns(AbstractFactored):
    """m = C diag(h) with a vector h at each point: C enters through y = Cᵀz and the squared lengths
    w of its columns.
    """

    z: Float[Array, "n e"]
    y: Float[Array, "n r"]
    w: Float[Array, " r"]

    def along(self, m, D):
        return m * D["y"]

    def overlap(self, m, other):
        return jnp.vdot(self.w * m, other)

    @property
    def points(self):
        return {"z": self.z, "y": self.y}

    def weights(self, tile, at_i, at_j):
        if self.y.shape[1] > DIFFERENCES:
            return tile.k, tile.c1, tile.c2
        return (
            tile.k,
            tile.c1,
            *(tile.c2 * square for square in square_differences(at_i["y"], at_j["y"])),
        )

    def sources(self, phi):
        y, t, h = self.y, phi.t, phi.m
        first = t, jnp.concatenate([h, y * h, t, y * t], 1)
        if y.shape[1] > DIFFERENCES:
            return *first, jnp.concatenate([h, y * h, y**2 * h], 1)
        return *first, *(h[:, r : r + 1] for r in range(y.shape[1]))

    def gather(self, sums):
        kt, c1, *second = sums
        y = self.y
        hc, yhc, tc, ytc = jnp.split(c1, 4, axis=1)
        if y.shape[1] > DIFFERENCES:
            a, b, c = jnp.split(second[0], 3, axis=1)
            second = y**2 * a - 2 * y * b + c
        else:
            second = jnp.concatenate(second, 1)
        return Features(kt - y * hc + yhc, y * tc - ytc - self.w * hc - second)

    def still_sources(self, t):
        return t, jnp.concatenate([t, self.y * t], 1)

    def gather_still(self, kt, c1):
        tc, ytc = jnp.split(c1, 2, axis=1)
        return Features(kt, self.y * tc - ytc)

    def diagonal(self, k, c1, phi):
        return Features(k * phi.t, -self.w * c1 * phi.m)


class Full(AbstractForm):
    """m is any matrix of shape (e, r) at each point; its G φ does not factor into weights and
    sources.
    """

    z: Float[Array, "n e"]

    @property
    def points(self):
        return {"z": self.z}

    def sum_pairs(self, way, kernel, phis, *, still, once, at=None):
        return _each(lambda phi: way.sums(self, kernel, phi, once), phis)

    def along(self, m, D):
        return m.T @ D["z"]

    def overlap(self, m, other):
        return jnp.vdot(m, other)

    def send(self, tile, at_i, at_j, phi):
        z, zj = at_i["z"], at_j["z"]
        offset = jnp.einsum("ja,jar->jr", zj, phi.m)
        v = jnp.einsum("ia,jar->rij", z, phi.m) - offset.T[:, None, :]
        F = tile.k @ phi.t - jnp.einsum("ij,rij->ir", tile.c1, v)
        W = tile.c1 * phi.t.T[:, None, :] - tile.c2 * v
        J = z[:, :, None] * jnp.sum(W, 2).T[:, None, :] - jnp.einsum("rij,ja->iar", W, zj)
        return Features(F, J - jnp.einsum("ij,jar->iar", tile.c1, phi.m))

    def diagonal(self, k, c1, phi):
        return Features(k * phi.t, -c1 * phi.m)


def _each(apply: Callable[[Features], Features], phis: Features) -> Features:
    """Apply to each member of a batch, without vmap if there is only one, to avoid batched
    products.
    """
    return jax.vmap(apply)(phis) if phis.t.shape[0] > 1 else apply(phis.first()).as_batch()


def _side_by_side(batch: Float[Array, "p n c"]) -> Float[Array, "n pc"]:
    """The columns of all members of a batch in one matrix."""
    return jnp.moveaxis(batch, 0, 1).reshape(batch.shape[1], -1)


def _one_by_one(columns: Float[Array, "n pc"], shape: tuple[int, ...]) -> Float[Array, "p n c"]:
    """The inverse of `_side_by_side`, for a batch of this shape."""
    p, _, c = shape
    return jnp.moveaxis(columns.reshape(len(columns), p, c), 1, 0)
