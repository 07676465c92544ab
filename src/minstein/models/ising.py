"""The Ising model and the Boltzmann machine: fields, and couplings along the edges of a graph."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._types import Array, Point
from ..data.spaces import BINARY, SPINS, Finite
from ..params import parameter
from ._family import AbstractSampler, as_array, plain
from .enumeration import exact_draws

_EXACT = 12
"""Up to this many sites, draws are exact, from the probabilities of at most 2¹² = 4096 states."""

SWEEPS = 500
"""Gibbs sweeps from a random state to a draw if there are more sites: enough away from phase
transitions, near which no fixed number is.
"""


class Ising(AbstractSampler):
    """log p = Σ_i h_i x_i + Σ_(i,j) J_ij x_i x_j for spins x_i = ±1, summed over the edges (i, j).

    Args:
        field: h: one number for all sites, or shape (d,). If there is no field, fix it with
            `ms.fixed(0.0)`.
        coupling: J: one number for all edges, or one for each edge.
        edges: the edges of the graph, pairs of sites, of shape (e, 2), such as
            `ms.models.grid(10, 10)`. All pairs if None, which requires a field of shape (d,).
        space: the alphabet, by default `ms.spaces.SPINS`; with `ms.spaces.BINARY` the model is a
            Boltzmann machine.

    With up to 12 sites, `sample` is exact. With more, it runs 500 Gibbs sweeps from a random state
    for each draw, which is enough only away from phase transitions.

    >>> model = ms.models.Ising(ms.fixed(0.0), 0.3, ms.models.grid(2, 2))
    >>> float(model(jnp.array([1.0, 1.0, 1.0, -1.0])))
    0.0
    """

    field: Any = parameter()
    coupling: Any = parameter()
    edges: tuple[tuple[int, int], ...] = eqx.field(static=True, repr=False, default=())
    d: int = eqx.field(static=True, default=0)
    space: Finite = eqx.field(repr=False, default=SPINS)

    def __init__(self, field: Any, coupling: Any, edges: Any = None, *, space: Finite = SPINS):
        self.field, self.coupling, self.space = as_array(field), as_array(coupling), space
        sites = np.shape(plain(self.field))
        if edges is None:
            if len(sites) != 1:
                raise ValueError(
                    "Ising: without edges, the field must have shape (d,) to determine the number of sites."
                )
            edges = np.stack(np.triu_indices(sites[0], 1), axis=1)
        pairs = np.asarray(edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(
                f"Ising: edges must be pairs of sites, of shape (e, 2), got {pairs.shape}."
            )
        self.d = int(sites[0] if sites else pairs.max() + 1)
        _check_graph(pairs, self.d)
        shape = np.shape(plain(self.coupling))
        if shape not in ((), (len(pairs),)):
            raise ValueError(
                f"Ising: coupling must be a number or of shape ({len(pairs)},), got {shape}."
            )
        self.edges = tuple(map(tuple, pairs.tolist()))

    def log_density(self, x):
        return (
            jnp.vdot(jnp.broadcast_to(self.field, x.shape), x) + jnp.vdot(x, self.matrix() @ x) / 2
        )

    def matrix(self) -> Float[Array, "d d"]:
        """Return J as a symmetric matrix, with zeros for pairs that are not edges."""
        i, j = np.asarray(self.edges, int).reshape(-1, 2).T
        values = jnp.broadcast_to(self.coupling, (len(self.edges),))
        upper = jnp.zeros((self.d, self.d), values.dtype).at[i, j].set(values)
        return upper + upper.T

    def flips(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """log p(x with site i flipped) − log p(x) for every site i of every row x.

        This is (x_i′ − x_i)(h_i + (Jx)_i), x_i′ being the flipped value.
        """
        return (self.space.shifted(x, 1) - x) * (self.field + x @ self.matrix())

    def site_logits(self, x: Point, i: Int[Array, ""]) -> Float[Array, " a"]:
        """Return log p up to a constant for each value of site i."""
        sites, which = (jnp.asarray(table)[i] for table in self._neighbours())
        J = jnp.append(jnp.broadcast_to(self.coupling, (len(self.edges),)), 0)
        local = jnp.broadcast_to(self.field, (self.d,))[i] + jnp.sum(J[which] * x[sites])
        return jnp.asarray(self.space.values, x.dtype) * local

    def draw(self, key, n):
        if self.d <= _EXACT:
            return exact_draws(self, self.d, key, n)
        start, chain = jax.random.split(key)
        letters = jnp.asarray(self.space.values)
        x = letters[jax.random.randint(start, (self.d, n), 0, 2)]
        return jax.lax.fori_loop(
            0, SWEEPS, lambda t, x: self._sweep(x, jax.random.fold_in(chain, t)), x
        ).T

    def _sweep(self, x: Float[Array, "d n"], key: Any) -> Float[Array, "d n"]:
        """One Gibbs sweep over the sites of n chains, one chain per column."""
        low, high = self.space.values
        sites, which = map(jnp.asarray, self._neighbours())
        weights = jnp.append(jnp.broadcast_to(self.coupling, (len(self.edges),)), 0)[which]
        field = jnp.broadcast_to(self.field, (self.d,))
        noise = jax.random.logistic(key, x.shape, x.dtype)

        def site(i: Array, x: Array) -> Array:
            local = field[i] + weights[i] @ x[sites[i]]
            return jnp.asarray(x).at[i].set(jnp.where((high - low) * local > noise[i], high, low))

        return jax.lax.fori_loop(0, self.d, site, x)

    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the neighbours of each site and the edges to them, padded with an edge past the last."""
        lists: list[list[tuple[int, int]]] = [[] for _ in range(self.d)]
        for edge, (i, j) in enumerate(self.edges):
            lists[i].append((j, edge))
            lists[j].append((i, edge))
        most = max(map(len, lists))
        table = np.array(
            [row + [(0, len(self.edges))] * (most - len(row)) for row in lists]
        ).reshape(self.d, most, 2)
        return table[..., 0], table[..., 1]


def BoltzmannMachine(field: Any, coupling: Any, edges: Any = None) -> Ising:
    """The fully visible Boltzmann machine: the Ising model with x_i in {0, 1}.

    log p = Σ_i h_i x_i + Σ_(i,j) J_ij x_i x_j.

    Args:
        field: h, the biases, as for `Ising`.
        coupling: J, the weights, as for `Ising`.
        edges: as for `Ising`.

    >>> ms.params.names(ms.models.BoltzmannMachine(np.zeros(2), np.zeros(1)))
    ('field[0]', 'field[1]', 'coupling[0]')
    """
    return Ising(field, coupling, edges, space=BINARY)


def grid(rows: int, columns: int, *, periodic: bool = False) -> Int[np.ndarray, "e 2"]:
    """The edges between neighbouring sites of a grid, which are numbered row by row.

    Args:
        rows, columns: the size of the grid.
        periodic: whether opposite sides of the grid are neighbours.

    >>> ms.models.grid(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    site = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(site[:, :-1], site[:, 1:]), (site[:-1], site[1:])]
    if periodic:
        pairs += [(site[:, -1], site[:, 0])] * (columns > 2) + [(site[-1], site[0])] * (rows > 2)
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])


def _check_graph(pairs: np.ndarray, d: int) -> None:
    if pairs.size and (pairs.min() < 0 or pairs.max() >= d):
        raise ValueError(
            f"Ising: an edge names site {pairs.max()}, but there are {d} sites, numbered from 0."
        )
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError("Ising: an edge joins a site to itself.")
    if len(np.unique(np.sort(pairs, axis=1), axis=0)) < len(pairs):
        raise ValueError("Ising: an edge occurs twice.")
