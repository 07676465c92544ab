"""The default against maximum likelihood: models with many parameters, edges, skewness and interaction.

Each sample is fitted by default and by maximum likelihood, which knows the normaliser. Prints for each
model the efficiency, which is the mean squared error of maximum likelihood over that of the estimate, and how often
95 % intervals cover: on average over the parameters and, in brackets, for the worst.

`python -m studies likelihood --replications 400`
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import betaln, gammaln

import minstein as ms


class Model(NamedTuple):
    """log p without its normaliser, log Z, the true parameters, a sampler, and the edges of the support."""

    log_p: Callable
    log_z: Callable
    truth: np.ndarray
    draw: Callable
    support: tuple[float, float] | None = None

    @property
    def start(self) -> Any:
        return ms.models.from_log_density(self.log_p, self.truth, support=self.support)

    def likelihood(self, x: Any) -> Any:
        """Maximum likelihood, by Newton's method from the truth, each step shortened until the likelihood grows."""
        loss = lambda t: self.log_z(t) - jnp.mean(jax.vmap(partial(self.log_p, t))(x))

        def step(_: int, t: Any) -> Any:
            w, Q = jnp.linalg.eigh(jax.hessian(loss)(t))
            delta = Q @ (Q.T @ -jax.grad(loss)(t) / jnp.maximum(jnp.abs(w), 1e-6))
            trials = t + jnp.array([1.0, 0.5, 0.1, 0.0])[:, None] * delta
            return trials[jnp.nanargmin(jax.vmap(loss)(trials))]

        return jax.lax.fori_loop(0, 15, step, jnp.asarray(self.truth))


def chain(d: int, common: bool) -> Model:
    """A centred Gaussian chain: one precision or one for each variable, on a log scale, and d − 1 couplings."""

    def precision(t: Any) -> Any:
        diagonal = jnp.exp(t[0]) * jnp.ones(d) if common else jnp.exp(t[:d])
        return jnp.diag(diagonal) + jnp.diag(t[1 - d :], 1) + jnp.diag(t[1 - d :], -1)

    truth = np.append(np.full(1 if common else d, np.log(2.0)), np.full(d - 1, -0.6))
    P = 2 * np.eye(d) - 0.6 * (np.eye(d, k=1) + np.eye(d, k=-1))
    root = jnp.asarray(np.linalg.cholesky(np.linalg.inv(P)))
    log_p = lambda t, x: -0.5 * x @ precision(t) @ x
    log_z = lambda t: -0.5 * jnp.linalg.slogdet(precision(t))[1]
    return Model(log_p, log_z, truth, lambda key, n: jax.random.normal(key, (n, d)) @ root.T)


def gaussian(d: int) -> Model:
    """Mean and a Cholesky factor, its diagonal on a log scale."""
    below = np.tril_indices(d, -1)
    factor = lambda t: jnp.diag(jnp.exp(t[d : 2 * d])).at[below].set(t[2 * d :])
    truth = np.append(np.zeros(2 * d), np.full(d * (d - 1) // 2, 0.3))
    log_p = lambda t, x: -0.5 * jnp.sum(solve_triangular(factor(t), x - t[:d], lower=True) ** 2)
    draw = lambda key, n: jax.random.normal(key, (n, d)) @ factor(jnp.asarray(truth)).T
    return Model(log_p, lambda t: jnp.sum(t[d : 2 * d]), truth, draw)


def student(d: int, nu: float = 5.0) -> Model:
    """Location and common scale."""
    log_p = lambda t, x: -(nu + d) / 2 * jnp.log1p(jnp.sum((x - t[:d]) ** 2) * jnp.exp(-2 * t[d]) / nu)

    def draw(key: Any, n: int) -> Any:
        normal, square = jax.random.split(key)
        return jax.random.normal(normal, (n, d)) / jnp.sqrt(jax.random.gamma(square, nu / 2, (n, 1)) * 2 / nu)

    return Model(log_p, lambda t: d * t[d], np.zeros(d + 1), draw)


def gamma(shape: float) -> Model:
    log_p = lambda t, x: (jnp.exp(t[0]) - 1) * jnp.log(x[0]) - jnp.exp(t[1]) * x[0]
    log_z = lambda t: gammaln(jnp.exp(t[0])) - jnp.exp(t[0]) * t[1]
    draw = lambda key, n: jax.random.gamma(key, shape, (n, 1))
    return Model(log_p, log_z, np.array([np.log(shape), 0.0]), draw, (0.0, np.inf))


def weibull(shape: float) -> Model:
    log_p = lambda t, x: (jnp.exp(t[0]) - 1) * jnp.log(x[0]) - (x[0] * jnp.exp(-t[1])) ** jnp.exp(t[0])
    draw = lambda key, n: 2 * jax.random.weibull_min(key, 1.0, shape, (n, 1))
    return Model(log_p, lambda t: t[1] * jnp.exp(t[0]) - t[0], np.log([shape, 2.0]), draw, (0.0, np.inf))


def beta(a: float, b: float) -> Model:
    log_p = lambda t, x: (jnp.exp(t[0]) - 1) * jnp.log(x[0]) + (jnp.exp(t[1]) - 1) * jnp.log1p(-x[0])
    draw = lambda key, n: jax.random.beta(key, a, b, (n, 1))
    return Model(log_p, lambda t: betaln(jnp.exp(t[0]), jnp.exp(t[1])), np.log([a, b]), draw, (0.0, 1.0))


def skew_logistic(shape: float) -> Model:
    """The generalised logistic distribution of type I: location, log scale, log shape."""

    def log_p(t: Any, x: Any) -> Any:
        z = (x[0] - t[0]) * jnp.exp(-t[1])
        return -z - (jnp.exp(t[2]) + 1) * jax.nn.softplus(-z)

    draw = lambda key, n: -jnp.log(jax.random.uniform(key, (n, 1)) ** (-1 / shape) - 1)
    return Model(log_p, lambda t: t[1] - t[2], np.array([0.0, 0.0, np.log(shape)]), draw)


def interaction() -> Model:
    """exp(a x₁x₂ + b x₁² + c x₂² − (x₁⁴ + x₂⁴)/4), its normaliser on a grid."""
    log_p = lambda t, x: t[0] * x[0] * x[1] + t[1] * x[0] ** 2 + t[2] * x[1] ** 2 - (x[0] ** 4 + x[1] ** 4) / 4
    side = np.linspace(-4, 4, 161)
    grid = np.stack([part.ravel() for part in np.meshgrid(side, side)], 1)
    truth = np.array([0.5, 0.3, -0.2])
    on_grid = lambda t: jax.vmap(partial(log_p, t))(jnp.asarray(grid))

    def draw(key: Any, n: int) -> Any:
        which, where = jax.random.split(key)
        cells = jax.random.categorical(which, on_grid(jnp.asarray(truth)), shape=(n,))
        return jnp.asarray(grid)[cells] + jax.random.uniform(where, (n, 2), minval=-0.025, maxval=0.025)

    return Model(log_p, lambda t: jax.nn.logsumexp(on_grid(t)), truth, draw)


MODELS: dict[str, tuple[Callable[[], Model], tuple[int, ...]]] = {
    "Gaussian, mean and covariance, d = 5": (lambda: gaussian(5), (300,)),
    "chain, d = 10": (lambda: chain(10, False), (300,)),
    "chain with common precision, d = 5": (lambda: chain(5, True), (100, 300)),
    "chain with common precision, d = 10": (lambda: chain(10, True), (300, 1000)),
    "t₅, location and scale, d = 5": (lambda: student(5), (300,)),
    "gamma(2.5)": (lambda: gamma(2.5), (100, 300)),
    "gamma(0.8)": (lambda: gamma(0.8), (100, 300)),
    "Weibull(1.8)": (lambda: weibull(1.8), (100, 300)),
    "beta(0.7, 1.2)": (lambda: beta(0.7, 1.2), (100, 300)),
    "skew-logistic": (lambda: skew_logistic(2.0), (100, 300)),
    "interaction, d = 2": (interaction, (100, 300)),
}
"""A model and the sizes of its samples."""


class Row(NamedTuple):
    """Efficiency and coverage, averaged over the parameters and the worst, and the share of fits by each method."""

    efficiency: float
    worst_efficiency: float
    coverage: float
    worst_coverage: float
    used: float
    converged: float

    def __str__(self) -> str:
        return (
            f"efficiency {self.efficiency:.3f} ({self.worst_efficiency:.3f}), coverage {self.coverage:.3f} "
            f"({self.worst_coverage:.3f}), efficient equations {self.used:.3f}, converged {self.converged:.3f}"
        )


def study(model: Model, n: int, replications: int, seed: int = 1) -> Row:
    """Fit samples one after another, as a user would."""
    theta, low, high, used, likely = [], [], [], [], []
    with jax.enable_x64(True):
        likelihood, draw = jax.jit(model.likelihood), jax.jit(model.draw, static_argnums=1)
        for key in jax.random.split(jax.random.key(seed), replications):
            x = np.asarray(draw(key, n))
            fit = ms.fit(model.start, x, throw=False)
            ends = np.array(list(fit.conf_int().values())) if fit.converged else np.full((fit.theta.size, 2), np.nan)
            theta.append(np.asarray(fit.theta) if fit.converged else np.full(fit.theta.size, np.nan))
            low.append(ends[:, 0])
            high.append(ends[:, 1])
            used.append(type(fit.discrepancy) is ms.Efficient)
            likely.append(np.asarray(likelihood(x)))
    errors = [np.array(part) - model.truth for part in (theta, likely)]
    known = np.isfinite(errors[0]).all(1)
    ratio = (errors[1][known] ** 2).mean(0) / (errors[0][known] ** 2).mean(0)
    covers = ((np.array(low) <= model.truth) & (model.truth <= np.array(high))).mean(0)
    return Row(ratio.mean(), ratio.min(), covers.mean(), covers.min(), float(np.mean(used)), float(known.mean()))


def main(replications: int = 400, only: str | None = None) -> None:
    if only not in (None, *MODELS):
        raise ValueError(f"--only must be one of {', '.join(MODELS)}, got {only}.")
    for name, (make, sizes) in MODELS.items():
        for n in sizes if only in (None, name) else ():
            print(f"{name}, n = {n}: {study(make(), n, replications)}", flush=True)
