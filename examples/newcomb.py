"""
Newcomb's speed of light
========================

66 measurements, two of them gross errors. Who is misled by them?

Fits a Gaussian by score matching, by KSD and by a robust DKSD, and a Student-t by KSD; prints each fit, and draws the
fitted densities over the data, and the loss of two of the fits around their minima: out/newcomb.png.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import minstein as ms

COLOURS = {"Score matching": "#D55E00", "KSD": "#E69F00", "Robust DKSD": "#0072B2", "Student-t, KSD": "#009E73"}


def fits(x: np.ndarray) -> dict[str, ms.Fit]:
    gaussian, student = ms.models.Gaussian(0.0, 1.0), ms.models.StudentT(0.0, 1.0, 3.0)
    return {
        "Score matching": ms.fit(gaussian, x, ms.SM()),
        "KSD": ms.fit(gaussian, x, "ksd"),
        "Robust DKSD": ms.fit(gaussian, x, ms.default.robust_discrepancy(x)),
        "Student-t, KSD": ms.fit(student, x, "ksd"),
    }


def draw_densities(ax, x: np.ndarray, found: dict[str, ms.Fit]) -> None:
    grid = np.linspace(x.min() - 5, x.max() + 5, 600)
    ax.hist(x, bins=np.arange(-46, 44, 2), density=True, color="0.85", edgecolor="white")
    ax.plot(x, np.full_like(x, -0.003), "|", color="0.4", markersize=8)
    for name, fit in found.items():
        law = stats.t(3.0, *fit.theta) if name.startswith("Student") else stats.norm(*fit.theta)
        ax.plot(grid, law.pdf(grid), color=COLOURS[name], linewidth=1.8, label=name)
    ax.set(title="Fitted densities", xlabel="passage time − 24 800 ns", ylabel="density")
    ax.legend(frameon=False, fontsize=8, loc="upper left")


def draw_loss(ax, name: str, fit: ms.Fit, x: np.ndarray, points: int) -> None:
    """Contours of the loss by its rank on the grid, because its range is wide, and the estimate with its intervals."""
    locs, scales = np.linspace(18, 34, points), np.geomspace(2.5, 20, points)
    losses = np.array([[fit.discrepancy(ms.models.Gaussian(loc, scale), x) for loc in locs] for scale in scales])
    ranks = losses.ravel().argsort().argsort().reshape(losses.shape) / (losses.size - 1)
    ax.contourf(locs, scales, ranks, levels=np.linspace(0, 1, 13) ** 1.5, cmap="cividis")
    loc, scale = fit.theta
    errors = 1.96 * np.array(list(fit.bse.values()))
    ax.errorbar(loc, scale, errors[1], errors[0], fmt="o", color="white", ecolor="white", markeredgecolor="black")
    ax.set(title=f"Loss of {name[0].lower() + name[1:]}", xlabel="location (ns)", ylabel="scale (ns)", yscale="log")
    ax.set_xlim(18, 34)
    ax.set_ylim(2.5, 20)
    ax.set_yticks([3, 5, 10, 20], ["3", "5", "10", "20"])
    ax.minorticks_off()


def main(out: Path = Path("out"), points: int = 29) -> Path:
    x = ms.datasets.load("newcomb").x[:, 0]
    found = fits(x)
    for name, fit in found.items():
        print(f"== {name}\n{fit}\n")
    clean = x[x > 0]
    print(f"All 66 observations: mean {x.mean():.1f}, standard deviation {x.std():.1f}")
    print(f"Without the two:     mean {clean.mean():.1f}, standard deviation {clean.std():.1f}")

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", width_ratios=[1.3, 1, 1])
    draw_densities(axes[0], x, found)
    for ax, name in zip(axes[1:], ("Score matching", "Robust DKSD"), strict=True):
        draw_loss(ax, name, found[name], x, points)
    figure.suptitle("Speed of light: 66 measurements, two of them gross errors; estimates with 95 % intervals")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "newcomb.png"
    figure.savefig(path, dpi=150)
    print(f"Wrote {path}")
    return path


if __name__ == "__main__":
    main(**({"points": 15} if "--quick" in sys.argv else {}))
