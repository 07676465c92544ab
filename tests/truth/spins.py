"""Small discrete models by enumeration, in NumPy alone."""

import itertools

import numpy as np
from scipy.optimize import minimize


def states(values, d):
    return np.array(list(itertools.product(values, repeat=d)), float)


def ising_log_p(x, field, coupling, edges):
    """Unnormalised log p of each row of x."""
    i, j = np.asarray(edges).T
    return x @ np.broadcast_to(field, x.shape[1]) + (x[:, i] * x[:, j]) @ np.broadcast_to(coupling, len(i))


def normalised(log_p):
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def ising_mle(x, edges):
    """Exact maximum likelihood of one field and one coupling, by enumeration and BFGS."""
    everything = states((-1, 1), x.shape[1])
    i, j = np.asarray(edges).T
    T = lambda x: np.stack([x.sum(1), (x[:, i] * x[:, j]).sum(1)])
    all_t, mean = T(everything), T(x).mean(1)

    def loss(theta):
        a = theta @ all_t
        top = a.max()
        return top + np.log(np.exp(a - top).sum()) - theta @ mean

    return minimize(loss, np.zeros(2), tol=1e-12).x


def kl(p, q):
    return float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q), 0)))


def entropy(p):
    return -float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)))
