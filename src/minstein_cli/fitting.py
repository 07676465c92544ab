"""The command `fit`, from a request that has been checked to the files and the exit status.

Data in memory are read before JAX is loaded.
"""

import dataclasses
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from . import agreement, cache, checks, data, discrepancy, screen
from . import model as model_of
from .complaint import complain
from .exit_status import CONVERGED, NOT_CONVERGED
from .library import resolve
from .plain import plain
from .presenting import Done, show
from .problem import unknown
from .request import Request
from .writing import write


def run(request: Request) -> int:
    """Fit the model, print and write the results, and return the exit status."""
    table = _read_file(request)
    _load_jax(request)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = _fit(request, table if table is not None else _read_by_library(request))
    if _is_other(request):
        _repeat_writing(done, request)
    else:
        _warn(caught)
        _present(done, request)
    return CONVERGED if done.fit.converged else NOT_CONVERGED


def _read_file(request: Request) -> data.Data | None:
    """Return the data of a file that is read as a whole, or None for data that the library reads."""
    on_disk = data.stays_on_disk(request.source, request.reading)
    if on_disk or data.dataset_name(request.source) is not None:
        return None
    return data.read(request.source, request.reading, request.wanted.part)


def _load_jax(request: Request) -> None:
    """Import the library, with its cache, and join the other processes if there are any."""
    if "jax" not in sys.modules and (doubt := cache.use()):
        complain("Warning", doubt)
    with screen.stage("Loading JAX", quiet=request.quiet):
        import minstein as ms
    member = request.wanted.member
    if member is not None:
        ms.join(member.coordinator, member.processes, member.process, wait=member.wait)


def _read_by_library(request: Request) -> data.Data:
    """Return data that ship with minstein, or rows that stay in their file."""
    name = data.dataset_name(request.source)
    return _on_disk(request) if name is None else _dataset(request, name)


def _is_other(request: Request) -> bool:
    """Whether this is one of several processes but not the first, which prints and writes."""
    return request.wanted.member is not None and request.wanted.member.process > 0


def _repeat_writing(done: Done, request: Request) -> None:
    """Take part in what process 0 computes for its files, and discard the files."""
    with tempfile.TemporaryDirectory() as nowhere:
        kept = lambda path: None if path is None else Path(nowhere) / path.name
        write(done, out=kept(request.out), report=kept(request.report), save=kept(request.save))


def _present(done: Done, request: Request) -> None:
    """Print the fit and write the files that were asked for."""
    try:
        show(done, as_json=request.as_json)
    finally:  # the files are written even if nobody reads what is printed
        written = write(done, out=request.out, report=request.report, save=request.save)
    if not request.quiet and not request.as_json:
        for path in written:
            print(plain(f"Wrote {path}"))


def _warn(caught: list[warnings.WarningMessage]) -> None:
    """Print each warning once, except those that are among the notes of the fit or are meant for
    programmers.
    """
    import minstein as ms

    among_notes = (ms.StatisticWarning, ms.BoundaryWarning)
    kinds = (UserWarning, RuntimeWarning)
    for text in dict.fromkeys(
        str(w.message)
        for w in caught
        if issubclass(w.category, kinds) and not issubclass(w.category, among_notes)
    ):
        complain("Warning", text)


def _dataset(request: Request, name: str) -> data.Data:
    """Return data that ship with minstein, or this process's share of them."""
    import minstein as ms

    if name not in ms.datasets.names():
        raise unknown("dataset", name, ms.datasets.names())
    whole = data.from_dataset(ms.datasets.load(name), request.source, request.reading)
    part = request.wanted.part
    return whole if part is None else data.take_share(whole, part)


def _on_disk(request: Request) -> data.Data:
    """Return rows that stay in their file, after checking them in one pass."""
    import minstein as ms
    from minstein.data.reading import read_or_leave

    places, columns = data.places(request.source, request.reading.columns)
    x = ms.OnDisk(request.source, places)
    read_or_leave(x)
    found = x.survey(ms.spaces.REALS)
    checks.check_extent(request.source, len(x), columns, found.low, found.high)
    return data.Data(x, columns, request.source)


def _fit(request: Request, table: data.Data) -> Done:
    """Return the fit and what else was asked for, such as the bootstrap."""
    from minstein.data.in_memory import as_rows

    if request.wanted.member is not None:
        agreement.check(request)
        table = _spread(table)
    rows = as_rows(table.x).at_hand.plain
    start, about_model = model_of.build(request.model, request.values, rows, _row_names(table))
    with screen.stage("Designing", quiet=request.quiet or request.wish.goal is None):
        loss, about_loss = discrepancy.build(request.wish, rows, start, request.support)
    fit = _minimise(request, start, table.x, loss)
    fit = dataclasses.replace(fit, notes=(*_about(table), *about_model, *about_loss, *fit.notes))
    return Done(
        fit,
        table,
        _bootstrap(request, fit, table.x),
        request.alpha,
        request.seed,
        request.quiet,
        _comparison(request, fit, start, table.x),
    )


def _minimise(request: Request, start: Any, x: Any, loss: Any) -> Any:
    """Return the fit, whether it converged or not."""
    import minstein as ms

    with screen.stage(f"Fitting {len(x)} observations", quiet=request.quiet):
        try:
            return ms.fit(
                start,
                x,
                loss,
                solver=_solver(request),
                support=request.support,
                key=_key(request),
                progress=_progress(request),
            )
        except ms.NotConverged as failure:
            return failure.fit


def _bootstrap(request: Request, fit: Any, x: Any) -> Any:
    """Return estimates from resampled data, or None if not asked for or if the fit failed."""
    if request.bootstrap is None or not fit.converged:
        return None
    import jax

    import minstein as ms

    key, count = jax.random.key(request.seed), request.bootstrap
    with screen.stage(f"Fitting {count} resampled data sets", quiet=request.quiet):
        return ms.bootstrap(fit, x, key, replications=count, progress=_progress(request))


def _comparison(request: Request, fit: Any, start: Any, x: Any) -> Any:
    """Return a comparison of the design with other discrepancies, or None if there is no report."""
    if request.wish.goal is None or not fit.converged or not (request.report or request.out):
        return None
    import minstein as ms

    with screen.stage("Comparing discrepancies", quiet=request.quiet):
        return ms.compare(start, x, at=fit, support=request.support)


def _progress(request: Request) -> bool | None:
    """Return False for no progress bar, or None for one if the computation takes long."""
    return False if request.quiet or _is_other(request) else None


def _row_names(table: data.Data) -> Any:
    """Return the number in the file of each row, or None if not all rows are in this process."""
    from minstein.data.in_memory import as_rows

    return table.rows if as_rows(table.x).is_here else None


def _spread(table: data.Data) -> data.Data:
    """Return the rows of all processes, after the checks that need all of them."""
    import minstein as ms

    x = ms.shard(table.x)
    checks.check_extent(table.name, len(x), table.columns, x.min(), x.max())
    kept = None if table.kept is None else ms.shard(table.kept.astype(float)).on_host()[:, 0] > 0
    return table._replace(x=x, kept=kept)


def _key(request: Request) -> Any:
    """Return the key of a discrepancy that draws at random, or None for any other."""
    import jax

    return jax.random.key(request.seed) if request.wish.discrepancy == "cd" else None


def _solver(request: Request) -> Any:
    return None if request.solver is None else resolve(request.solver)()


def _about(table: data.Data) -> tuple[str, ...]:
    """Return notes on the data: their file and columns."""
    columns = table.columns
    if len(columns) == 1:
        return (f"Data: {table.name}, column {columns[0]}.", *table.notes)
    shown = ", ".join(f"[{i}] {name}" for i, name in enumerate(columns[:20]))
    more = "" if len(columns) <= 20 else f" and {len(columns) - 20} more"
    return (f"Data: {table.name}, columns {shown}{more}.", *table.notes)
