"""Hostile cases, drawn from a seed: ordinary models on data that break estimators, and the truth by brute force.

A case has a model, data and a discrepancy. `outcome` fits it and says what came back; `excess` searches a grid and then
by simplex steps, with nothing of the library but the value of the loss, for a lower loss than that of the fit.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

import minstein as ms


class Case(NamedTuple):
    """One fit; `box` maps data to the lower and upper ends of the parameters among which a lower loss is looked for."""

    name: str
    kind: str
    model: Any
    x: np.ndarray
    discrepancy: Callable[[np.ndarray], Any]
    solver: Any
    box: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Outcome(NamedTuple):
    """What a fit came to: the fit, or the error that refused it, and the warnings beside it."""

    fit: Any
    error: Exception | None
    warned: tuple[str, ...]


def _laplace(p, x):
    return -jnp.abs(x[0] - p["loc"])


def _mixture(p, x):
    return jnp.logaddexp(jnp.log(0.3) - (x[0] - p["a"]) ** 2 / 2, jnp.log(0.7) - (x[0] - p["b"]) ** 2 / 2)


def _gamma(p, x):
    return (p["shape"] - 1) * jnp.log(x[0]) - p["rate"] * x[0]


def _quartic(p, x):
    return p["tilt"] * x[0] - p["weight"] * x[0] ** 4


def _spread(x: np.ndarray) -> float:
    """A scale that is never zero."""
    quartiles = np.quantile(x, [0.25, 0.75])
    return float(np.diff(quartiles)[0] or x.std() or 1.0)


def _location(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x.min()]), np.array([x.max()])


def _location_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = _spread(x)
    return np.array([x.min(), s / 20]), np.array([x.max(), 20 * s])


def _moderate_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score matching of heavy tails has no lower bound: it falls without an end as a narrow density meets one point."""
    s = _spread(x)
    return np.array([np.quantile(x, 0.2), s / 4]), np.array([np.quantile(x, 0.8), 20 * s])


def _two_locations(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.full(2, x.min()), np.full(2, x.max())


def _shape_rate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.array([0.02 / x.mean(), 0.02]), np.array([50 / x.mean(), 50.0])


def _coupling(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.array([-4.0]), np.array([4.0])


def _tilt_weight(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = _spread(x)
    return np.array([-20 / s, 1e-3 / s**4]), np.array([20 / s, 1e2 / s**4])


IMQ = ms.kernels.IMQ(1.0)
LINE = {
    "normal, default": (ms.models.Gaussian(0.0, 1.0), lambda x: None, None, _location_scale),
    "normal, robust": (ms.models.Gaussian(0.0, 1.0), ms.default.robust_discrepancy, None, _location_scale),
    "t₃ location, default": (ms.models.StudentT(0.0, ms.fixed(1.0), 3.0), lambda x: None, None, _location),
    "t₅, score matching": (ms.models.StudentT(0.0, 1.0, 5.0), lambda x: ms.SM(), None, _moderate_scale),
    "Laplace location, direct search": (
        ms.models.from_log_density(_laplace, {"loc": 0.5}),
        lambda x: ms.KSD(IMQ, unbiased=False),
        ms.DirectSearch(),
        _location,
    ),
    "mixture, default": (
        ms.models.from_log_density(_mixture, {"a": 3.0, "b": -3.0}),
        lambda x: None,
        None,
        _two_locations,
    ),
    "quartic, default": (
        ms.models.from_log_density(_quartic, {"tilt": 0.0, "weight": ms.positive(1.0)}),
        lambda x: None,
        None,
        _tilt_weight,
    ),
}
POSITIVE = {
    "gamma, default": (
        ms.models.from_log_density(_gamma, {"rate": ms.positive(1.0), "shape": ms.positive(1.0)}),
        lambda x: None,
        None,
        _shape_rate,
    )
}
SPINS = {
    name: (ms.models.Ising(ms.fixed(np.zeros(3)), 0.1, edges=((0, 1), (1, 2), (0, 2))), make, None, _coupling)
    for name, make in {
        "Ising, MPF": lambda x: ms.MPF(),
        "Ising, discrete KSD": lambda x: ms.DiscreteKSD(),
        "Ising, DFD": lambda x: ms.DFD(),
        "Ising, pseudo-likelihood": lambda x: ms.PseudoLikelihood(),
    }.items()
}

ON_LINE = {
    "normal": lambda g, n: g.standard_normal(n),
    "Student t₂": lambda g, n: g.standard_t(2, n),
    "Cauchy": lambda g, n: g.standard_cauchy(n),
    "two clusters": lambda g, n: g.choice([-6.0, 6.0], n, p=[0.4, 0.6]) + g.standard_normal(n),
    "rounded": lambda g, n: np.round(g.normal(0, 2, n)),
    "tenths of gross errors": lambda g, n: np.where(g.random(n) < 0.1, 30.0, g.standard_normal(n)),
    "large offset": lambda g, n: 1e6 + g.standard_normal(n),
    "small unit": lambda g, n: 1e-6 * g.standard_normal(n),
    "large unit": lambda g, n: 1e6 * g.standard_normal(n),
    "skewed": lambda g, n: g.gamma(0.7, size=n),
    "uniform": lambda g, n: g.uniform(-1, 1, n),
    "nearly constant": lambda g, n: np.append(np.zeros(n - 3), g.standard_normal(3)),
    "one far away": lambda g, n: np.append(g.standard_normal(n - 1), 1e4),
    "far from the start": lambda g, n: 20 + g.laplace(size=n),
}
ON_HALF_LINE = {
    "gamma 0.6": lambda g, n: g.gamma(0.6, size=n),
    "gamma 5": lambda g, n: g.gamma(5, size=n),
    "lognormal": lambda g, n: g.lognormal(0, 1.5, n),
    "one near the edge": lambda g, n: np.append(g.gamma(3, size=n - 1), 1e-9),
    "small unit": lambda g, n: 1e-6 * g.gamma(2, size=n),
    "large unit": lambda g, n: 1e6 * g.gamma(2, size=n),
    "some negative": lambda g, n: g.normal(1, 1, n),
    "some at the edge": lambda g, n: np.append(g.gamma(2, size=n - 2), [0.0, 0.0]),
}
OF_SPINS = {
    "fair": lambda g, n: g.choice([-1.0, 1.0], (n, 3)),
    "coupled": lambda g, n: _drawn_spins(g, n, 0.4),
    "strongly coupled": lambda g, n: _drawn_spins(g, n, 1.2),
    "all alike": lambda g, n: np.repeat(g.choice([-1.0, 1.0], (n, 1)), 3, axis=1),
    "opposed": lambda g, n: _drawn_spins(g, n, -0.8),
}


def _drawn_spins(g: np.random.Generator, n: int, J: float) -> np.ndarray:
    """Exact draws from three spins with common coupling J."""
    states = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    weights = np.exp(J * (states[:, 0] * states[:, 1] + states[:, 1] * states[:, 2] + states[:, 0] * states[:, 2]))
    return states[g.choice(8, n, p=weights / weights.sum())]


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Cases that differ in everything that can differ; sizes share a few compilations."""
    g = np.random.default_rng(seed)
    worlds = [(LINE, ON_LINE), (LINE, ON_LINE), (LINE, ON_LINE), (POSITIVE, ON_HALF_LINE), (SPINS, OF_SPINS)]
    for number in range(count):
        models, draws = worlds[g.integers(len(worlds))]
        name = list(models)[g.integers(len(models))]
        kind = list(draws)[g.integers(len(draws))]
        n = int(g.choice([4, 7, 12, 40, 64, 100, 128]))
        model, discrepancy, solver, box = models[name]
        yield Case(f"{number}: {name}, {kind}, n = {n}", name, model, draws[kind](g, n), discrepancy, solver, box)


def outcome(case: Case) -> Outcome:
    """Fit it, and keep what comes back."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit, error = ms.fit(case.model, case.x, case.discrepancy(case.x), solver=case.solver, progress=False), None
        except Exception as reason:
            fit, error = None, reason
    return Outcome(fit, error, tuple(f"{w.category.__name__}: {w.message}" for w in caught))


def excess(case: Case, fit: Any) -> float:
    """By how much the loss of a fit is above the lowest that was found, in units of how the loss varies nearby."""
    loss = _loss_on(fit, case.x)
    low, high = case.box(case.x)
    signs = low > 0
    to = lambda theta: np.where(signs, np.log(np.where(signs, theta, 1)), theta)
    back = lambda eta: np.where(signs, np.exp(np.where(signs, eta, 0)), eta)
    sides = [np.linspace(a, b, 401 if len(low) == 1 else 41) for a, b in zip(to(low), to(high), strict=True)]
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, len(low))
    values = loss(np.stack([back(eta) for eta in grid]))
    values = np.where(np.isfinite(values), values, np.inf)
    finite = values[np.isfinite(values)]
    rise, step = np.median(finite) - finite.min(), min(side[1] - side[0] for side in sides)
    best = np.inf
    for start in grid[np.argsort(values)[:3]]:
        found = optimize.minimize(
            lambda eta: float(np.nan_to_num(loss(back(eta)[None])[0], nan=np.inf)),
            start,
            method="Nelder-Mead",
            bounds=list(zip(to(low), to(high), strict=True)),
            # a millionth of a step of the grid, and a thousandth of what `SAME` in test_fuzz lets pass
            options={"xatol": 1e-6 * step, "fatol": 1e-9 * rise, "maxiter": 400},
        )
        best = min(best, found.fun)
    if isinstance(fit.discrepancy, ms.Efficient):
        best = max(best, 0.0)  # gᵀC⁻¹g is below zero only where C is singular up to rounding, as for equal locations
    here = float(loss(np.asarray(fit.theta)[None])[0])
    return (here - best) / (rise + abs(best) * 1e-9)


def _loss_on(fit: Any, x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The loss at each row of parameters, padded to a few sizes so that few programs are compiled."""
    data = jnp.asarray

    def at(thetas: np.ndarray) -> np.ndarray:
        rows = 1 if len(thetas) == 1 else -(-len(thetas) // 1024) * 1024
        padded = np.concatenate([thetas, np.repeat(thetas[:1], rows - len(thetas), 0)])
        with jax.enable_x64(True):
            losses = _losses(type(fit.discrepancy).__name__)(fit.model, fit.discrepancy, data(padded), data(x))
        return np.asarray(losses)[: len(thetas)]

    return at


@cache
def _losses(_: str) -> Callable:
    import equinox as eqx

    @eqx.filter_jit
    def losses(model, discrepancy, thetas, x):
        return jax.lax.map(lambda theta: discrepancy(ms.params.with_theta(model, theta), x), thetas, batch_size=64)

    return losses
