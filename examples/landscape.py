"""Where do the discrepancies put Newcomb's speed of light? Two wild observations decide it, or do not.

Evaluates score matching and a robust DKSD over location and scale of a Gaussian model, on 66 measurements of the
passage time of light of which two are gross errors, and draws both landscapes: out/landscape.png.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import minstein as ms

HERE = Path(__file__).parent


def newcomb() -> np.ndarray:
    """Deviations from 24 800 nanoseconds."""
    return np.loadtxt(HERE / "data" / "newcomb.csv", comments="#", skiprows=4)


def landscape(discrepancy, x: np.ndarray, locs: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The loss of a Gaussian model at each location (columns) and scale (rows)."""
    return np.array([[discrepancy(ms.models.Gaussian(loc, scale), x) for loc in locs] for scale in scales])


def lowest(losses: np.ndarray, locs: np.ndarray, scales: np.ndarray) -> tuple[float, float]:
    """The location and the scale at which the grid is lowest."""
    row, column = np.unravel_index(losses.argmin(), losses.shape)
    return locs[column], scales[row]


def draw(ax, title: str, losses: np.ndarray, locs: np.ndarray, scales: np.ndarray):
    """Contours of the loss by its rank on the grid, because its range is wide, and the minimum."""
    ranks = losses.ravel().argsort().argsort().reshape(losses.shape) / (losses.size - 1)
    filled = ax.contourf(locs, scales, ranks, levels=np.linspace(0, 1, 13) ** 1.5, cmap="cividis")
    loc, scale = lowest(losses, locs, scales)
    ax.plot(loc, scale, "o", color="white", markeredgecolor="black", markersize=8)
    ax.annotate(
        f"({loc:.1f}, {scale:.1f})", (loc, scale), (0, 9), textcoords="offset points", color="white", ha="center"
    )
    ax.set(title=title, xlabel="location (ns)", yscale="log")
    ax.set_yticks([3, 5, 10, 20], ["3", "5", "10", "20"])
    ax.minorticks_off()
    return filled


def main(out: Path = Path("out")) -> Path:
    x = newcomb()
    median = float(np.median(x))
    spread = 1.4826 * float(np.median(np.abs(x - median)))
    robust = ms.DKSD(
        ms.kernels.IMQ(ms.kernels.median_heuristic(x)),
        lambda z: 1 / (1 + ((z[0] - median) / (3 * spread)) ** 2),
        unbiased=False,
    )
    locs, scales = np.linspace(18, 34, 41), np.geomspace(2.5, 20, 31)
    panels = {"Score matching": ms.SM(), "Robust DKSD": robust}

    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    filled = None
    for ax, (title, discrepancy) in zip(axes, panels.items(), strict=True):
        losses = landscape(discrepancy, x, locs, scales)
        filled = draw(ax, title, losses, locs, scales)
        print("{:<15} lowest at location {:5.1f}, scale {:5.1f}".format(title, *lowest(losses, locs, scales)))
    axes[0].set_ylabel("scale (ns)")
    figure.colorbar(filled, ax=axes, label="loss: share of the grid that is lower", ticks=[0, 0.25, 0.5, 0.75, 1])
    figure.suptitle("Speed of light: 66 measurements, two of them gross errors")

    clean = x[x > 0]
    print(f"All 66 observations: mean {x.mean():.1f}, standard deviation {x.std():.1f}")
    print(f"Without the two:     mean {clean.mean():.1f}, standard deviation {clean.std():.1f}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "landscape.png"
    figure.savefig(path, dpi=150)
    print(f"Wrote {path}")
    return path


if __name__ == "__main__":
    main()
