"""
How efficient is each discrepancy?
==================================

The variance of an estimate in large samples, by the sandwich at the truth, against the Cramér–Rao bound. In place of a
sample stand quantiles of the model, so that nothing is random. For a location and a scale that are fitted together, a
wide kernel makes KSD as good as maximum likelihood in each of these families; score matching is so only for the normal.
For other parameters a wide kernel can do harm: those of exp(ax + bx² − x⁴), and the scale of Gumbel's distribution with
a known location. Prints a table and draws efficiency against the width of the kernel: out/efficiency.png.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import minstein as ms

WIDTHS = np.geomspace(0.25, 8, 6)
"""Widths c of the IMQ kernel, in median distances."""


class Case(NamedTuple):
    """A model at the truth, and quantiles that stand for its distribution."""

    name: str
    model: Any
    quantiles: Callable[[np.ndarray], np.ndarray]
    colour: str
    line: str


def gumbel(p, x):
    z = (x[0] - p["loc"]) / p["scale"]
    return -z - jnp.exp(-z)


def quartic(p, x):
    return p["a"] * x[0] + p["b"] * x[0] ** 2 - x[0] ** 4


def quartic_quantiles(u: np.ndarray) -> np.ndarray:
    grid = np.linspace(-4, 4, 40_001)
    mass = np.cumsum(np.exp(0.5 * grid + grid**2 - grid**4))
    return np.interp(u, mass / mass[-1], grid)


CASES = (
    Case("normal, location and scale", ms.models.Gaussian(0.0, 1.0), stats.norm.ppf, "#0072B2", "-"),
    Case("t with 5 df, location and scale", ms.models.StudentT(0.0, 1.0, 5.0), stats.t(5).ppf, "#009E73", "-"),
    Case(
        "Gumbel, location and scale",
        ms.models.from_log_density(gumbel, {"loc": 0.0, "scale": ms.positive(1.0)}),
        stats.gumbel_r.ppf,
        "#E69F00",
        "-",
    ),
    Case(
        "Gumbel, scale alone",
        ms.models.from_log_density(gumbel, {"loc": ms.fixed(0.0), "scale": ms.positive(1.0)}),
        stats.gumbel_r.ppf,
        "#E69F00",
        "--",
    ),
    Case(
        "exp(ax + bx² − x⁴), a and b",
        ms.models.from_log_density(quartic, {"a": 0.5, "b": 1.0}),
        quartic_quantiles,
        "#CC79A7",
        "--",
    ),
)


def fisher(model: Any, x: np.ndarray) -> np.ndarray:
    """The Fisher information: the covariance of ∂log p, whose mean stands for the normaliser that is not known."""
    with jax.enable_x64(True):
        log_p = lambda theta, x: ms.params.with_theta(model, theta)(x)
        slopes = jax.vmap(jax.grad(lambda t, x: _plain(log_p(t, x))), (None, 0))(ms.params.theta(model), x[:, None])
    return np.atleast_2d(np.cov(np.asarray(slopes).T, bias=True))


def _plain(value):
    return jnp.reshape(value, ())


def efficiency(discrepancy: Any, model: Any, x: np.ndarray) -> float:
    """(det of the Cramér–Rao bound / det of the covariance)^(1/p)."""
    cov = len(x) * np.atleast_2d(ms.sandwich(discrepancy, model, x))
    return float((np.linalg.det(fisher(model, x)) * np.linalg.det(cov)) ** (-1 / len(cov)))


def study(n: int) -> dict[str, tuple[float, np.ndarray]]:
    """By case: the efficiency of score matching, and that of KSD for each width."""
    found = {}
    for case in CASES:
        x = case.quantiles((np.arange(n) + 0.5) / n)
        median = ms.kernels.median_heuristic(x)
        ksd = [efficiency(ms.KSD(ms.kernels.IMQ(float(w * median)), unbiased=False), case.model, x) for w in WIDTHS]
        found[case.name] = efficiency(ms.SM(), case.model, x), np.array(ksd)
    return found


def main(out: Path = Path("out"), n: int = 2000) -> dict[str, tuple[float, np.ndarray]]:
    """Study, print, draw, and return what was found."""
    found = study(n)
    print(f"{'Efficiency':<34}{'SM':>6}  KSD at " + "".join(f"{w:6.2f}" for w in WIDTHS) + " median distances")
    for name, (matching, ksd) in found.items():
        print(f"{name:<34}{matching:6.3f}" + " " * 9 + "".join(f"{e:6.3f}" for e in ksd))
    figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for case in CASES:
        matching, ksd = found[case.name]
        ax.plot(WIDTHS, ksd, case.line, color=case.colour, label=case.name)
        ax.plot(WIDTHS[0] / 1.3, matching, "o", color=case.colour, markersize=6)
    ax.set(xscale="log", xlabel="c of the IMQ kernel, in median distances", ylabel="efficiency", ylim=(0, 1.05))
    ticks = [0.25, 0.5, 1, 2, 4, 8]
    ax.set_xticks([WIDTHS[0] / 1.3, *ticks], ["SM", *(f"{t:g}" for t in ticks)])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.1, 0))
    ax.set_title("Lines: KSD. Points: score matching. 1 is maximum likelihood.", fontsize=10)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "efficiency.png", dpi=150)
    print(f"Wrote {out / 'efficiency.png'}")
    return found


if __name__ == "__main__":
    main(**({"n": 500} if "--quick" in sys.argv else {}))
