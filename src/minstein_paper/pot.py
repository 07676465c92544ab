"""The product of Student-t experts: model, normaliser, maximum likelihood, and the distance of two banks of filters."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.optimize import minimize
from jax.scipy.special import gammaln


import minstein as ms


class Radial(eqx.Module):
    """m(x) = (1 + ‖x‖²/d)^b: it grows with the tails for b > 0 and takes weight from them for b < 0."""

    b: Any = eqx.field(converter=np.asarray)

    def __call__(self, x):
        return (1 + x @ x / x.size) ** self.b


class Matched(eqx.Module):
    """m(x) = W⁻¹ diag(1 + (w_k·x)²/2)^(1/2), which grows with the tails of each expert by itself."""

    filters: Any

    def __call__(self, x):
        return jnp.linalg.inv(self.filters) * jnp.sqrt(1 + (self.filters @ x) ** 2 / 2)


def log_density(theta, x):
    """−Σ α_k log(1 + (w_k·x)²/2), with α_k = ½ + excess_k."""
    return -jnp.sum((0.5 + theta["excess"]) * jnp.log1p((theta["W"] @ x) ** 2 / 2))


def log_normaliser(theta):
    """log Z where there are as many experts as coordinates, which makes them independent Student-t variables."""
    excess = theta["excess"]
    experts = jnp.log(2 * jnp.pi) / 2 + gammaln(excess) - gammaln(excess + 0.5)
    return jnp.sum(experts) - jnp.linalg.slogdet(theta["W"])[1]


def model(filters, alpha: float):
    """The model, with every α_k > ½, without which the density has no integral."""
    excess = np.full(filters.shape[0], alpha - 0.5)
    return ms.models.from_log_density(log_density, {"W": filters, "excess": ms.positive(excess)})


def parts(theta) -> dict:
    """Vectors θ in the order of `ms.params.names`, by name."""
    d = int(np.sqrt(theta.shape[-1]))  # d² + d entries
    return {"W": theta[..., : d * d].reshape(*theta.shape[:-1], d, d), "excess": theta[..., d * d :]}


def sample(key, n: int, filters, alpha: float):
    """Exact draws: x = W⁻¹u, where u_k is √(2/ν) times a Student-t variable with ν = 2α − 1."""
    df = 2 * alpha - 1
    u = np.sqrt(2 / df) * jax.random.t(key, df, (n, filters.shape[0]))
    return u @ jnp.linalg.inv(filters).T


def likeliest(x, filters, alpha: float):
    """θ of maximum likelihood, searched from these filters and α; with log excess for excess, to keep it positive."""

    def loss(eta):
        theta = {**parts(eta), "excess": jnp.exp(parts(eta)["excess"])}
        return log_normaliser(theta) - jnp.mean(jax.vmap(lambda x: log_density(theta, x))(x))

    start = jnp.concatenate([jnp.ravel(filters), jnp.full(filters.shape[0], np.log(alpha - 0.5))])
    eta = minimize(loss, start, method="BFGS").x
    return jnp.concatenate([jnp.ravel(parts(eta)["W"]), jnp.exp(parts(eta)["excess"])])


def amari(filters, others) -> float:
    """Amari's index of two square banks of filters: 0 where they agree but for order, sign and scale, 1 at the most."""
    p = np.abs(filters @ np.linalg.inv(others))
    surplus = lambda p: (p.sum(axis=1) / p.max(axis=1) - 1).sum()
    return float((surplus(p) + surplus(p.T)) / (2 * len(p) * (len(p) - 1)))


def log_likelihood(theta, x) -> float:
    """The mean log-density of observations, in nats."""
    theta = parts(theta)
    with jax.enable_x64(True):
        kernel = np.mean(np.log1p((x @ theta["W"].T) ** 2 / 2), axis=0) @ (0.5 + theta["excess"])
        return float(-kernel - log_normaliser(theta))
