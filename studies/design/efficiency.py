"""A designed discrepancy against maximum likelihood: nine models, many simulated samples.

Each sample is fitted by maximum likelihood (with the normaliser, from quadrature), by KSD and score matching, and by
the discrepancy of `ms.design`, which knows the density only up to a constant. Prints the joint efficiency of each
against the Cramér–Rao bound and how often 95 % intervals cover; writes them to out/designed.csv and draws
out/designed.png. The whole study takes an hour on one core: `python -m studies efficiency --replications 1000`.
"""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import minstein as ms

METHODS = ("MLE", "SM", "KSD", "designed")
COLOURS = {"MLE": "0.35", "SM": "#E69F00", "KSD": "#56B4E9", "designed": "#0072B2"}
MARKERS = {"MLE": "|", "SM": "^", "KSD": "s", "designed": "o"}


class Setting(NamedTuple):
    """A model where a fit begins, its truth, a sampler, and nodes with log-weights by which log Z is computed.

    `log_p` gives log p at the nodes, up to a constant, for models of which a marginal is enough; `rough` says that the
    loss of score matching has cusps, so that it is left out.
    """

    start: Any
    truth: np.ndarray
    draw: Callable
    nodes: np.ndarray
    log_weights: np.ndarray
    support: tuple[float, float] | None = None
    log_p: Callable | None = None
    rough: bool = False

    def at(self, eta: Any) -> Any:
        return ms.params.from_real(self.start, eta)

    @property
    def eta(self) -> Any:
        """The true parameters without constraints: logarithms of scales, and so on."""
        return jnp.asarray(ms.params.to_real(ms.params.with_theta(self.start, self.truth)))

    def at_nodes(self, eta: Any) -> Any:
        """log p at the nodes, up to a constant."""
        of_model = lambda model, x: jax.vmap(ms.params.unwrap(model))(x)
        return (self.log_p or of_model)(self.at(eta), jnp.asarray(self.nodes))

    def log_normaliser(self, eta: Any) -> Any:
        return jax.nn.logsumexp(self.at_nodes(eta) + self.log_weights)

    def bound(self) -> Any:
        """The inverse of the Fisher information, the covariance of ∂ log p."""
        scores = jax.jacfwd(self.at_nodes)(self.eta)
        weights = jax.nn.softmax(self.at_nodes(self.eta) + self.log_weights)
        centred = scores - weights @ scores
        return jnp.linalg.inv(centred.T @ (weights[:, None] * centred))

    def likelihood(self, x: Any) -> Any:
        """Maximum likelihood by Newton's method from the truth, each step shortened until the likelihood grows."""
        loss = lambda eta: self.log_normaliser(eta) - jnp.mean(jax.vmap(ms.params.unwrap(self.at(eta)))(x))

        def step(_: int, eta: Any) -> Any:
            w, Q = jnp.linalg.eigh(jax.hessian(loss)(eta))
            delta = Q @ (Q.T @ -jax.grad(loss)(eta) / jnp.maximum(jnp.abs(w), 1e-6))
            trials = eta + jnp.array([1.0, 0.5, 0.1, 0.0])[:, None] * delta
            return trials[jnp.nanargmin(jax.vmap(loss)(trials))]

        return jax.lax.fori_loop(0, 8, step, self.eta)


def by_inversion(log_p: Callable, low: float = -5.0, high: float = 5.0) -> Callable:
    """A sampler of a density on an interval, from its distribution function on a fine grid."""
    grid = np.linspace(low, high, 20001)

    def draw(key: Any, n: int) -> Any:
        p = jnp.exp(jax.vmap(log_p)(jnp.asarray(grid)[:, None]))
        mass = jnp.cumsum(p) - p / 2
        return jnp.interp(jax.random.uniform(key, (n, 1)), mass / jnp.sum(p), grid)

    return draw


def _line(reach: float = 12.0, points: int = 601) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x = sinh v, which serve heavy tails as well."""
    v = np.linspace(-reach, reach, points)
    return np.sinh(v)[:, None], np.log(np.cosh(v))


def _half_line(points: int = 601) -> tuple[np.ndarray, np.ndarray]:
    v = np.linspace(-20, 5, points)
    return np.exp(v)[:, None], v


def _gumbel(p: dict, x: Any) -> Any:
    z = (x[0] - p["loc"]) / p["scale"]
    return -z - jnp.exp(-z)


def _gamma(p: dict, x: Any) -> Any:
    return (p["shape"] - 1) * jnp.log(x[0]) - p["rate"] * x[0]


def _mixture(p: dict, x: Any) -> Any:
    first = jnp.log(0.4) - (x[0] - p["mean"][0]) ** 2 / 2
    return jnp.logaddexp(first, jnp.log(0.6) - (x[0] - p["mean"][1]) ** 2 / 2)


def _quartic(x: Any) -> Any:
    return jnp.array([x[0], x[0] ** 2])


PRECISION = np.eye(5)
PRECISION[0, 1:] = PRECISION[1:, 0] = (-0.6, -0.2, -0.2, -0.2)
COVARIANCE = np.linalg.inv(PRECISION)


def _liu_sample(key: Any, n: int, theta: float = -1.0) -> Any:
    """Exact draws: a Gaussian proposal, accepted with probability exp(θ tanh x₄ − |θ|)."""
    normal, uniform = jax.random.split(key)
    x = jax.random.normal(normal, (8 * n, 5)) @ jnp.linalg.cholesky(jnp.asarray(COVARIANCE)).T
    accepted = jnp.log(jax.random.uniform(uniform, (8 * n,))) < theta * jnp.tanh(x[:, 3]) - abs(theta)
    return x[jnp.argsort(~accepted, stable=True)[:n]]


def _liu_marginal(model: Any, x4: Any) -> Any:
    """log p(x₄) of Liu et al.'s model: the other four variables are Gaussian given x₄."""
    return model.theta * jnp.tanh(x4[:, 0]) - x4[:, 0] ** 2 / (2 * COVARIANCE[3, 3])


def settings() -> dict[str, Setting]:
    """The models, by name."""
    t2, t5 = ms.models.StudentT(0.0, 1.0, 2.0), ms.models.StudentT(0.0, 1.0, 5.0)
    free = ms.models.StudentT(0.0, 1.0, ms.positive(4.0))
    gumbel = ms.models.from_log_density(_gumbel, {"loc": 0.0, "scale": ms.positive(1.0)})
    bessel = ms.models.SymmetricBessel(0.0, 1.0, 2.0)
    quartic = ms.models.ExponentialFamily(_quartic, [0.0, 0.0], lambda x: -(x[0] ** 4))
    gamma = ms.models.from_log_density(_gamma, {"rate": ms.positive(1.0), "shape": ms.positive(1.0)})
    mixture = ms.models.from_log_density(_mixture, {"mean": np.array([-1.0, 1.0])})
    base = lambda x: -0.5 * x @ x + 0.6 * x[0] * x[1] + 0.2 * x[0] * (x[2] + x[3] + x[4])
    liu = ms.models.ExponentialFamily(lambda x: jnp.tanh(x[3]), 0.0, base)
    two, means = np.array([0.0, 1.0]), np.array([-1.5, 1.5])
    draw_gumbel = lambda key, n: jax.random.gumbel(key, (n, 1))
    draw_quartic = by_inversion(lambda x: 0.5 * x[0] + 1.5 * x[0] ** 2 - x[0] ** 4)
    draw_gamma = lambda key, n: jax.random.gamma(key, 2.0, (n, 1))
    draw_mixture = by_inversion(lambda x: _mixture({"mean": means}, x), -8.0, 8.0)
    return {
        "Student-t, ν = 2": Setting(t2, two, t2.sample, *_line()),
        "Student-t, ν = 5": Setting(t5, two, t5.sample, *_line()),
        "Student-t, ν free": Setting(free, np.array([0.0, 1.0, 4.0]), free.sample, *_line()),
        "Gumbel": Setting(gumbel, two, draw_gumbel, *_line(6.0)),
        "symmetric Bessel, s = 2": Setting(bessel, two, bessel.sample, *_line(5.0, 200), rough=True),
        "quartic": Setting(quartic, np.array([0.5, 1.5]), draw_quartic, *_line(3.0)),
        "gamma": Setting(gamma, np.array([1.0, 2.0]), draw_gamma, *_half_line(), (0.0, np.inf)),
        "mixture means": Setting(mixture, means, draw_mixture, *_line(4.0)),
        "Liu et al., d = 5": Setting(liu, np.array([-1.0]), _liu_sample, *_line(4.0), None, _liu_marginal),
    }


class Study(NamedTuple):
    """Estimates without constraints by method, the designed fits and whether each design was accepted."""

    eta: dict[str, np.ndarray]
    fits: dict[str, Any]
    accepted: np.ndarray


def fit_both(model: Any, x: Any, support: tuple[float, float] | None = None, **options: Any) -> tuple[Any, Any, Any]:
    """The fits by KSD and by the efficient goal, and whether a fit outside `jit` would use the second."""
    ksd = ms.fit(model, x, ms.default.standardised_ksd(x, support), throw=False, **options)
    designed = ms.fit(model, x, goal="efficient", support=support, throw=False, **options)
    learned: Any = designed.discrepancy
    return ksd, designed, designed.converged & (learned.r_squared > 0.5).all()


def study(setting: Setting, n: int, replications: int, *, seed: int = 1, methods: tuple[str, ...] = METHODS) -> Study:
    """All methods on the same samples; one compilation, then one sample after another."""
    sm = ms.SM() if setting.support is None else ms.DSM(ms.diffusions.bounded(*setting.support))

    def one(key: Any) -> tuple[dict, dict, Any]:
        x = setting.draw(key, n)
        ksd, designed, accepted = fit_both(setting.start, x, setting.support)
        found = {"KSD": ksd, "designed": designed, "SM": ms.fit(setting.start, x, sm, throw=False)}
        fits = {name: found[name] for name in methods if name != "MLE"}
        eta = {name: ms.params.to_real(fit.model) for name, fit in fits.items()}
        kept = {name: eqx.tree_at(lambda f: f.discrepancy, fit, None) for name, fit in fits.items()}
        likely = {"MLE": setting.likelihood(x)} if "MLE" in methods else {}
        return eta | likely, kept, accepted

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), replications)
        eta, fits, accepted = jax.tree.map(np.asarray, jax.jit(partial(jax.lax.map, one))(keys))
    return Study(eta, fits, accepted)


def efficiency(setting: Setting, n: int, eta: np.ndarray) -> float:
    """(det of the Cramér–Rao bound / det of the mean squared error)^(1/p)."""
    with jax.enable_x64(True):
        error, bound = eta - np.asarray(setting.eta), np.asarray(setting.bound()) / n
    return float((np.linalg.det(bound) / np.linalg.det(error.T @ error / len(eta))) ** (1 / eta.shape[1]))


def jackknife(setting: Setting, n: int, a: np.ndarray, b: np.ndarray, groups: int = 20) -> tuple[float, float]:
    """The ratio of two efficiencies, and its Monte-Carlo error."""
    ratio = lambda keep: efficiency(setting, n, a[keep]) / efficiency(setting, n, b[keep])
    group = np.arange(len(a)) % groups
    parts = np.array([ratio(group != g) for g in range(groups)])
    return ratio(group >= 0), float(np.sqrt((groups - 1) / groups * np.sum((parts - parts.mean()) ** 2)))


def coverage(fits: Any, truth: np.ndarray) -> np.ndarray:
    """How often the 95 % intervals hold the truth; a fit without an interval does not."""
    ends = zip(fits.conf_int().values(), truth, strict=True)
    return np.array([np.mean((low <= t) & (t <= high)) for (low, high), t in ends])


def row(name: str, setting: Setting, n: int, found: Study) -> dict[str, Any]:
    """One line of the table."""
    ratio, error = jackknife(setting, n, found.eta["designed"], found.eta["MLE"])
    efficiencies = {method: round(efficiency(setting, n, found.eta[method]), 4) for method in found.eta}
    return {
        "model": name,
        "n": n,
        "replications": len(found.accepted),
        **{method: efficiencies.get(method, "") for method in METHODS},
        "designed/MLE": round(ratio, 4),
        "error": round(error, 4),
        "accepted": round(float(found.accepted.mean()), 4),
        "coverage": " ".join(f"{value:.3f}" for value in coverage(found.fits["designed"], setting.truth)),
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Efficiencies by model, one panel for each n."""
    sizes, models = sorted({int(r["n"]) for r in rows}), list(dict.fromkeys(r["model"] for r in rows))
    figure, axes = plt.subplots(1, len(sizes), figsize=(5.2 * len(sizes), 4.4), sharey=True, squeeze=False)
    for ax, n in zip(axes[0], sizes, strict=True):
        here = [r for r in rows if int(r["n"]) == n]
        for method in METHODS:
            points = [(float(r[method]), models.index(r["model"])) for r in here if r[method] != ""]
            if points:
                size = 14 if method == "MLE" else 7
                ax.plot(
                    *zip(*points, strict=True), MARKERS[method], color=COLOURS[method], markersize=size, label=method
                )
        ax.set_yticks(range(len(models)), models)
        ax.set(xlim=(0, 1.15), title=f"n = {n}", xlabel="joint efficiency")
        ax.axvline(1, color="0.8", linewidth=1, zorder=0)
        ax.grid(axis="y", color="0.92")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].invert_yaxis()
    axes[0][0].legend(frameon=False, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


OUT = Path("out")


def main(
    out: Path = OUT, replications: int = 400, sizes: tuple[int, ...] = (300, 1000), only: str | None = None
) -> Path:
    if only not in (None, *settings()):
        raise ValueError(f"--only must be one of {', '.join(settings())}, got {only}.")
    out.mkdir(exist_ok=True, parents=True)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        for name, setting in settings().items():
            if only not in (None, name):
                continue
            tried = METHODS if n <= 300 else ("MLE", "designed")
            methods = tuple(m for m in tried if not (m == "SM" and setting.rough))
            rows.append(row(name, setting, n, study(setting, n, replications, methods=methods)))
            print(rows[-1], flush=True)
            with open(out / "designed.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
    draw(rows, out / "designed.png")
    return out / "designed.png"
