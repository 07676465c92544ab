"""Writing a fit to files: the fit itself, its report, its summary and its pictures."""

import warnings
from pathlib import Path
from typing import Any

from . import outputs, screen
from .launching import typed_command
from .presenting import Done, bootstrap_summary
from .problem import Problem


def write(done: Done, *, out: Path | None, report: Path | None, save: Path | None) -> list[Path]:
    """Write every file that was asked for, all or none, and return their paths."""
    wanted = [path for path in (save, report, out) if path is not None]
    if not wanted:
        return []
    with screen.stage("Writing", quiet=done.quiet), outputs.together() as batch:
        if save is not None:
            done.fit.save(batch.beside(save))
        if report is not None:
            _report(done, batch.beside(report))
        if out is not None:
            _directory(done, out, batch)
    return wanted


def _directory(done: Done, out: Path, batch: outputs.Batch) -> None:
    texts = [done.fit.summary(done.alpha)] + (
        [] if done.bootstrap is None else [bootstrap_summary(done)]
    )
    summary, fit, report = (
        batch.beside(out / name) for name in ("summary.txt", "fit.json", "report.html")
    )
    summary.write_text("\n\n".join(map(str, texts)) + "\n", encoding="utf-8")
    done.fit.save(fit)
    _report(done, report)
    for name, picture in _pictures(done).items():
        _draw(picture, batch.beside(out / f"{name}.png"))
    batch.list_sums(out)


def _report(done: Done, path: Path) -> None:
    import minstein as ms

    ms.report(
        done.fit,
        done.data.x,
        path,
        columns=done.data.columns,
        rows=done.data.rows,
        command=typed_command(),
        seed=done.seed,
        bootstrap=done.bootstrap,
        comparison=done.comparison,
        alpha=done.alpha,
        notes=(f"Rows are those of {done.data.name}, the first row of data being 1.",),
    )


_ROWS_FOR_LOSS = 2000
"""The most observations for which the loss is evaluated on a grid, for its picture."""


def _pictures(done: Done) -> dict[str, Any]:
    """Return the pictures that can be drawn of this fit, by name."""
    import numpy as np

    import minstein as ms
    from minstein.data.in_memory import as_rows

    fit, x = done.fit, done.data.x
    certain = bool(fit.converged and np.isfinite(fit.cov_params()).all())
    continuous = not ms.spaces.space_of(fit.model).discrete
    few = fit.n <= _ROWS_FOR_LOSS and as_rows(x).is_here
    names = dict(zip(("xlabel", "ylabel"), done.data.columns, strict=False))
    drawable = {
        "trace": (True, lambda ax: ms.plot.trace(fit, ax=ax)),
        "density": (
            fit.d <= 2 and continuous,
            lambda ax: ms.plot.density(fit, x, ax=ax).set(**names),
        ),
        "intervals": (certain, lambda ax: ms.plot.intervals(fit, alpha=done.alpha, ax=ax)),
        "influence": (
            certain and fit.d == 1 and continuous,
            lambda ax: ms.plot.influence(fit, x, ax=ax),
        ),
        "loss": (certain and few, lambda ax: ms.plot.loss(fit, x, ax=ax)),
    }
    return {name: draw for name, (possible, draw) in drawable.items() if possible}


def _draw(picture: Any, path: Path) -> None:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise Problem(
            "--out draws pictures, which needs matplotlib: pip install 'minstein[plots]'."
        ) from reason
    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        # A name may contain characters that the font lacks.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure = Figure(layout="constrained", dpi=150)
        FigureCanvasAgg(figure)
        picture(figure.add_subplot())
        figure.savefig(path, format="png")
