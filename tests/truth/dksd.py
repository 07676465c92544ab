"""The Stein kernel in plain NumPy, every derivative written out by hand; n×n×d×d arrays, for small samples.

`k0_rs = B_rs [a_r a'_s k + a_r m'_ls ∂_{y_l}k + m_jr ∂_{x_j}k a'_s + m_jr m'_ls ∂_{x_j}∂_{y_l}k]`, a = mᵀs + ∇·m.
"""

import numpy as np


def gaussian(D, lengthscale):
    """k, ∂_y k and ∂_x∂_y k for D = x − y."""
    u, d = (D**2).sum(-1), D.shape[-1]
    k = np.exp(-u / (2 * lengthscale**2))
    outer = D[..., :, None] * D[..., None, :]
    ky = D / lengthscale**2 * k[..., None]
    return k, ky, (np.eye(d) / lengthscale**2 - outer / lengthscale**4) * k[..., None, None]


def imq(D, c, beta):
    u, d = (D**2).sum(-1), D.shape[-1]
    v = c**2 + u
    outer = D[..., :, None] * D[..., None, :]
    ky = -2 * beta * D * (v ** (beta - 1))[..., None]
    kxy = -2 * beta * np.eye(d) * (v ** (beta - 1))[..., None, None]
    return v**beta, ky, kxy - 4 * beta * (beta - 1) * outer * (v ** (beta - 2))[..., None, None]


def stein_matrix(x, score, m, div_m, terms):
    """k⁰(xᵢ, xⱼ) for K = Σ B k over terms (B, function of D); m of shape (n, d, d)."""
    a = np.einsum("njr,nj->nr", m, score) + div_m
    D = x[:, None] - x[None]
    total = np.zeros((len(x), len(x)))
    for B, radial in terms:
        k, ky, kxy = radial(D)
        aB = a @ B
        total += k * (aB @ a.T)
        total += np.einsum("ir,jlr,ijl->ij", aB, m, ky)
        total -= np.einsum("iar,jr,ija->ij", m, aB, ky)
        total += np.einsum("iar,rs,jls,ijal->ij", m, B, m, kxy, optimize=True)
    return total


def u_statistic(k0):
    n = len(k0)
    return (k0.sum() - np.trace(k0)) / (n * (n - 1))


def v_statistic(k0):
    return k0.mean()


def student_t_score(x, loc, scale, df):
    z = (x - loc) / scale
    return -(df + x.shape[1]) * z / scale / (df + (z**2).sum(1, keepdims=True))


def scalar_field(x):
    """m = I/(1 + ‖x‖²) and its divergence."""
    w = 1 / (1 + (x**2).sum(1))
    return w[:, None, None] * np.eye(x.shape[1]), -2 * x * w[:, None] ** 2


def diagonal_field(x):
    """m = diag (1 + xᵢ²)^(−1/2) and its divergence."""
    h = (1 + x**2) ** -0.5
    return h[:, :, None] * np.eye(x.shape[1]), -x * (1 + x**2) ** -1.5


def full_field(x):
    """m_jr = δ_jr + sin(x_j) cos(x_r)/10 and its divergence."""
    m = np.eye(x.shape[1]) + np.sin(x)[:, :, None] * np.cos(x)[:, None, :] / 10
    return m, (np.cos(x).sum(1, keepdims=True) * np.cos(x) - np.sin(x) ** 2) / 10


def constant_field(matrix):
    return lambda x: (np.broadcast_to(matrix, (len(x), *matrix.shape)), np.zeros_like(x))
