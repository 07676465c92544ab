"""The commands that only display: show, compare, datasets."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from . import screen
from .problem import Problem

_FORMATS = {"text": None, "markdown": "to_markdown", "latex": "to_latex", "html": "to_html"}


def show(path: Path, alpha: float, form: str) -> None:
    """Print the summary of a saved fit."""
    summary = _load([path])[0].summary(alpha)
    method = _FORMATS[form]
    if method is None:
        screen.summary(summary)
    else:
        print(getattr(summary, method)())


def compare(paths: list[Path]) -> None:
    """Print estimates with standard errors, one column for each fit."""
    if len(paths) < 2:
        raise Problem("A comparison needs at least two fits.")
    fits = _load(paths)
    names = dict.fromkeys(name for fit in fits for name in fit.names)
    cells = {name: partial(_estimate, name=name) for name in names}
    rows = [(title, list(map(cell, fits))) for title, cell in {**cells, **_FACTS}.items()]
    screen.side_by_side(_short(paths), rows, _caveats(fits))


def _load(paths: list[Path]) -> list[Any]:
    for path in paths:
        if not path.is_file():
            raise Problem(f"There is no file {path}.")
    with screen.stage("Loading JAX", quiet=False):
        import minstein as ms
    return [ms.load(path) for path in paths]


def _short(paths: list[Path]) -> list[str]:
    """Return the names of the files, with their directories if the names are not distinct."""
    return [
        path.stem if [p.stem for p in paths].count(path.stem) == 1 else str(path) for path in paths
    ]


def _estimate(fit: Any, name: str) -> str:
    if name not in fit.names:
        return "–"
    error = fit.bse[name]
    return f"{fit.params[name]:.4g}" + ("" if error != error else f" ({error:.2g})")


def _discrepancy(fit: Any) -> str:
    """Return 'KSD', 'SM', 'DKSD, Redescending' or similar."""
    import minstein as ms
    from minstein.stein.diffusions import Constant

    discrepancy = fit.discrepancy
    name, diffusion = type(discrepancy).__name__, getattr(discrepancy, "diffusion", None)
    if diffusion is None:
        return name
    if isinstance(diffusion, Constant):
        return {ms.DKSD: "KSD", ms.DSM: "SM"}.get(type(discrepancy), name)
    return f"{name}, {type(getattr(diffusion, 'field', diffusion)).__name__}"


_FACTS: dict[str, Callable[[Any], str]] = {
    "model": lambda fit: fit.model_name,
    "discrepancy": _discrepancy,
    "loss": lambda fit: f"{float(fit.loss):.4g}",
    "n": lambda fit: str(fit.n),
    "converged": lambda fit: "yes" if fit.converged else "no",
}
"""What is compared besides the estimates."""


def _caveats(fits: list[Any]) -> list[str]:
    import equinox as eqx

    notes = ["Standard errors are in brackets."]
    # Other machines round differently, so that the last digits need not agree.
    if not eqx.tree_equal(*(fit.discrepancy for fit in fits), rtol=1e-6):
        notes.append("The discrepancies differ, so the losses cannot be compared.")
    if len({(fit.n, fit.d) for fit in fits}) > 1:
        notes.append("The fits are not of the same data.")
    return notes


def datasets() -> None:
    """Print a list of the data that ship with minstein."""
    with screen.stage("Loading JAX", quiet=False):
        import minstein as ms
    found = {name: ms.datasets.load(name) for name in ms.datasets.names()}
    rows = [(name, *map(str, data.x.shape), data.description) for name, data in found.items()]
    screen.listing(("name", "rows", "columns", "what was measured"), rows)
