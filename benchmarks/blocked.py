"""The opponent in NumPy: the derivatives of a sum over pairs, by matrix products over symmetric tiles of pairs.

Written for the kernel and the diffusions of `closed_form` alone, with every derivative worked out by hand; it shares no
code with the package, and so is the reference for its numbers as well.
"""

from typing import NamedTuple

import numpy as np

BLOCKS = (64, 128, 256)
"""Sizes of a tile worth trying."""


class Sums(NamedTuple):
    """Sums over j ≠ i of v^(−1/2) b, of v^(−3/2) (m z, b, z·b, m) and of v^(−5/2) m, for every i."""

    roots: np.ndarray
    cubes: np.ndarray
    fifths: np.ndarray


def fields(x: np.ndarray, b: np.ndarray, m: np.ndarray, *, block: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """F and J of `closed_form`."""
    d = x.shape[1]
    z = x - x.mean(0)
    sums = _sums(z, b, m[:, None], block)
    mz, zb_, zb, m_ = np.split(sums.cubes, [d, 2 * d, 2 * d + 1], axis=1)
    F = sums.roots + z * m_ - mz
    J = zb - np.einsum("ij,ij->i", z, zb_)[:, None] + (d - 3) * m_ + 3 * sums.fifths
    return F, J[:, 0]


def _sums(z: np.ndarray, b: np.ndarray, m: np.ndarray, block: int) -> Sums:
    sources = Sums(b, np.hstack([m * z, b, np.sum(z * b, 1, keepdims=True), m]), m)
    sums = Sums(*map(np.zeros_like, sources))
    left, right = _distance_factors(z)
    for i in range(0, len(z), block):
        at_i = slice(i, i + block)
        for j in range(0, i + 1, block):
            at_j = slice(j, j + block)
            for power, source, total in zip(_powers(left[at_i] @ right[at_j].T, i == j), sources, sums, strict=True):
                total[at_i] += power @ source[at_j]
                if i != j:
                    total[at_j] += power.T @ source[at_i]
    return sums


def _distance_factors(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Matrices whose product is 1 + ‖zᵢ − zⱼ‖², so that one matrix product gives it."""
    squares, ones = np.einsum("ij,ij->i", z, z)[:, None], np.ones((len(z), 1))
    return np.hstack([z, 1 + squares, ones]), np.hstack([-2 * z, ones, squares])


def _powers(v: np.ndarray, diagonal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """v^(−1/2), v^(−3/2) and v^(−5/2), overwriting v; zero for a point and itself."""
    inverse = np.reciprocal(v, out=v)
    root = np.sqrt(inverse)
    cube = root * inverse
    fifth = np.multiply(cube, inverse, out=inverse)
    if diagonal:
        for power in (root, cube, fifth):
            np.fill_diagonal(power, 0)
    return root, cube, fifth
