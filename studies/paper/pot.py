"""The product of Student-t experts: model, normaliser, maximum likelihood, and the distance of two banks of filters."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy.optimize import minimize

import minstein as ms


class Tails(eqx.Module):
    """m(x) = diag(1 + x_k²/2)^b · (1 + ‖x‖²/d)^c, the identity where b = c = 0.

    With b > 0 it grows with the tail of each coordinate; with c < 0 it takes weight from distant observations.
    """

    b: Any = eqx.field(default=0.0, converter=np.asarray)
    c: Any = eqx.field(default=0.0, converter=np.asarray)

    def __call__(self, x):
        return (1 + x**2 / 2) ** self.b * (1 + x @ x / x.size) ** self.c


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
    return {
        "W": theta[..., : d * d].reshape(*theta.shape[:-1], d, d),
        "excess": theta[..., d * d :],
    }


def sample(rng: np.random.Generator, n: int, filters, alpha: float) -> np.ndarray:
    """Exact draws: x = W⁻¹u, where u_k is √(2/ν) times a Student-t variable with ν = 2α − 1 degrees of freedom."""
    df = 2 * alpha - 1
    return np.sqrt(2 / df) * rng.standard_t(df, (n, len(filters))) @ np.linalg.inv(filters).T


@jax.jit
@jax.value_and_grad
def _minus_log_likelihood(eta, x):
    theta = {**parts(eta), "excess": jnp.exp(parts(eta)["excess"])}
    return log_normaliser(theta) - jnp.mean(jax.vmap(lambda x: log_density(theta, x))(x))


def likeliest(x, filters, alpha: float) -> np.ndarray:
    """θ of maximum likelihood, searched by SciPy from these filters and α in W and log excess, and SciPy's status."""
    loss = lambda eta: [np.asarray(part, float) for part in _minus_log_likelihood(eta.astype(x.dtype), x)]
    start = np.concatenate([np.ravel(filters), np.full(len(filters), np.log(alpha - 0.5))])
    found = minimize(loss, start, jac=True, method="L-BFGS-B")
    eta = parts(found.x)
    return np.concatenate([np.ravel(eta["W"]), np.exp(eta["excess"]), [found.status]])


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
