"""Radial kernels on the line as sums of exponentials, k(r) = Re Σ wₗ exp(−aₗ r) for r ≥ 0.

Exponentials factorise, exp(−a(x − y)) = exp(−a(x − z)) exp(−a(z − y)), so a sum over all points to
the left of x can be carried along the line. k, k′ and k″ share the poles a, but each has its own
weights w, because differentiating a fit of k would lose digits. Distances are in units of the
kernel's lengthscale.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import eigh_tridiagonal, lstsq
from scipy.special import gamma, jv

from .._types import Scalar
from ..kernels import IMQ, AbstractRadial, Gaussian, RationalQuadratic

GROUP = 8
"""Poles that are processed together, in one vector operation."""

TOLERANCE = 1e-11
"""The largest error of k, k′ and k″ that is accepted, relative to their largest values: a digit
better than the ten that `lines` promises.
"""

Poles = Complex[np.ndarray, "g l"]
Weights = Complex[np.ndarray, "g l 3"]


class Exponentials(NamedTuple):
    """Poles and weights in groups; if the kernel has a long tail, one more group ends the sum.

    After the first `near` groups the poles decrease geometrically, by the factor `ratio` from group
    to group, and represent ever larger distances. For data of a given range the sum is truncated:
    the group `end_poles[i]` replaces all poles beyond the first i + 1 of these groups. A kernel
    without a long tail has no such groups.
    """

    poles: Poles
    weights: Weights
    near: int
    ratio: float
    end_poles: Poles
    end_weights: Weights

    @property
    def reach(self) -> float:
        """The largest absolute pole: on intervals much shorter than its inverse, every exponential
        is nearly linear.
        """
        return float(np.abs(self.poles).max())


class Scaled(NamedTuple):
    """The kernel factor · k(r/unit), with k a sum of exponentials."""

    factor: Scalar | float
    unit: Scalar | float
    sum: Exponentials


def exponentials(kernel: AbstractRadial) -> Scaled | None:
    """Return the kernel as a sum of exponentials, or None if there is none that is accurate enough."""
    match kernel:
        case Gaussian():
            return Scaled(1.0, kernel.lengthscale, gaussian())
        case IMQ():
            found = power(kernel.beta)
            return found and Scaled(kernel.c ** (2 * kernel.beta), kernel.c, found)
        case RationalQuadratic():
            found = power(-kernel.alpha)
            return found and Scaled(1.0, (2 * kernel.alpha) ** 0.5 * kernel.lengthscale, found)
        case _:
            return None


@lru_cache
def gaussian() -> Exponentials:
    """exp(−r²/2), with poles √(2z) for z on the hyperbola of Weideman and Trefethen (2007).

    1.0818, 4.4921 and 1.1721 are their optimal parameters of the hyperbola.
    """
    theta = (np.arange(2 * GROUP) + 0.5) * 1.0818 / (2 * GROUP)
    poles = np.sqrt(2 * 4.4921 * 2 * GROUP * (1 + np.sin(1j * theta - 1.1721)))
    r = np.concatenate([np.linspace(0, 12, 1200), np.geomspace(12.1, 60, 100)])
    weights = _fit_weights(poles, r, _gaussian_derivatives(r), np.ones((len(r), 3)))
    return Exponentials(
        _in_groups(poles),
        _in_groups(weights),
        2,
        1.0,
        _in_groups(poles[:0]),
        _in_groups(weights[:0]),
    )


def _gaussian_derivatives(r: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3"]:
    k = np.exp(-(r**2) / 2)
    return np.stack([k, -r * k, (r**2 - 1) * k], 1)


_STEP, _FAR, _NEAR = 0.3, 16, 3
"""The step of the trapezoidal rule in log a, small enough for twelve digits; the number of groups of
its poles, which reach down to 1e-17; and the number of groups of complex poles.
"""


@lru_cache
def power(beta: float) -> Exponentials | None:
    """(1 + r²)^β, or None if −β is so large that the fit fails.

    (1 + r²)^β = √π/(2^ν Γ(ν + ½)) ∫ e^(−ar) a^ν J_ν(a) da over a > 0, with ν = −β − ½. For small a
    the trapezoidal rule in log a has twelve correct digits at every large r. For larger a the
    integrand oscillates; there, complex poles with weights fitted by least squares replace it.
    """
    wide = max(1.0, (-2 * beta) ** 0.5)
    beyond = int(160 / (1 - 2 * beta)) + GROUP
    far = 0.3 * wide * np.exp(-_STEP * np.arange(GROUP * _FAR + beyond))
    mass = _STEP * far * _density(far, beta)
    mass[-1] /= -np.expm1(2 * beta * _STEP)  # the sum of the rest, which is a geometric series
    if not np.all(np.isfinite(mass)) or np.any(mass < np.finfo(float).tiny):
        return None
    near = np.geomspace(0.36 * wide, 30 * wide, GROUP * _NEAR) * np.exp(
        0.75j * np.linspace(0.25, 1, GROUP * _NEAR)
    )
    r = np.concatenate(
        [np.geomspace(1e-3, 1, 200), np.linspace(0, 12, 700), np.geomspace(12.1, 300, 400)]
    )
    exact, size = _power_derivatives(r, beta), _power_sizes(r, beta)
    rest = np.exp(-np.outer(r, far[GROUP:])) @ _with_derivatives(far, mass)[GROUP:]
    poles = np.concatenate([near, far[:GROUP]])
    fitted = _fit_weights(poles, r, exact - rest, 1 / (size + 1e-4 * size[0]))
    poles = np.concatenate([near, far[: GROUP * _FAR]])
    weights = np.concatenate([fitted, _with_derivatives(far, mass)[GROUP : GROUP * _FAR]])
    ends = [_gauss(far[GROUP * i :], mass[GROUP * i :]) for i in range(1, _FAR + 1)]
    end_weights = np.stack([_with_derivatives(*end) for end in ends]).astype(complex)
    end_poles = np.stack([nodes for nodes, _ in ends]).astype(complex)
    found = Exponentials(
        _in_groups(poles),
        _in_groups(weights),
        _NEAR,
        float(np.exp(-_STEP * GROUP)),
        end_poles,
        end_weights,
    )
    return found if _error(found, beta) <= TOLERANCE else None


def _density(a: Float[np.ndarray, " n"], beta: float) -> Float[np.ndarray, " n"]:
    nu = -beta - 0.5
    return np.sqrt(np.pi) / (2**nu * gamma(nu + 0.5)) * a**nu * jv(nu, a)


def _power_derivatives(r: Float[np.ndarray, " n"], beta: float) -> Float[np.ndarray, "n 3"]:
    v = 1 + r**2
    k = v**beta
    return np.stack(
        [k, 2 * beta * r * k / v, 2 * beta * k / v * (1 + 2 * (beta - 1) * r**2 / v)], 1
    )


def _power_sizes(r: Float[np.ndarray, " n"], beta: float) -> Float[np.ndarray, "n 3"]:
    """The magnitudes of k, k′ and k″ at distances near r, without the zeros of the derivatives."""
    slope = -2 * beta / (1 + r)
    return (1 + r**2)[:, None] ** beta * np.stack([np.ones_like(r), slope, slope / (1 + r)], 1)


def _with_derivatives(poles: np.ndarray, mass: np.ndarray) -> Float[np.ndarray, "n 3"]:
    """The weights of Σ mass exp(−poles r) and of its first two derivatives."""
    return np.stack([mass, -poles * mass, poles**2 * mass], 1)


def _gauss(nodes: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nodes and weights of the Gauss rule for a discrete measure, by the Lanczos process: exact
    for polynomials up to degree 15.
    """
    x, q, basis = nodes / nodes[0], np.full_like(nodes, mass.sum() ** -0.5), []
    diagonal, side = [], []
    for _ in range(GROUP):
        basis.append(q)
        diagonal.append(np.sum(mass * x * q**2))
        q = x * q
        for _ in range(2):  # twice, because rounding spoils the orthogonality of one pass
            for p in basis:
                q = q - np.sum(mass * p * q) * p
        side.append(np.sqrt(np.sum(mass * q**2)))
        q = q / side[-1]
    values, vectors = eigh_tridiagonal(diagonal, side[:-1])
    return values * nodes[0], mass.sum() * vectors[0] ** 2


def _fit_weights(
    poles: np.ndarray, r: np.ndarray, values: np.ndarray, accuracy: np.ndarray
) -> Complex[np.ndarray, "p 3"]:
    """The weights w that minimise the squared residuals of Re Σ w exp(−a r) ≈ values, each residual
    multiplied by its accuracy.

    Columns that are nearly dependent (relative to 1e-14, about 50 times the rounding unit) are not
    used.
    """
    E = np.exp(-np.outer(r, poles))
    A = np.concatenate([np.real(E), -np.imag(E)], 1)
    kept = np.any(A != 0, axis=0)
    weights = np.zeros((2 * len(poles), 3))
    for q in range(3):
        rows = A[:, kept] * accuracy[:, q : q + 1]
        norms = np.linalg.norm(rows, axis=0)
        found: Any = lstsq(
            rows / norms, values[:, q] * accuracy[:, q], cond=1e-14, lapack_driver="gelsy"
        )
        weights[kept, q] = found[0] / norms
    return weights[: len(poles)] + 1j * weights[len(poles) :]


def _in_groups(rows: np.ndarray) -> np.ndarray:
    """Rows as complex numbers, in groups."""
    return rows.reshape(-1, GROUP, *rows.shape[1:]).astype(complex)


def _error(found: Exponentials, beta: float) -> float:
    """The largest error of k, k′ and k″, relative to their largest values."""
    r = np.concatenate([[0], np.geomspace(1e-4, 1e6, 1200)])
    poles = np.concatenate([found.poles.ravel(), found.end_poles[-1]])
    weights = np.concatenate([found.weights.reshape(-1, 3), found.end_weights[-1]])
    exact = _power_derivatives(r, beta)
    difference = np.abs(np.real(np.exp(-np.outer(r, poles)) @ weights) - exact)
    return float(np.max(difference / np.abs(exact).max(0)))
