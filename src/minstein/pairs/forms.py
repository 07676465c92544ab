"""The Stein kernel as a symmetric bilinear form in per-point features, in three levels of generality.

With D = zᵢ − zⱼ, u = ‖D‖² and per-point features (t, m), m of shape (e, r),

    k⁰ = κ tᵢ·tⱼ + 2κ′[(mᵢᵀD)·tⱼ − tᵢ·(mⱼᵀD) − ⟨mᵢ, mⱼ⟩] − 4κ″ (mᵢᵀD)·(mⱼᵀD) = ⟨φᵢ, G_ij φⱼ⟩.

A form holds the θ-free part of G: coordinates and constants. Its features φ are what depends on θ:

    Multiple   m = h C       one number h a point, C constant: scalar m, and every constant one
    Columns    m = C diag(h) a vector h a point: diagonal m
    Full       m             a matrix a point
"""

import abc
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Tree


class Features(NamedTuple):
    """φ: what depends on θ at each point; also the shape of G φ, its witness field and Jacobian."""

    t: Float[Array, "*n r"]
    m: Array


class Tile(NamedTuple):
    """κ, 2κ′, 4κ″ and r² on a block of pairs: rows are targets, columns are sources."""

    k: Float[Array, "a b"]
    c1: Float[Array, "a b"]
    c2: Float[Array, "a b"]
    u: Float[Array, "a b"]

    @property
    def T(self) -> "Tile":
        return Tile(*(part.T for part in self))


_DIFFERENCES = 16
"""Up to this dimension distances come from differences, exact for any spread of the data, at no cost."""


def square_distances(a: Float[Array, "a e"], b: Float[Array, "b e"]) -> Float[Array, "a b"]:
    if a.shape[1] <= _DIFFERENCES:
        return reduce(jnp.add, ((a[:, k, None] - b[None, :, k]) ** 2 for k in range(a.shape[1])))
    squares = jnp.sum(a**2, 1)[:, None] + jnp.sum(b**2, 1) - 2 * a @ b.T
    return jnp.maximum(squares, 0)


class AbstractForm(eqx.Module):
    """The θ-free part of the bilinear form."""

    @property
    @abc.abstractmethod
    def points(self) -> Tree:
        """Per-row arrays that the form needs on a tile; a mapping whose entry 'z' gives the distances."""

    @abc.abstractmethod
    def fields(self, tile: Tile, target: Tree, source: Tree, phi: Features) -> Features:
        """Σⱼ G_ij φⱼ at the targets, over the sources of one tile."""

    @abc.abstractmethod
    def diagonal(self, k: Any, c1: Any, phi: Features) -> Features:
        """G_ii φᵢ at every point, from κ(0) and 2κ′(0)."""


class Multiple(AbstractForm):
    """m = h C with one number h a point: y = Cᵀz and w = ‖C‖² are all that is needed of C."""

    z: Float[Array, "n e"]
    y: Float[Array, "n r"] | None
    w: Any

    @property
    def points(self):
        return {"z": self.z} if self.y is None else {"z": self.z, "y": self.y}

    def fields(self, tile, target, source, phi):
        yi, yj = target.get("y", target["z"]), source.get("y", source["z"])
        r, h = yi.shape[1], phi.m[:, None]
        square = tile.u if self.y is None else square_distances(yi, yj)
        sums = tile.c1 @ jnp.concatenate([h * yj, phi.t, jnp.sum(yj * phi.t, 1, keepdims=True), h], 1)
        F = tile.k @ phi.t - yi * sums[:, -1:] + sums[:, :r]
        J = jnp.sum(yi * sums[:, r : 2 * r], 1) - sums[:, 2 * r] - (self.w * tile.c1 + tile.c2 * square) @ phi.m
        return Features(F, J)

    def diagonal(self, k, c1, phi):
        return Features(k * phi.t, -self.w * c1 * phi.m)


class Columns(AbstractForm):
    """m = C diag(h) with a vector h a point: y = Cᵀz and the squared lengths w of C's columns are needed."""

    z: Float[Array, "n e"]
    y: Float[Array, "n r"]
    w: Float[Array, " r"]

    @property
    def points(self):
        return {"z": self.z, "y": self.y}

    def fields(self, tile, target, source, phi):
        y, yj, t, h = target["y"], source["y"], phi.t, phi.m
        hc, yhc, tc, ytc = jnp.split(tile.c1 @ jnp.concatenate([h, yj * h, t, yj * t], 1), 4, axis=1)
        F = tile.k @ t - y * hc + yhc
        J = y * tc - ytc - self.w * hc - self._second(tile, y, yj, h)
        return Features(F, J)

    def _second(self, tile: Tile, y: Array, yj: Array, h: Array) -> Array:
        """Σⱼ c2 (y − yⱼ)² hⱼ, coordinate by coordinate; squares are expanded only where that is much cheaper."""
        if y.shape[1] <= _DIFFERENCES:
            column = lambda r: (tile.c2 * (y[:, r, None] - yj[None, :, r]) ** 2) @ h[:, r]
            return jnp.stack([column(r) for r in range(y.shape[1])], 1)
        a, b, c = jnp.split(tile.c2 @ jnp.concatenate([h, yj * h, yj**2 * h], 1), 3, axis=1)
        return y**2 * a - 2 * y * b + c

    def diagonal(self, k, c1, phi):
        return Features(k * phi.t, -self.w * c1 * phi.m)


class Full(AbstractForm):
    """m a matrix of shape (e, r) at each point."""

    z: Float[Array, "n e"]

    @property
    def points(self):
        return {"z": self.z}

    def fields(self, tile, target, source, phi):
        z, zj = target["z"], source["z"]
        offset = jnp.einsum("ja,jar->jr", zj, phi.m)
        v = jnp.einsum("ia,jar->rij", z, phi.m) - offset.T[:, None, :]
        F = tile.k @ phi.t - jnp.einsum("ij,rij->ir", tile.c1, v)
        W = tile.c1 * phi.t.T[:, None, :] - tile.c2 * v
        J = z[:, :, None] * jnp.sum(W, 2).T[:, None, :] - jnp.einsum("rij,ja->iar", W, zj)
        return Features(F, J - jnp.einsum("ij,jar->iar", tile.c1, phi.m))

    def diagonal(self, k, c1, phi):
        return Features(k * phi.t, -c1 * phi.m)
