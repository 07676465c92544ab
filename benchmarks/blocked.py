"""The opponent in NumPy: value and gradient of two discrepancies, by matrix products over symmetric tiles of pairs.

Written for k = (1 + r²)^(−1/2) and a scalar diffusion m alone, with every derivative worked out by hand; it shares no
code with the package, and so is the reference for its numbers as well.

With b = mᵀ∇log p + ∇·m, v = 1 + ‖x − y‖² and D = x − y the Stein kernel is

    k⁰ = v^(−1/2) bₓ·bᵧ − v^(−3/2) [mₓ D·bᵧ − mᵧ D·bₓ − d mₓmᵧ] − 3 v^(−5/2) (v − 1) mₓmᵧ.
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


def student_t(x: np.ndarray, loc: np.ndarray, scale: float, df: float, *, block: int) -> tuple[float, np.ndarray]:
    """DKSD² as a U-statistic, and its gradient in (μ, σ), for Student's t with m = 1 + ‖x − μ‖²/νσ².

    Then b = −(ν + d − 2)(x − μ)/νσ², because m cancels the denominator of the score.
    """
    n, d = x.shape
    z = x - loc
    squares = np.einsum("ij,ij->i", z, z)
    a, p = 1 / (df * scale**2), df + d - 2
    b, m = -p * a * z, 1 + a * squares
    F, J = fields(x, b, m, block=block)
    in_loc = p * a * F.sum(0) - 2 * a * (J @ z)
    in_scale = (2 * a / scale) * (p * np.vdot(z, F) - J @ squares)
    pairs = n * (n - 1)
    return (np.vdot(b, F) + m @ J) / pairs, 2 * np.append(in_loc, in_scale) / pairs


def standard_normal(x: np.ndarray, *, block: int) -> tuple[float, np.ndarray]:
    """KSD² as a V-statistic, and its gradient in (μ, σ), for the normal distribution at μ = 0, σ = 1."""
    n, d = x.shape
    b, m = -x, np.ones(n)
    F, J = fields(x, b, m, block=block)
    F, J = F + b, J + d * m
    return (np.vdot(b, F) + m @ J) / n**2, 2 * np.append(F.sum(0), 2 * np.vdot(x, F)) / n**2


def fields(x: np.ndarray, b: np.ndarray, m: np.ndarray, *, block: int) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives F of shape (n, d) and J of shape (n,) of half the sum over i ≠ j of k⁰, in b and in m."""
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
