"""
A graphical model of wine
=========================

Which constituents of wine depend on each other, given all the others?

Eight positive measurements of 178 wines, as a pairwise model on the positive orthant: log p = ηᵀx − ½ xᵀΛx for x > 0.
Its normaliser is an integral over the orthant without a closed form. Score matching with the diffusion m(x) = diag(x),
which vanishes at the boundary, does not need it: the loss is quadratic, the fit a linear solve, and every edge −λᵢⱼ has
a standard error. Prints and draws the edges whose intervals stay clear of zero after Bonferroni's correction, and the
intervals of the strongest: out/wine_graph.png.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import minstein as ms

CHOSEN = ("malic_acid", "phenols", "flavanoids", "nonflavanoids", "proanthocyanins", "colour", "hue", "proline")
D = len(CHOSEN)
ROWS, COLUMNS = np.triu_indices(D, 1)
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"


def statistic(x):
    """x, −x²/2 and the products of pairs, so that θ = (η, the diagonal of Λ, the edges −λᵢⱼ)."""
    return jnp.concatenate([x, -(x**2) / 2, x[ROWS] * x[COLUMNS]])


def wines() -> np.ndarray:
    """The chosen measurements in units of their standard deviations; zero stays where it is."""
    data = ms.datasets.load("wine")
    x = data.x[:, [data.columns.index(name) for name in CHOSEN]]
    return x / x.std(0)


def fitted(x: np.ndarray) -> ms.Fit:
    model = ms.models.ExponentialFamily(statistic, np.zeros(2 * D + len(ROWS)))
    return ms.fit(model, x, ms.DSM(lambda x: x))


def edges(fit: ms.Fit, alpha: float) -> list[tuple[str, float, float, float]]:
    """Each edge's name, estimate and interval of level 1 − alpha, the strongest first."""
    ends = list(fit.conf_int(alpha).values())[2 * D :]
    errors = list(fit.bse.values())[2 * D :]
    values = fit.theta[2 * D :]
    names = [f"{CHOSEN[i]} – {CHOSEN[j]}" for i, j in zip(ROWS, COLUMNS, strict=True)]
    order = np.argsort(-np.abs(values / errors))
    return [(names[k], float(values[k]), *ends[k]) for k in order]


def draw_graph(ax, found: list[tuple[str, float, float, float]]) -> None:
    """Nodes on a circle; blue edges for positive dependence, broken orange ones for negative."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(D) / D
    at = dict(zip(CHOSEN, np.column_stack([np.cos(angle), np.sin(angle)]), strict=True))
    largest = max(abs(value) for _, value, _, _ in found)
    for name, value, low, high in found:
        if low < 0 < high:
            continue
        ends = np.array([at[end] for end in name.split(" – ")])
        colour, line = (POSITIVE, "-") if value > 0 else (NEGATIVE, (0, (4, 2)))
        ax.plot(*ends.T, color=colour, linestyle=line, linewidth=1 + 5 * abs(value) / largest, zorder=1)
    for name, (a, b) in at.items():
        ax.plot(a, b, "o", color="white", markeredgecolor="0.2", markersize=13, zorder=2)
        side = "left" if a > 0.1 else "right" if a < -0.1 else "center"
        ax.annotate(name, (1.14 * a, 1.14 * b), ha=side, va="center", fontsize=9)
    ax.set(xlim=(-1.9, 1.9), ylim=(-1.3, 1.3), aspect="equal")
    ax.set_axis_off()


def draw_intervals(ax, found: list[tuple[str, float, float, float]]) -> None:
    for row, (_, value, low, high) in enumerate(found):
        clear = not low < 0 < high
        colour = "0.6" if not clear else POSITIVE if value > 0 else NEGATIVE
        ax.plot([low, high], [row, row], color=colour, linewidth=2, solid_capstyle="butt")
        ax.plot(value, row, "o", color=colour, markersize=5)
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_yticks(range(len(found)), [name for name, *_ in found], fontsize=8)
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlabel("edge −λᵢⱼ, in units of standard deviations")


def main(out: Path = Path("out")) -> Path:
    fit = fitted(wines())
    found = edges(fit, 0.05 / len(ROWS))
    clear = [edge for edge in found if not edge[2] < 0 < edge[3]]
    print(f"{fit.message} {fit.n} wines, {len(ROWS)} possible edges, {len(clear)} of them clear of zero:")
    for name, value, low, high in clear:
        print(f"{name:<30}{value:7.3f}  ({low:.3f} to {high:.3f})")
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", width_ratios=[1.15, 1])
    draw_graph(axes[0], found)
    draw_intervals(axes[1], found[:18])
    axes[0].set_title("Conditional dependence: blue positive, orange negative")
    axes[1].set_title("The 18 strongest edges, 95 % jointly")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "wine_graph.png"
    figure.savefig(path, dpi=150)
    print(f"Wrote {path}")
    return path


if __name__ == "__main__":
    main()
