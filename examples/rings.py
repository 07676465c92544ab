"""
A neural energy on two rings
============================

The density of data that no family describes.

2000 points on two noisy circles. The model is log p = −‖x‖²/18 + f(x), with a small network f; what it integrates to is
unknown and not needed. Score matching on minibatches finds the weights. Because the points were drawn, the true density
is known: the figure puts it beside the fitted one, with the loss along the way: out/rings.png.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import minstein as ms

RADII, NOISE, SIDE = (1.0, 2.5), 0.2, 3.6


class Energy(eqx.Module):
    """A network beside a wide Gaussian, which makes the density fall off far from the data."""

    network: eqx.nn.MLP

    def __call__(self, x):
        return -jnp.sum(x**2) / 18 + self.network(x)


def draw(rng: np.random.Generator, n: int) -> np.ndarray:
    """Points with a uniform angle at a distance of one of the radii, plus noise."""
    radius = rng.choice(RADII, n) + NOISE * rng.normal(size=n)
    angle = rng.uniform(0, 2 * np.pi, n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def truth(points: np.ndarray) -> np.ndarray:
    """The density that `draw` draws from: that of the radius, spread over a circle."""
    r = np.linalg.norm(points, axis=-1)
    of_radius = sum(np.exp(-((r - radius) ** 2) / (2 * NOISE**2)) for radius in RADII)
    return of_radius / (len(RADII) * NOISE * np.sqrt(2 * np.pi)) / (2 * np.pi * r)


def fitted(x: np.ndarray, steps: int) -> ms.Fit:
    energy = Energy(eqx.nn.MLP(2, "scalar", 48, 3, activation=jax.nn.softplus, key=jax.random.key(0)))
    rate = optax.cosine_decay_schedule(3e-3, steps)
    solver = ms.SGD(optax.adam(rate), steps=steps, batch=200)
    return ms.fit(energy, x.astype(np.float32), ms.SM(), solver=solver, key=jax.random.key(1), covariance=False)


def grid(points: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the cells of a square, and the axis they lie on."""
    axis = SIDE * (2 * (np.arange(points) + 0.5) / points - 1)
    return np.stack(np.meshgrid(axis, axis), -1), axis


def density(model: Energy, points: np.ndarray, cell: float) -> np.ndarray:
    """The model's density, normalised over the square."""
    log_p = np.asarray(jax.vmap(jax.vmap(model))(jnp.asarray(points, jnp.float32)), float)
    p = np.exp(log_p - log_p.max())
    return p / (p.sum() * cell)


def main(out: Path = Path("out"), steps: int = 3000) -> float:
    """Fit, draw, and return the total variation distance between the fitted density and the true one."""
    x = draw(np.random.default_rng(0), 2000)
    fit = fitted(x, steps)
    points, axis = grid()
    cell = (axis[1] - axis[0]) ** 2
    p, q = density(fit.model, points, cell), truth(points)
    distance = float(np.abs(p - q).sum() * cell / 2)
    print(f"{len(fit.names)} weights, {int(fit.steps)} steps; total variation distance to the truth {distance:.3f}")

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.7), layout="constrained", width_ratios=[1, 1, 1, 1.1])
    axes[0].plot(*x.T, ".", color="0.3", markersize=2)
    for ax, values in ((axes[1], p), (axes[2], q)):
        ax.pcolormesh(axis, axis, values, cmap="cividis", vmin=0, vmax=q.max(), rasterized=True)
    titles = ("2000 observations", "Fitted density", f"True density (distance {distance:.2f})")
    for ax, title in zip(axes[:3], titles, strict=True):
        ax.set(title=title, xlim=(-SIDE, SIDE), ylim=(-SIDE, SIDE), aspect="equal", xlabel="x₁", ylabel="x₂")
    smooth = np.convolve(fit.trace, np.ones(50) / 50, "valid")
    axes[3].plot(np.arange(len(smooth)) + 25, smooth, color="#0072B2")
    axes[3].set(title="The loss, mean of 50 steps", xlabel="step", ylabel="score-matching loss")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "rings.png"
    figure.savefig(path, dpi=150)
    print(f"Wrote {path}")
    return distance


if __name__ == "__main__":
    main(**({"steps": 1000} if "--quick" in sys.argv else {}))
