"""Where a design for efficiency reaches its limits: wrong models, many variables, bad pilots, and another efficient
way.

Four small studies beside efficiency.py, n = 300 unless said otherwise. A wrong model: estimates and intervals of a
Gumbel model for normal data. Ten and twenty variables: Student's t, location and scale, and a Gaussian chain tilted by
tanh. A bad pilot: the means of a mixture, started with the modes exchanged. And the discriminative likelihood estimator
of Liu et al. (2019), min over θ of max over δ of mean log(1 + δᵀS[f]), on their own model, n = 200. Prints a
table each.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import minstein as ms

from .efficiency import COVARIANCE, Setting, fit_both, settings

N = 300


def replicate(one: Callable, replications: int, seed: int = 2) -> Any:
    """one(key) for many keys, compiled."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), replications)
        return jax.tree.map(np.asarray, jax.jit(partial(jax.lax.map, one))(keys))


def both(model: Any, x: Any, covariance: bool = False) -> tuple[Any, Any, Any]:
    """Fits by KSD and by a design, and whether it was accepted."""
    return fit_both(model, x, covariance=covariance)


def wrong_model(replications: int) -> None:
    """A Gumbel model for normal data: the design estimates what maximum likelihood does, with honest intervals."""
    gumbel = settings()["Gumbel"].start

    def one(key: Any) -> Any:
        ksd, designed, accepted = both(gumbel, jax.random.normal(key, (N, 1)), covariance=True)
        return (ksd.theta, ksd.cov), (designed.theta, designed.cov), accepted

    ksd, designed, accepted = replicate(one, replications)
    grid = np.linspace(-9, 9, 4001)
    p = np.exp(-(grid**2) / 2)
    z = lambda t: (grid - t[0]) / np.exp(t[1])
    aim = minimize(lambda t: np.average(z(t) + np.exp(-z(t)) + t[1], weights=p), [0.0, 0.0], tol=1e-10).x
    print(f"  maximum likelihood aims at {aim[0]:.3f}, {np.exp(aim[1]):.3f}; accepted {accepted.mean():.2f}")
    for name, (theta, cov) in (("KSD", ksd), ("designed", designed)):
        error = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
        own = np.mean(np.abs(theta - np.nanmean(theta, 0)) < 1.96 * error, 0).round(3)
        numbers = [values.round(3) for values in (theta.mean(0), theta.std(0), error.mean(0))]
        print("  {}: mean {}, sd {}, mean error {}, intervals hold their own mean {}".format(name, *numbers, own))


def many_variables(d: int, replications: int) -> None:
    """Student's t in d dimensions, location and one scale, against maximum likelihood; and a tilted Gaussian chain."""
    t = ms.models.StudentT(np.zeros(d), 1.0, 5.0)
    log_p = lambda eta, x: t_log_density(eta, x, d)

    def one(key: Any) -> Any:
        x = t.sample(key, N)
        ksd, designed, accepted = both(t, x)
        loss = lambda eta: -jnp.mean(jax.vmap(partial(log_p, eta))(x))
        step = lambda _, eta: eta - jnp.linalg.solve(jax.hessian(loss)(eta), jax.grad(loss)(eta))
        likely = jax.lax.fori_loop(0, 8, step, jnp.zeros(d + 1))
        return [ms.params.to_real(f.model) for f in (ksd, designed)] + [likely], accepted

    (ksd, designed, likely), accepted = replicate(one, replications)
    mse = lambda eta: np.linalg.slogdet(eta.T @ eta / len(eta))[1]
    ratios = [np.exp((mse(likely) - mse(eta)) / (d + 1)) for eta in (ksd, designed)]
    print("  joint efficiency relative to MLE: KSD {:.3f}, designed {:.3f}".format(*ratios))
    print(f"  accepted {accepted.mean():.3f}; {_fields(d)}")


def t_log_density(eta: Any, x: Any, d: int) -> Any:
    z = (x - eta[:d]) * jnp.exp(-eta[d])
    return -(5 + d) / 2 * jnp.log1p(z @ z / 5) - d * eta[d]


def chain(d: int, replications: int, theta: float = -1.0) -> None:
    """A Gaussian chain tilted by θ tanh(x₂), as Liu et al.'s model is, in more variables."""
    precision = np.eye(d) - 0.4 * (np.eye(d, k=1) + np.eye(d, k=-1))
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    variance = float((factor @ factor.T)[1, 1])
    model = ms.models.ExponentialFamily(lambda x: jnp.tanh(x[1]), 0.0, lambda x: -x @ (jnp.asarray(precision) @ x) / 2)
    line = settings()["Liu et al., d = 5"]
    marginal = lambda model, x: model.theta * jnp.tanh(x[:, 0]) - x[:, 0] ** 2 / (2 * variance)

    def draw(key: Any, n: int) -> Any:
        """Exact draws by rejection from the Gaussian chain."""
        normal, uniform = jax.random.split(key)
        x = jax.random.normal(normal, (8 * n, d)) @ jnp.asarray(factor).T
        kept = jnp.log(jax.random.uniform(uniform, (8 * n,))) < theta * jnp.tanh(x[:, 1]) - abs(theta)
        return x[jnp.argsort(~kept, stable=True)[:n]]

    setting = Setting(model, np.array([theta]), draw, line.nodes, line.log_weights, None, marginal)

    def one(key: Any) -> Any:
        x = draw(key, N)
        ksd, designed, accepted = both(model, x)
        return ksd.theta, designed.theta, setting.likelihood(x), accepted

    *found, accepted = replicate(one, replications)
    ksd, designed, likely = (np.sqrt(np.mean((e - theta) ** 2)) for e in found)
    print(f"chain, d = {d}: RMSE of KSD {ksd:.3f}, designed {designed:.3f}, MLE {likely:.3f}", end="")
    print(f"; accepted {accepted.mean():.3f}; {_fields(d)}")


def _fields(d: int) -> str:
    """How many fields a design of N observations in d dimensions has, whatever the model."""
    x = np.random.default_rng(0).standard_normal((N, d))
    found: Any = ms.design(ms.models.Gaussian(np.zeros(d), ms.fixed(1.0)), x)
    return f"{found.basis.count(d)} fields, {'all' if found.basis.full else 'only diagonal'} linear ones"


def bad_pilot(replications: int) -> None:
    """Means of a mixture, the fit started with the modes exchanged, where KSD has a minimum of its own."""
    good = settings()["mixture means"]
    bad = ms.params.with_theta(good.start, np.array([1.0, -1.0]))

    def one(key: Any) -> Any:
        ksd, designed, accepted = both(bad, good.draw(key, N))
        return ksd.theta, designed.theta, accepted

    ksd, designed, accepted = replicate(one, replications)
    print(f"  accepted {accepted.mean():.3f}")
    for name, theta in (("KSD", ksd), ("designed", designed)):
        away = np.linalg.norm(theta - good.truth, axis=1)
        print(f"  {name}: within 1 of the truth {np.mean(away < 1):.3f}, median distance {np.median(away):.2f}")


def density_ratio(replications: int, n: int = 200, theta: float = -1.0) -> None:
    """The discriminative likelihood estimator with Liu et al.'s test functions tanh(x_i), whose fields are their
    gradients, and with constant and linear fields, on their model."""
    liu = settings()["Liu et al., d = 5"]
    precision = jnp.asarray(np.linalg.inv(COVARIANCE))
    slope = jnp.zeros(5).at[3].set(1.0)
    score = lambda t, x: -x @ precision + t * (1 - jnp.tanh(x) ** 2) * slope

    def tanh_fields(t: Any, x: Any) -> Any:
        g = 1 - jnp.tanh(x) ** 2
        return g * (score(t, x) - 2 * jnp.tanh(x))

    def linear_fields(t: Any, x: Any) -> Any:
        s = score(t, x)
        return jnp.concatenate([s, (x[:, :, None] * s[:, None, :] + jnp.eye(5)).reshape(len(x), -1)], 1)

    def dle(x: Any, fields: Callable) -> Any:
        def inner(t: Any) -> Any:
            A = fields(t, x)
            value = lambda delta: jnp.mean(jnp.log(jnp.maximum(1 + A @ delta, 1e-9)))

            def step(_: int, delta: Any) -> Any:
                w = 1 / (1 + A @ delta)
                ascent = jnp.linalg.solve((A * w[:, None] ** 2).T @ A + 1e-8 * jnp.eye(A.shape[1]), A.T @ w)
                trials = delta + 0.5 ** jnp.arange(6.0)[:, None] * ascent
                safe = jnp.min(1 + trials @ A.T, 1) > 1e-6
                return trials[jnp.argmax(jnp.where(safe, jax.vmap(value)(trials), -jnp.inf))]

            return value(jax.lax.fori_loop(0, 20, step, jnp.zeros(A.shape[1])))

        grid = jnp.linspace(theta - 1, theta + 1, 81)
        values = jax.lax.map(inner, grid)
        i = jnp.clip(jnp.argmin(values), 1, 79)
        low, here, high = values[i - 1], values[i], values[i + 1]
        return grid[i] + (grid[1] - grid[0]) * (low - high) / (2 * (low - 2 * here + high))

    def one(key: Any) -> Any:
        x = liu.draw(key, n)
        ksd, designed, _ = both(liu.start, x)
        ours = liu.likelihood(x)[0], ksd.theta[0], designed.theta[0]
        return *ours, dle(x, tanh_fields), dle(x, linear_fields)

    found = replicate(one, replications)
    for name, e in zip(
        ("MLE", "KSD", "designed", "DLE, gradients of tanh", "DLE, 30 linear fields"), found, strict=True
    ):
        print(f"  {name}: RMSE {np.sqrt(np.mean((e - theta) ** 2)):.4f}, bias {np.mean(e - theta):+.4f}")


def main(replications: int = 200, only: str | None = None) -> None:
    studies = {
        "ratio": lambda: density_ratio(replications),
        "wrong": lambda: wrong_model(replications),
        "pilot": lambda: bad_pilot(replications),
        "chain10": lambda: chain(10, replications),
        "chain20": lambda: chain(20, replications),
        "t10": lambda: many_variables(10, replications),
        "t20": lambda: many_variables(20, replications),
    }
    if only not in (None, *studies):
        raise ValueError(f"--only must be one of {', '.join(studies)}, got {only}.")
    for name, study in studies.items():
        if only in (None, name):
            print(name, flush=True)
            study()
