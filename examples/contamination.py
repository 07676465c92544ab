"""
More and more gross errors
==========================

A sample with more and more gross errors: where do location and scale go?

200 draws from a standard normal distribution, a share of them replaced by draws around 8. Maximum likelihood follows
the errors at once, Huber's estimator follows them slowly, Tukey's redescending one holds out, but the scale that goes
with them grows. A Gaussian fitted by DKSD, with a diffusion that falls off with the distance from the median, holds
location and scale; it pays with a larger variance where there are no errors. Prints means over replications, and draws
them with one sample and the densities fitted to it: out/contamination.png.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from scipy import stats

import minstein as ms

N, AT, SPREAD = 200, 8.0, 0.5
SHARES = np.array([0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])
STYLES = {
    "Maximum likelihood": ("#D55E00", "o"),
    "Huber": ("#E69F00", "s"),
    "Tukey": ("#56B4E9", "^"),
    "Robust DKSD": ("#0072B2", "D"),
}
GAUSSIAN = ms.models.Gaussian(0.0, 1.0)
KERNEL = ms.kernels.IMQ(1.0)
FALLING = ms.diffusions.decay(4.0)


def draw(rng: np.random.Generator, share: float) -> np.ndarray:
    """A contaminated sample."""
    x = rng.normal(size=N)
    wrong = rng.permutation(N)[: round(share * N)]
    x[wrong] = rng.normal(AT, SPREAD, len(wrong))
    return x


def huber(x: np.ndarray) -> tuple[float, float]:
    """Huber's M-estimate of location, with the median absolute deviation as its scale."""
    return _regression(x, sm.robust.norms.HuberT())


def tukey(x: np.ndarray) -> tuple[float, float]:
    """Tukey's biweight, likewise."""
    return _regression(x, sm.robust.norms.TukeyBiweight())


def _regression(x: np.ndarray, norm: object) -> tuple[float, float]:
    found = sm.RLM(x, np.ones_like(x), M=norm).fit(start_params=[np.median(x)])
    return float(found.params[0]), float(found.scale)


def robust(x: np.ndarray) -> tuple[float, float]:
    """A Gaussian by DKSD: centred at the median in units of the MAD, where the diffusion falls off like r⁻⁴."""
    median = float(np.median(x))
    mad = float(stats.median_abs_deviation(x, scale="normal"))
    fit = ms.fit(GAUSSIAN, (x - median) / mad, ms.DKSD(KERNEL, FALLING, unbiased=False), covariance=False)
    return median + mad * fit.params["loc"], mad * fit.params["scale"]


ESTIMATORS = {
    "Maximum likelihood": lambda x: (float(x.mean()), float(x.std())),
    "Huber": huber,
    "Tukey": tukey,
    "Robust DKSD": robust,
}


def study(replications: int) -> dict[str, np.ndarray]:
    """Location and scale by estimator: an array of shares by replications by two."""
    rng = np.random.default_rng(0)
    samples = [[draw(rng, share) for _ in range(replications)] for share in SHARES]
    return {
        name: np.array([[estimate(x) for x in group] for group in samples]) for name, estimate in ESTIMATORS.items()
    }


def draw_curves(ax, found: dict[str, np.ndarray], which: int, truth: float, label: str) -> None:
    ax.axhline(truth, color="0.6", linewidth=1)
    for name, estimates in found.items():
        colour, marker = STYLES[name]
        ax.plot(100 * SHARES, estimates[..., which].mean(1), marker=marker, color=colour, label=name)
    ax.set(xlabel="gross errors (%)", ylabel=label)


def draw_sample(ax, x: np.ndarray) -> None:
    grid = np.linspace(-4, 11, 500)
    ax.hist(x, bins=np.arange(-4, 11, 0.4), density=True, color="0.85", edgecolor="white")
    for name, estimate in ESTIMATORS.items():
        ax.plot(grid, stats.norm(*estimate(x)).pdf(grid), color=STYLES[name][0], linewidth=1.8)
    ax.set(xlabel="x", ylabel="density")


def main(out: Path = Path("out"), replications: int = 20) -> Path:
    found = study(replications)
    print("Mean estimates of location 0 and scale 1, by share of gross errors")
    print(" " * 19 + "".join(f"{share:>12.0%}" for share in SHARES))
    for name, estimates in found.items():
        print(f"{name:<19}" + "".join(f"{a:7.2f}{b:5.2f}" for a, b in estimates.mean(1)))
    spreads = ", ".join(f"{name} {estimates[0, :, 0].std(ddof=1):.3f}" for name, estimates in found.items())
    print(f"Standard deviation of the location without errors: {spreads}")
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    draw_curves(axes[0], found, 0, 0.0, "location")
    draw_curves(axes[1], found, 1, 1.0, "scale")
    draw_sample(axes[2], draw(np.random.default_rng(1), 0.2))
    axes[0].legend(frameon=False, fontsize=9)
    axes[0].set_title("Location: the truth is 0")
    axes[1].set_title("Scale: the truth is 1")
    axes[2].set_title("A sample with 20 % gross errors")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "contamination.png"
    figure.savefig(path, dpi=150)
    print(f"Wrote {path}")
    return path


if __name__ == "__main__":
    main(**({"replications": 5} if "--quick" in sys.argv else {}))
