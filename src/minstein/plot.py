"""Pictures of a fit. Each function draws on `ax`, or on a new figure, and returns the Axes; matplotlib is needed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .efficiency import Comparison
from .influence import influence as influence_of
from .models._family import median_and_mad
from .params import with_theta
from .result import Fit
from .sample import read
from .sharded import Sharded
from .spaces import space_of

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.55"
"""Colours that the colour-blind can tell apart."""

__all__ = ["density", "influence", "intervals", "loss", "trace"]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as reason:
        raise ImportError("Plots need matplotlib: pip install 'minstein[plots]'.") from reason
    return plt.subplots(layout="constrained")[1]


def _on_host(x: Any) -> np.ndarray:
    """The data, to be looked at."""
    x = read(x)
    return x.on_host() if isinstance(x, Sharded) else np.asarray(x)


def intervals(fit: Fit, *, alpha: float = 0.05, ax: Any = None) -> Any:
    """Each parameter's estimate and interval.

    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())
    >>> ax = ms.plot.intervals(fit)
    """
    ax = _axes(ax)
    ends = fit.conf_int(alpha)
    for row, name in enumerate(fit.names):
        low, high = ends[name]
        ax.plot([low, high], [row, row], color=BLUE, linewidth=2, solid_capstyle="butt")
        ax.plot(fit.params[name], row, "o", color=BLUE, markersize=7)
        ax.annotate(f"{fit.params[name]:.4g}", (fit.params[name], row), (0, 7), textcoords="offset points", ha="center")
    ax.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(fit.names)), fit.names)
    ax.set_ylim(len(fit.names) - 0.4, -0.6)
    ax.set(xlabel="value", title=f"Estimates with {100 * (1 - alpha):g} % intervals")
    return ax


def trace(fit: Fit, *, ax: Any = None) -> Any:
    """The loss at each step of the search, above the lowest it reached.

    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())
    >>> ms.plot.trace(fit).get_xlabel()
    'step'
    """
    ax = _axes(ax)
    losses = np.asarray(fit.trace)
    above = losses - np.nanmin(losses)
    steps = np.arange(len(losses))
    shown = above > 0
    if len(losses) > 100:
        ax.plot(_thinned(steps, 5000), _thinned(losses, 5000), color=BLUE, linewidth=0.8)
        ax.set_ylabel("loss of the minibatch")
    else:
        ax.semilogy(steps[shown], above[shown], "o-", color=BLUE)
        ax.set_ylabel("loss above the lowest")
    ax.set(xlabel="step", title=fit.solver.split("(")[0])
    return ax


def influence(fit: Fit, x: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """The influence function of each parameter against z, for one variable, over a rug of the data.

    Args:
        fit: a fit of one variable.
        x: the sample it was made from.
        parameter: its name; None draws all.
        ax: where to draw.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.plot.influence(fit, x).get_xlabel()
    'z'
    """
    _refuse_discrete(fit, "An influence curve")
    data = _on_host(x)
    if data.shape[1] != 1:
        raise ValueError(f"The influence curve is drawn for one variable, and x has {data.shape[1]}.")
    ax = _axes(ax)
    grid = _wide(near(data)[:, 0])
    curves = influence_of(fit, x, grid)
    chosen = fit.names if parameter is None else (_known(fit, parameter),)
    for colour, name in zip(_cycle(), chosen, strict=False):
        ax.plot(grid, curves[:, fit.names.index(name)], color=colour, linewidth=1.8, label=name)
    ax.axhline(0, color=GREY, linewidth=0.8)
    low = ax.get_ylim()[0]
    rug = _thinned(np.sort(near(data)[:, 0]), 500)
    ax.plot(rug, np.full(len(rug), low), "|", color=GREY, markersize=9)
    ax.set(xlabel="z", ylabel="influence of an observation at z", title="Influence function")
    ax.legend(frameon=False)
    return ax


def density(fit: Fit, x: Any, *, ax: Any = None) -> Any:
    """The data with the fitted density: a histogram in one dimension, contours in two.

    The density is normalised numerically over what is shown; observations very far out are counted, not shown.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.plot.density(fit, x).get_ylabel()
    'density'
    """
    _refuse_discrete(fit, "A density")
    data = _on_host(x).astype(np.float64)
    ax = _axes(ax)
    if data.shape[1] == 1:
        seen = near(data)[:, 0]
        grid, edges = _wide(seen, 0.3, 1000), histogram_edges(seen)
        share = np.histogram(seen, edges)[0] / (len(data) * np.diff(edges))
        ax.stairs(share, edges, fill=True, color="0.85", label="data")
        ax.plot(grid, _normalised(fit.model, grid[:, None], grid[1] - grid[0]), color=BLUE, linewidth=2, label="fitted")
        ax.set(xlabel="x", ylabel="density")
        ax.legend(frameon=False)
    elif data.shape[1] == 2:
        seen = near(data)
        first, second = (_wide(seen[:, j], 0.15, 120) for j in (0, 1))
        points = np.stack(np.meshgrid(first, second), -1).reshape(-1, 2)
        cell = (first[1] - first[0]) * (second[1] - second[0])
        p = _normalised(fit.model, points, cell).reshape(120, 120)
        ax.plot(*_thinned(seen, 2000).T, ".", color=GREY, markersize=3)
        levels = p.max() * np.array([0.01, 0.1, 0.3, 0.6, 0.9])
        ax.contour(first, second, p, levels=levels, colors=BLUE, linewidths=np.linspace(0.7, 2.2, 5))
        ax.set(xlabel="x[0]", ylabel="x[1]")
    else:
        raise ValueError(f"A density is drawn in one or two dimensions, and x has {data.shape[1]} variables.")
    beyond = f", {len(data) - len(seen)} of them beyond the edges" if len(seen) < len(data) else ""
    ax.set_title(f"{type(fit.model).__name__} and {fit.n} observations{beyond}")
    return ax


def loss(fit: Fit, x: Any, parameters: tuple[str, ...] | None = None, *, points: int = 31, ax: Any = None) -> Any:
    """The loss around the estimate in one or two parameters, the others held, with the estimate and its intervals.

    In two parameters the colours are the rank of the loss over the grid, because its range is wide.

    Args:
        fit: a fit that converged, with standard errors.
        x: the sample it was made from.
        parameters: one name or two; None means the first two.
        points: grid points in each direction.
        ax: where to draw.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.plot.loss(fit, x, ("loc",), points=5).get_xlabel()
    'loc'
    """
    chosen = fit.names[:2] if parameters is None else tuple(_known(fit, name) for name in parameters)
    if len(chosen) not in (1, 2):
        raise ValueError(f"The loss is drawn over one parameter or two, got {len(chosen)}.")
    ends = fit.conf_int(0.05)
    wide = fit.conf_int(1e-5)
    if not np.isfinite(list(ends.values())).all():
        raise ValueError(
            f"The loss is drawn around an estimate with standard errors, and there are none. {fit.message}"
        )
    ax = _axes(ax)
    axes = [np.linspace(*wide[name], points) for name in chosen]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(chosen))
    losses = np.array([_loss_at(fit, x, chosen, values) for values in grid]).reshape([points] * len(chosen))
    estimate = [fit.params[name] for name in chosen]
    if len(chosen) == 1:
        ax.plot(axes[0], losses, color=BLUE, linewidth=2)
        ax.axvspan(*ends[chosen[0]], color=BLUE, alpha=0.12, linewidth=0, label="95 % interval")
        ax.axvline(estimate[0], color=ORANGE, linewidth=1.5, label="estimate")
        ax.set(xlabel=chosen[0], ylabel="loss")
        ax.legend(frameon=False)
    else:
        ranks = losses.ravel().argsort().argsort().reshape(losses.shape) / (losses.size - 1)
        ax.contourf(*axes, ranks.T, levels=np.linspace(0, 1, 13) ** 1.5, cmap="cividis")
        for (low, high), at, other in zip((ends[n] for n in chosen), (0, 1), (1, 0), strict=True):
            ends_xy = [[low, high], [estimate[other]] * 2]
            ax.plot(*(ends_xy if at == 0 else ends_xy[::-1]), color="white", linewidth=2)
        ax.plot(*estimate, "o", color="white", markeredgecolor="black", markersize=8)
        ax.set(xlabel=chosen[0], ylabel=chosen[1])
    ax.set_title("Loss, with the estimate and 95 % intervals")
    return ax


def efficiency(comparison: Comparison, *, ax: Any = None) -> Any:
    """Efficiency against robustness: what `ms.compare` found, a point for each way of estimating.

    To the right is what single observations can do at most; the grey band on the right is for those without a limit.
    """
    ax = _axes(ax)
    rows = {name: row for name, row in comparison.rows.items() if np.isfinite(row.joint)}
    bounded = [row.largest for row in rows.values() if np.isfinite(row.largest)]
    low, high = min(bounded, default=1.0), max(bounded, default=2.0)
    end = high * (high / low) ** 0.35 * 1.3
    ax.axvspan(end / 1.12, end * 1.12, color="0.92", linewidth=0, zorder=0)
    ax.text(end, 0.03, "no limit", rotation=90, ha="center", va="bottom", transform=ax.get_xaxis_transform())
    endless = [name for name, row in rows.items() if not np.isfinite(row.largest)]
    for colour, marker, (name, row) in zip(_cycle(), "o^sDvPX*" * 5, rows.items(), strict=False):
        beside = (endless.index(name) - (len(endless) - 1) / 2) * 0.06 if name in endless else 0
        at = end * (1 + beside) if name in endless else row.largest
        ax.plot(at, row.joint, marker, color=colour, markersize=9, linestyle="none", label=name)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if high < 10 * low else "")
    ax.set(xlabel="largest influence of one observation, in standard deviations", ylabel="joint efficiency")
    ax.set(ylim=(0, 1.1), title="Efficiency against robustness")
    ax.legend(frameon=False, loc="lower left")
    return ax


def _refuse_discrete(fit: Fit, what: str) -> None:
    space = space_of(fit.model)
    if space.discrete:
        raise TypeError(
            f"{what} is drawn over the reals, but the model lives on {space!r}. "
            "ms.plot.intervals and ms.plot.loss draw what such a fit found."
        )


def _loss_at(fit: Fit, x: Any, chosen: tuple[str, ...], values: np.ndarray) -> float:
    theta = np.array(fit.theta)
    theta[[fit.names.index(name) for name in chosen]] = values
    return float(fit.discrepancy(with_theta(fit.model, theta), x))


def _normalised(model: Any, points: np.ndarray, cell: float) -> np.ndarray:
    with jax.enable_x64(True):
        log_p = np.asarray(jax.vmap(model)(jnp.asarray(points)), np.float64)
    p = np.exp(log_p - np.nanmax(log_p))
    return p / (np.nansum(p) * cell)


def _wide(values: np.ndarray, share: float = 0.5, points: int = 256) -> np.ndarray:
    """A grid over the data and a share of their range on either side."""
    low, high = values.min(), values.max()
    margin = share * ((high - low) or 1.0)
    return np.linspace(low - margin, high + margin, points)


def near(rows: np.ndarray) -> np.ndarray:
    """The rows within 25 spreads of the median in each coordinate: one further out would hide all others."""
    return rows[~is_far(rows)]


def is_far(rows: np.ndarray) -> np.ndarray:
    """Whether a row is further out than that."""
    centre, spread = median_and_mad(rows)
    return np.any(np.abs(rows - centre) > 25 * spread, axis=1)


def histogram_edges(values: np.ndarray) -> np.ndarray:
    """Edges of bins by the rule of Freedman and Diaconis, but of at most 200 bins."""
    quartiles = np.quantile(values, [0.25, 0.75])
    width = 2 * np.diff(quartiles)[0] / len(values) ** (1 / 3)
    reach = np.ptp(values)
    bins = int(np.ceil(min(reach / width, 200))) if width > 0 else 10
    return np.histogram_bin_edges(values, max(bins, 1))


def _thinned(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many rows, evenly from first to last."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def _known(fit: Fit, name: str) -> str:
    if name not in fit.names:
        raise ValueError(f"There is no parameter {name!r}; there are {', '.join(fit.names[:12])}.")
    return name


def _cycle() -> tuple[str, ...]:
    return (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000") * 5
