"""A yardstick in numba: what a native tile takes on one core, with loops for any dimension."""

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from ..closed_form import standard_normal

BLOCK = 512
"""Points of a block, few enough that what belongs to them stays in the nearest cache."""


def calls(x: np.ndarray) -> dict[str, Callable]:
    return {"": lambda: standard_normal(x, fields)}


def fields(x: np.ndarray, b: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F and J of `closed_form`; coordinates lie one after another in memory, so that the inner loops are vectorised."""
    F, J = _fields(np.ascontiguousarray(x.T), np.ascontiguousarray(b.T), m)
    return F.T, J


@njit(fastmath=True, error_model="numpy")
def _fields(x, b, m):
    d, n = x.shape
    F, J = np.zeros((d, n)), np.zeros(n)
    room = np.empty((5, BLOCK))
    for start in range(0, n, BLOCK):
        for i in range(start + 1, n):
            before = slice(start, min(start + BLOCK, i))
            size = before.stop - start
            v, root, cube, to_i, to_j = room[0, :size], room[1, :size], room[2, :size], room[3, :size], room[4, :size]
            v[:], to_i[:], to_j[:] = 1, 0, 0
            for c in range(d):
                _add_square(x[c, i], x[c, before], v)
                _add_product(x[c, i], x[c, before], b[c, before], to_i)
                _add_multiple(x[c, i], x[c, before], b[c, i], to_j)
            _powers(v, root, cube)
            J[i] += _to_m(d, m[i], m[before], v, cube, to_i, to_j, J[before])
            for c in range(d):
                F[c, i] += _to_b(
                    x[c, i], b[c, i], m[i], x[c, before], b[c, before], m[before], root, cube, F[c, before]
                )
    return F, J


@njit(fastmath=True, error_model="numpy")
def _add_square(x_i, x, v):
    for j in range(len(x)):
        v[j] += (x_i - x[j]) ** 2


@njit(fastmath=True, error_model="numpy")
def _add_product(x_i, x, b, to_i):
    for j in range(len(x)):
        to_i[j] -= (x_i - x[j]) * b[j]


@njit(fastmath=True, error_model="numpy")
def _add_multiple(x_i, x, b_i, to_j):
    for j in range(len(x)):
        to_j[j] += (x_i - x[j]) * b_i


@njit(fastmath=True, error_model="numpy")
def _powers(v, root, cube):
    """v^(−1/2), v^(−3/2), and 1/v in place of v."""
    for j in range(len(v)):
        v[j] = 1 / v[j]
        root[j] = math.sqrt(v[j])
        cube[j] = root[j] * v[j]


@njit(fastmath=True, error_model="numpy")
def _to_m(d, m_i, m, inverse, cube, to_i, to_j, J):
    J_i = 0.0
    for j in range(len(m)):
        both = cube[j] * (d - 3 + 3 * inverse[j])
        J_i += cube[j] * to_i[j] + both * m[j]
        J[j] += cube[j] * to_j[j] + both * m_i
    return J_i


@njit(fastmath=True, error_model="numpy")
def _to_b(x_i, b_i, m_i, x, b, m, root, cube, F):
    F_i = 0.0
    for j in range(len(x)):
        push = cube[j] * (x_i - x[j])
        F_i += root[j] * b[j] + push * m[j]
        F[j] += root[j] * b_i - push * m_i
    return F_i
