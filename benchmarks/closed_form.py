"""Value and gradient of two discrepancies by hand, from the derivatives of a sum over pairs that an opponent gives.

An opponent is a function `fields(x, b, m)`: the derivatives F of shape (n, d) and J of shape (n,) of half the sum over
i ≠ j of the Stein kernel k⁰, in b and in m, for the kernel k = (1 + r²)^(−1/2) and a scalar diffusion m. With
b = mᵀ∇log p + ∇·m, v = 1 + ‖x − y‖² and D = x − y

    k⁰ = v^(−1/2) bₓ·bᵧ − v^(−3/2) [mₓ D·bᵧ − mᵧ D·bₓ − d mₓmᵧ] − 3 v^(−5/2) (v − 1) mₓmᵧ.
"""

from collections.abc import Callable

import numpy as np

Fields = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def student_t(x: np.ndarray, loc: np.ndarray, scale: float, df: float, fields: Fields) -> tuple[float, np.ndarray]:
    """DKSD² as a U-statistic, and its gradient in (μ, σ), for Student's t with m = 1 + ‖x − μ‖²/νσ².

    Then b = −(ν + d − 2)(x − μ)/νσ², because m cancels the denominator of the score.
    """
    n, d = x.shape
    z = x - loc
    squares = np.einsum("ij,ij->i", z, z)
    a, p = 1 / (df * scale**2), df + d - 2
    b, m = -p * a * z, 1 + a * squares
    F, J = fields(x, b, m)
    in_loc = p * a * F.sum(0) - 2 * a * (J @ z)
    in_scale = (2 * a / scale) * (p * np.vdot(z, F) - J @ squares)
    pairs = n * (n - 1)
    return (np.vdot(b, F) + m @ J) / pairs, 2 * np.append(in_loc, in_scale) / pairs


def standard_normal(x: np.ndarray, fields: Fields) -> tuple[float, np.ndarray]:
    """KSD² as a V-statistic, and its gradient in (μ, σ), for the normal distribution at μ = 0, σ = 1."""
    n, d = x.shape
    b, m = -x, np.ones(n)
    F, J = fields(x, b, m)
    F, J = F + b, J + d * m
    return (np.vdot(b, F) + m @ J) / n**2, 2 * np.append(F.sum(0), 2 * np.vdot(x, F)) / n**2
