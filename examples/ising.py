"""
The couplings of an Ising model
===============================

An Ising model on a 10×10 grid: 180 couplings from 1000 samples, by five methods that know no normaliser.

Minimum probability flow, contrastive divergence from the data and with persistent chains, pseudo-likelihood, and the
discrete kernel Stein discrepancy; prints a table and draws the estimates against the truth: out/ising.png. With
--quick, as in the gallery, the grid is 3×3 and there are 300 samples.
"""

import sys
import time
from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import minstein as ms

COLOURS = {
    "Pseudo-likelihood": "#000000",
    "MPF": "#0072B2",
    "CD-1": "#D55E00",
    "Persistent CD": "#009E73",
    "Discrete KSD": "#CC79A7",
}


def truth(side: int) -> ms.models.Ising:
    """A grid with couplings between 0 and 0.4, and no field."""
    edges = ms.models.grid(side, side)
    return ms.models.Ising(ms.fixed(0.0), np.random.default_rng(1).uniform(0.0, 0.4, len(edges)), edges)


def fits(model: ms.models.Ising, x: np.ndarray) -> dict[str, tuple[ms.Fit, float]]:
    """Each fit, and the CPU seconds it took."""
    start = ms.models.Ising(ms.fixed(0.0), np.zeros(len(model.edges)), model.edges)
    ways = {
        "Pseudo-likelihood": ms.PseudoLikelihood(),
        "MPF": ms.MPF(),
        "CD-1": ms.CD(ms.markov.Gibbs(), 1),
        "Persistent CD": ms.CD(ms.markov.Gibbs(), 1, persistent=True),
        "Discrete KSD": ms.DiscreteKSD(ms.kernels.Hamming(20.0)),
    }
    found = {}
    for name, discrepancy in ways.items():
        began = time.process_time()
        fit = ms.fit(start, x, discrepancy, key=jax.random.key(2))
        found[name] = fit, time.process_time() - began
    return found


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def table(found: dict[str, tuple[ms.Fit, float]], truth: np.ndarray) -> str:
    """Errors, distances from pseudo-likelihood, and standard errors, in root mean square over the couplings."""
    reference = found["Pseudo-likelihood"][0]
    lines = [f"{'':<20}{'error':>9}{'from PL':>9}{'std. error':>12}{'CPU s':>8}   how it ended"]
    for name, (fit, seconds) in found.items():
        claimed = "–" if fit.cov is None else f"{rms(np.array(list(fit.bse.values()))):.4f}"
        apart = rms(fit.theta - reference.theta)
        lines.append(
            f"{name:<20}{rms(fit.theta - truth):>9.4f}{apart:>9.4f}{claimed:>12}{seconds:>8.1f}   {fit.message}"
        )
    return "\n".join(lines)


def draw(found: dict[str, tuple[ms.Fit, float]], truth: np.ndarray) -> Figure:
    figure, axes = plt.subplots(1, 5, figsize=(13, 3.2), sharex=True, sharey=True, layout="constrained")
    for ax, (name, (fit, _)) in zip(axes, found.items(), strict=True):
        if fit.cov is not None:
            bars = 1.96 * np.array(list(fit.bse.values()))
            ax.errorbar(truth, fit.theta, bars, fmt="none", ecolor=COLOURS[name], alpha=0.25, linewidth=0.8)
        ax.plot(truth, fit.theta, "o", color=COLOURS[name], markersize=2.5)
        ax.plot([0, 0.4], [0, 0.4], color="0.5", linewidth=0.8)
        bars = "with 95 % intervals" if fit.cov is not None else "no standard errors"
        ax.set_title(f"{name}\nerror {rms(fit.theta - truth):.3f}, {bars}", fontsize=9)
        ax.set_xlabel("true coupling")
    axes[0].set(ylabel="estimated coupling", ylim=(-0.25, 0.7))
    return figure


def main(out: Path = Path("out"), side: int = 10, n: int = 1000) -> Path:
    model = truth(side)
    found = fits(model, model.sample(jax.random.key(0), n))
    print(table(found, model.coupling))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "ising.png"
    draw(found, model.coupling).savefig(path, dpi=150)
    print(f"Wrote {path}")
    return path


if __name__ == "__main__":
    main(**({"side": 3, "n": 300} if "--quick" in sys.argv else {}))
