"""Discrete models: minimum probability flow of a large Ising model, and CD-1 of an RBM beside plain NumPy."""

from collections.abc import Iterator

import jax
import numpy as np
import optax

import minstein as ms

from ..rows import Row, amount, at_most
from ..timing import once, timing

SIDE, ROWS = 10, 100_000
VISIBLE, HIDDEN, BATCH, UPDATES, RATE = 784, 64, 100, 1000, 0.05


def rows() -> Iterator[Row]:
    yield from _flow()
    yield from _machine()


def _flow() -> Iterator[Row]:
    """A grid whose rows are independent chains, from which draws are exact: fields and vertical couplings are zero."""
    edges, d = ms.models.grid(SIDE, SIDE), SIDE**2
    rng = np.random.default_rng(0)
    x, horizontal = _chains(rng)
    truth = np.concatenate([np.zeros(d), horizontal.ravel(), np.zeros(len(edges) - horizontal.size)])
    model = ms.models.Ising(np.zeros(d), np.zeros(len(edges)), edges)
    fit, first = once(lambda: ms.fit(model, x, ms.MPF(), covariance=False))
    there = ms.models.Ising(rng.normal(0, 0.1, d), rng.normal(0.1, 0.1, len(edges)), edges)
    error = _difference(ms.value_and_grad(ms.MPF(), there, x), _reference(there, x, edges))
    again = timing(lambda: ms.value_and_grad(ms.MPF(), there, x), repeats=3)
    away = float(np.sqrt(np.mean((fit.theta - truth) ** 2)))
    where = f"d={d}, n={ROWS}, {len(truth)} parameters"
    note = f"{int(fit.steps)} steps, compilation included; root mean square error of the parameters {away:.1e}"
    yield Row(f"MPF, first fit, {where}", first, at_most(20, first.cpu, "CPU s"), note=note)
    yield Row("value and gradient of it", again, amount(1e3 * again.cpu, "ms"), error)


def _chains(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of spins x_(j+1) = ±x_j, the sign plus with probability 1/(1 + exp(−2J))."""
    couplings = rng.uniform(0.1, 0.4, (SIDE, SIDE - 1))
    x = np.where(rng.random((ROWS, SIDE, SIDE)) < 0.5, -1.0, 1.0)
    for j in range(SIDE - 1):
        same = rng.random((ROWS, SIDE)) < 1 / (1 + np.exp(-2 * couplings[:, j]))
        x[:, :, j + 1] = np.where(same, x[:, :, j], -x[:, :, j])
    return x.reshape(ROWS, -1), couplings


def _reference(model: ms.models.Ising, x: np.ndarray, edges: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean of Σ_i exp(−x_i(h_i + (Jx)_i)) and its gradient, in NumPy."""
    J = np.zeros((x.shape[1],) * 2)
    J[edges[:, 0], edges[:, 1]] = J[edges[:, 1], edges[:, 0]] = model.coupling
    out = np.exp(-x * (model.field + x @ J))
    slope = -out * x / len(x)
    G = x.T @ slope
    gradient = np.concatenate([slope.sum(0), (G + G.T)[edges[:, 0], edges[:, 1]]])
    return out.sum() / len(x), gradient


def _difference(ours: tuple, theirs: tuple) -> float:
    value = abs(ours[0] / theirs[0] - 1)
    return float(max(value, np.max(np.abs(ours[1] - theirs[1])) / np.max(np.abs(theirs[1]))))


def _machine() -> Iterator[Row]:
    """The same data, minibatches, updates and step for both; the progress is the fall of the reconstruction error."""
    rng = np.random.default_rng(1)
    x = _stripes(rng)
    start = ms.models.RBM.random(VISIBLE, HIDDEN, jax.random.key(0))
    solver = ms.SGD(optax.sgd(RATE), steps=UPDATES, batch=BATCH)
    cd = ms.CD(ms.markov.BlockGibbs())
    fits: list[ms.Fit] = []
    ours = timing(lambda: fits.append(ms.fit(start, x, cd, solver=solver, key=jax.random.key(1))), repeats=2)
    weights: list[tuple] = []
    theirs = timing(lambda: weights.append(_numpy_cd(start, x, np.random.default_rng(2))), repeats=2)
    model = fits[-1].model
    before = _reconstruction((start.visible, start.hidden, start.weights), x)
    after = _reconstruction((model.visible, model.hidden, model.weights), x), _reconstruction(weights[-1], x)
    what = f"CD-1, RBM {VISIBLE}×{HIDDEN}, {UPDATES} updates of {BATCH}"
    for name, time, error in (("NumPy", theirs, after[1]), ("minstein", ours, after[0])):
        rate = UPDATES / time.cpu
        note = f"{name}: reconstruction error per pixel {before:.3f} → {error:.3f}"
        yield Row(f"{what}, {name}", time, amount(rate, "updates a CPU s"), note=note, failed=not error < before / 2)


def _stripes(rng: np.random.Generator) -> np.ndarray:
    """Images of 28×28 pixels in which some rows or some columns are on, a twentieth of the pixels flipped."""
    n, side = 5000, 28
    on = np.repeat(rng.random((n, side // 4)) < 0.4, 4, axis=1)
    images = np.where((rng.random(n) < 0.5)[:, None, None], on[:, :, None], on[:, None, :]) & np.ones(
        (side, side), bool
    )
    return (images ^ (rng.random(images.shape) < 0.05)).reshape(n, -1).astype(np.float32)


def _numpy_cd(start: ms.models.RBM, x: np.ndarray, rng: np.random.Generator) -> tuple:
    b, c, W = (np.array(part, np.float32) for part in (start.visible, start.hidden, start.weights))
    order = rng.permutation(len(x))
    for t in range(UPDATES):
        at = t * BATCH % len(x)
        v = x[order[at : at + BATCH]]
        up = _sigmoid(c + v @ W)
        h = (rng.random(up.shape, np.float32) < up).astype(np.float32)
        down = _sigmoid(b + h @ W.T)
        v_end = (rng.random(down.shape, np.float32) < down).astype(np.float32)
        up_end = _sigmoid(c + v_end @ W)
        W += RATE / BATCH * (v.T @ up - v_end.T @ up_end)
        b += RATE * (v - v_end).mean(0)
        c += RATE * (up - up_end).mean(0)
    return b, c, W


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def _reconstruction(weights: tuple, x: np.ndarray) -> float:
    b, c, W = (np.asarray(part) for part in weights)
    return float(np.mean((x - _sigmoid(b + _sigmoid(c + x @ W) @ W.T)) ** 2))
