"""Pictures of a fit. Each function draws on `ax`, or on a new figure, and returns the Axes.

They need matplotlib.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._text import clean
from .._types import Array, LogDensity
from ..data.boundary import run
from ..data.reading import read, read_or_leave
from ..data.sample import AnySample
from ..data.spaces import space_of
from ..inference.efficiency import Comparison
from ..inference.influence import influence as influence_of
from ..params import unwrap, with_theta
from ..result.fitted import Fit
from .canvas import BLUE, COLOURS, GREY, ORANGE, axes_of, draw_verbatim
from .ranges import histogram_edges, near, thin, wide_grid

__all__ = ["density", "influence", "intervals", "loss", "trace"]


def intervals(fit: Fit, *, alpha: float = 0.05, ax: Any = None) -> Any:
    """Each parameter's estimate and interval.

    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())
    >>> ax = ms.plot.intervals(fit)
    """
    ax = axes_of(ax)
    above = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center"}
    for row, (name, ends) in enumerate(fit.conf_int(alpha).items()):
        estimate = fit.params[name]
        ax.plot(ends, [row, row], color=BLUE, linewidth=2, solid_capstyle="butt")
        ax.plot(estimate, row, "o", color=BLUE, markersize=7)
        ax.annotate(f"{estimate:.4g}", (estimate, row), **above)
    ax.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(fit.names)), [clean(name) for name in fit.names], parse_math=False)
    ax.set_ylim(len(fit.names) - 0.4, -0.6)
    ax.set(xlabel="value", title=f"Estimates with {100 * (1 - alpha):g} % intervals")
    return ax


def trace(fit: Fit, *, ax: Any = None) -> Any:
    """The loss at each step of the search, above the lowest that it reached; the loss itself if there
    are more than 100 steps.

    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), np.array([1.0, 2.0, 6.0]), ms.SM())
    >>> ms.plot.trace(fit).get_xlabel()
    'step'
    """
    ax = axes_of(ax)
    losses = np.asarray(fit.trace)
    steps = np.arange(len(losses))
    if len(losses) > 100:
        ax.plot(thin(steps, 5000), thin(losses, 5000), color=BLUE, linewidth=0.8)
        ax.set_ylabel("loss of the step")
    else:
        above = losses - np.nanmin(losses)
        ax.semilogy(steps[above > 0], above[above > 0], "o-", color=BLUE)
        ax.set_ylabel("loss above the lowest")
    ax.set(xlabel="step", title=fit.solver_kind or "Search")
    return ax


def influence(fit: Fit, x: Any, *, parameter: str | None = None, ax: Any = None) -> Any:
    """The influence function of each parameter against z, for one variable, over a rug of the data.

    Args:
        fit: a fit of one variable.
        x: the sample that was fitted.
        parameter: the name of one parameter; None draws the curves of all.
        ax: the Axes to draw on.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.plot.influence(fit, x).get_xlabel()
    'z'
    """
    _refuse_discrete(fit, "An influence curve")
    data = read(x).on_host()
    if data.shape[1] != 1:
        raise ValueError(
            f"The influence curve is drawn for one variable, but x has {data.shape[1]}."
        )
    ax, seen = axes_of(ax), near(data)[:, 0]
    grid = wide_grid(seen, fit)
    curves = influence_of(fit, x, grid)
    chosen = range(len(fit.names)) if parameter is None else [_index(fit, parameter)]
    for colour, i in zip(COLOURS, chosen, strict=False):
        ax.plot(grid, curves[:, i], color=colour, linewidth=1.8, label=clean(fit.names[i]))
    ax.axhline(0, color=GREY, linewidth=0.8)
    rug = thin(np.sort(seen), 500)
    ax.plot(rug, np.full(len(rug), ax.get_ylim()[0]), "|", color=GREY, markersize=9)
    ax.set(xlabel="z", ylabel="influence of an observation at z", title="Influence function")
    draw_verbatim(ax.legend(frameon=False).get_texts())
    return ax


def density(fit: Fit, x: Any, *, ax: Any = None) -> Any:
    """The data with the fitted density: a histogram in one dimension, contours in two.

    The density is normalised numerically over the range shown. Very distant observations are not
    drawn; the title says how many there are.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.plot.density(fit, x).get_ylabel()
    'density'
    """
    _refuse_discrete(fit, "A density")
    data = read(x).on_host().astype(np.float64)
    if data.shape[1] > 2:
        raise ValueError(
            f"A density is drawn in one or two dimensions, but x has {data.shape[1]} variables."
        )
    ax, seen = axes_of(ax), near(data)
    if data.shape[1] == 1:
        grid, edges = wide_grid(seen[:, 0], fit, 0, 0.3, 1000), histogram_edges(seen[:, 0])
        share = np.histogram(seen[:, 0], edges)[0] / (len(data) * np.diff(edges))
        ax.stairs(share, edges, fill=True, color="0.85", label="data")
        p = _normalise(fit.model, grid[:, None], grid[1] - grid[0])
        ax.plot(grid, p, color=BLUE, linewidth=2, label="fitted")
        ax.set(xlabel="x", ylabel="density")
        ax.legend(frameon=False)
    else:
        first, second = (wide_grid(seen[:, j], fit, j, 0.15, 120) for j in (0, 1))
        points = np.stack(np.meshgrid(first, second), -1).reshape(-1, 2)
        cell = (first[1] - first[0]) * (second[1] - second[0])
        p = _normalise(fit.model, points, cell).reshape(120, 120)
        ax.plot(*thin(seen, 2000).T, ".", color=GREY, markersize=3)
        levels, widths = p.max() * np.array([0.01, 0.1, 0.3, 0.6, 0.9]), np.linspace(0.7, 2.2, 5)
        ax.contour(first, second, p, levels=levels, colors=BLUE, linewidths=widths)
        ax.set(xlabel="x[0]", ylabel="x[1]")
    beyond = f", {len(data) - len(seen)} of them beyond the edges" if len(seen) < len(data) else ""
    ax.set_title(f"{fit.model_name} and {fit.n} observations{beyond}")
    return ax


def loss(
    fit: Fit, x: Any, parameters: tuple[str, ...] | None = None, *, points: int = 31, ax: Any = None
) -> Any:
    """The loss around the estimate as a function of one or two parameters, the others held, with the
    estimate and its intervals.

    For two parameters, colours show the rank of the loss over the grid, because its range is wide.

    Args:
        fit: a fit that converged, with standard errors.
        x: the sample that was fitted.
        parameters: one or two names; None means the first two.
        points: the number of grid points in each direction.
        ax: the Axes to draw on.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    >>> ms.plot.loss(fit, x, ("loc",), points=5).get_xlabel()
    'loc'
    """
    chosen = fit.names[:2] if parameters is None else tuple(parameters)
    indices = [_index(fit, name) for name in chosen]
    if len(chosen) not in (1, 2):
        raise ValueError(f"The loss is drawn over one parameter or two, got {len(chosen)}.")
    ends, wide = fit.conf_int(0.05), fit.conf_int(1e-5)
    if not np.isfinite(list(ends.values())).all():
        raise ValueError(
            f"The loss is drawn around an estimate with standard errors, but there are none. {fit.message}"
        )
    ax = axes_of(ax)
    axes = [np.linspace(*wide[name], points) for name in chosen]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(chosen))
    losses = _losses(fit, x, indices, grid).reshape([points] * len(chosen))
    estimate, spans = [fit.params[name] for name in chosen], [ends[name] for name in chosen]
    draw = _loss_curve if len(chosen) == 1 else _loss_contours
    draw(ax, axes, losses, estimate, spans)
    ax.set(xlabel=clean(chosen[0]), ylabel="loss" if len(chosen) == 1 else clean(chosen[1]))
    draw_verbatim([ax.xaxis.label, ax.yaxis.label])
    ax.set_title("Loss, with the estimate and 95 % intervals")
    return ax


def _loss_curve(ax: Any, axes: list, losses: np.ndarray, estimate: list, ends: list) -> None:
    """The loss over one parameter."""
    ax.plot(axes[0], losses, color=BLUE, linewidth=2)
    ax.axvspan(*ends[0], color=BLUE, alpha=0.12, linewidth=0, label="95 % interval")
    ax.axvline(estimate[0], color=ORANGE, linewidth=1.5, label="estimate")
    ax.legend(frameon=False)


def _loss_contours(ax: Any, axes: list, losses: np.ndarray, estimate: list, ends: list) -> None:
    """The rank of the loss over two parameters."""
    ranks = losses.ravel().argsort().argsort().reshape(losses.shape) / (losses.size - 1)
    ax.contourf(*axes, ranks.T, levels=np.linspace(0, 1, 13) ** 1.5, cmap="cividis")
    ax.plot(ends[0], [estimate[1]] * 2, color="white", linewidth=2)
    ax.plot([estimate[0]] * 2, ends[1], color="white", linewidth=2)
    ax.plot(*estimate, "o", color="white", markeredgecolor="black", markersize=8)


def efficiency(comparison: Comparison, *, ax: Any = None) -> Any:
    """Efficiency against robustness: a point for each estimator that `ms.compare` compared.

    The horizontal axis is the largest influence of a single observation; the grey band on the right
    is for estimators without a limit.
    """
    ax = axes_of(ax)
    rows = {name: row for name, row in comparison.rows.items() if np.isfinite(row.joint)}
    bounded = [row.largest for row in rows.values() if np.isfinite(row.largest)]
    low, high = min(bounded, default=1.0), max(bounded, default=2.0)
    end = high * (high / low) ** 0.35 * 1.3
    ax.axvspan(end / 1.12, end * 1.12, color="0.92", linewidth=0, zorder=0)
    place = {"ha": "center", "va": "bottom", "transform": ax.get_xaxis_transform()}
    ax.text(end, 0.03, "no limit", rotation=90, **place)
    endless = [name for name, row in rows.items() if not np.isfinite(row.largest)]
    beside = 0.06 * (np.arange(len(endless)) - (len(endless) - 1) / 2)
    band = dict(zip(endless, end * (1 + beside), strict=True))
    for colour, marker, (name, row) in zip(COLOURS, "o^sDvPX*" * 5, rows.items(), strict=False):
        at = band.get(name, row.largest)
        ax.plot(at, row.joint, marker, color=colour, markersize=9, linestyle="none", label=name)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if high < 10 * low else "")
    ax.set(ylim=(0, 1.1), ylabel="joint efficiency", title="Efficiency against robustness")
    ax.set_xlabel("largest influence, in efficient standard errors over √n")
    draw_verbatim(ax.legend(frameon=False, loc="lower left").get_texts())
    return ax


def _refuse_discrete(fit: Fit, what: str) -> None:
    space = space_of(fit.model)
    if space.discrete:
        raise TypeError(
            f"{what} is drawn over the reals, but the model lives on {space!r}. "
            "For such a fit, use ms.plot.intervals or ms.plot.loss."
        )


def _losses(
    fit: Fit, x: Any, indices: list[int], values: Float[Array, "k c"]
) -> Float[np.ndarray, " k"]:
    """The loss at each row of values of some parameters, given by index, the others as fitted."""
    x = read_or_leave(x, space_of(fit.model))
    vectors = np.tile(np.asarray(fit.theta), (len(values), 1))
    vectors[:, indices] = values
    ready = fit.discrepancy.ready(fit.model, x)
    return np.asarray(run(_losses_at, (ready, vectors), fit.model, x, often=True))


def _losses_at(tree: tuple, model: LogDensity, sample: AnySample) -> Float[Array, " k"]:
    discrepancy, vectors = tree
    loss_at = lambda vector: discrepancy.loss(unwrap(with_theta(model, vector)), sample)
    return jax.lax.map(loss_at, jnp.asarray(vectors))


def _normalise(model: Any, points: np.ndarray, cell: float) -> np.ndarray:
    """The density at points of a grid, normalised over it; `cell` is the size of a cell."""
    with jax.enable_x64(True):
        log_p = np.asarray(jax.vmap(model)(jnp.asarray(points)), np.float64)
    p = np.exp(log_p - np.nanmax(log_p))
    return p / (np.nansum(p) * cell)


def _index(fit: Fit, name: str) -> int:
    """The index of a parameter, or an error if the fit does not have it."""
    if name not in fit.names:
        raise ValueError(f"There is no parameter {name!r}; there are {', '.join(fit.names[:12])}.")
    return fit.names.index(name)
