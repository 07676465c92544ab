"""A fit as a page to read, print and pass on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._files import replacing
from ..inference.bootstrap import Bootstrap
from ..inference.efficiency import Comparison
from ..result.fitted import Fit
from .evidence import gather
from .page import page


def report(
    fit: Fit,
    x: Any,
    path: str | Path | None = None,
    *,
    columns: Sequence[str] | None = None,
    rows: Any = None,
    title: str | None = None,
    command: str | None = None,
    seed: int | None = None,
    bootstrap: Bootstrap | None = None,
    comparison: Comparison | None = None,
    alpha: float = 0.05,
    notes: Sequence[str] = (),
) -> str:
    """A fit as one HTML file: estimates, pictures, influential observations, warnings, and how to
    reproduce it.

    The page needs no network and runs no script. The same arguments give the same page.

    Args:
        fit: the fit, whether it converged or not.
        x: the sample that was fitted, because a fit holds no data.
        path: where to write the page; None writes nothing.
        columns: the names of the columns of x; None means those of a data frame.
        rows: the number of each row of x in its source, if some rows were left out; None counts
            them from 0.
        title: the heading.
        command: the command that reproduces the fit.
        seed: the seed that was used, if any.
        bootstrap: what `ms.bootstrap` returned, to be shown beside the standard errors.
        comparison: what `ms.compare` returned, to be shown with a picture.
        alpha: intervals are of level 1 − alpha.
        notes: further notes for the reader.

    >>> x = ms.datasets.load("newcomb").x
    >>> fit = ms.fit(ms.models.Gaussian(0.0, 1.0), x, ms.SM())
    >>> page = ms.report(fit, x, columns=["passage time (ns)"], title="The speed of light")
    >>> page[:15], "<title>The speed of light</title>" in page
    ('<!doctype html>', True)
    """
    evidence = gather(fit, x, columns, rows, alpha, bootstrap, comparison)
    text = page(evidence, title=title, command=command, seed=seed, notes=tuple(notes))
    if path is not None:
        with replacing(path) as file:
            file.write(text.encode())
    return text
