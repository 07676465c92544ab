"""A fit as files: the fit itself, its report, its summary and its pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import outputs, screen
from .launching import typed
from .presenting import Done, bootstrap_summary
from .problem import Problem


def write(done: Done, *, out: Path | None, report: Path | None, save: Path | None) -> list[Path]:
    """Every file that was asked for, all or none."""
    wanted = [path for path in (save, report, out) if path is not None]
    if not wanted:
        return []
    with screen.stage("Writing", quiet=done.quiet), outputs.together() as beside:
        if save is not None:
            done.fit.save(beside(save))
        if report is not None:
            _report(done, beside(report))
        if out is not None:
            _directory(done, out, beside)
    return wanted


def _directory(done: Done, out: Path, beside: Callable[[Path], Path]) -> None:
    texts = [done.fit.summary(done.alpha)] + ([] if done.bootstrap is None else [bootstrap_summary(done)])
    beside(out / "summary.txt").write_text("\n\n".join(map(str, texts)) + "\n", encoding="utf-8")
    done.fit.save(beside(out / "fit.json"))
    _report(done, beside(out / "report.html"))
    for name, picture in _pictures(done).items():
        _draw(picture, beside(out / f"{name}.png"))


def _report(done: Done, path: Path) -> None:
    import minstein as ms

    ms.report(
        done.fit,
        done.data.x,
        path,
        columns=done.data.columns,
        command=typed(),
        seed=done.seed,
        bootstrap=done.bootstrap,
        comparison=done.comparison,
        alpha=done.alpha,
    )


_ROWS_FOR_LOSS = 2000
"""Observations up to which the loss is evaluated on a grid, for its picture."""


def _pictures(done: Done) -> dict[str, Any]:
    """The pictures that this fit has."""
    import numpy as np

    import minstein as ms

    fit, x = done.fit, done.data.x
    certain = fit.converged and np.isfinite(fit.cov_params()).all()
    pictures = {"trace": lambda ax: ms.plot.trace(fit, ax=ax)}
    discrete = ms.spaces.space_of(fit.model).discrete
    if fit.d <= 2 and not discrete:
        names = dict(zip(("xlabel", "ylabel"), done.data.columns, strict=False))
        pictures["density"] = lambda ax: ms.plot.density(fit, x, ax=ax).set(**names)
    if certain:
        pictures["intervals"] = lambda ax: ms.plot.intervals(fit, alpha=done.alpha, ax=ax)
    if certain and fit.d == 1 and not discrete:
        pictures["influence"] = lambda ax: ms.plot.influence(fit, x, ax=ax)
    if certain and fit.n <= _ROWS_FOR_LOSS and not isinstance(x, ms.Sharded):
        pictures["loss"] = lambda ax: ms.plot.loss(fit, x, ax=ax)
    return pictures


def _draw(picture: Any, path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise Problem("--out draws pictures, which needs matplotlib: pip install 'minstein[plots]'.") from reason
    figure = Figure(layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    picture(figure.add_subplot())
    figure.savefig(path, format="png")
