"""The command `fit`, from a request that has been checked to the files and the status. The data are read before JAX."""

import dataclasses
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from . import cache, data, discrepancy, screen
from . import model as model_of
from .complaint import complain
from .library import resolve
from .presenting import Done, show
from .problem import unknown
from .request import Request
from .writing import write

CONVERGED, NOT_CONVERGED = 0, 1


def run(request: Request) -> int:
    """Fit, print, write; the status with which the command ends."""
    member = request.wanted.member
    part = None if member is None else (member.process, member.processes)
    on_disk = data.stays_on_disk(request.source, request.reading)
    later = on_disk or request.source.startswith("dataset:")
    table = None if later else data.read(request.source, request.reading, part)
    if "jax" not in sys.modules:
        cache.use()
    with screen.stage("Loading JAX", quiet=request.quiet):
        import minstein as ms
    if member is not None:
        ms.join(member.coordinator, member.processes, member.process, wait=member.wait)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = _fitted(request, table or (_on_disk(request) if on_disk else _dataset(request, part)))
    if _is_other(request):
        _elsewhere(done, request)
        return CONVERGED if done.fit.converged else NOT_CONVERGED
    _warn(caught, but=(ms.StatisticWarning, ms.BoundaryWarning))
    show(done, as_json=request.as_json)
    for path in write(done, out=request.out, report=request.report, save=request.save):
        if not request.quiet and not request.as_json:
            print(f"Wrote {path}")
    return CONVERGED if done.fit.converged else NOT_CONVERGED


def _is_other(request: Request) -> bool:
    """Whether this is a process of several, and not the first, which does the talking."""
    return request.wanted.member is not None and request.wanted.member.process > 0


def _elsewhere(done: Done, request: Request) -> None:
    """The same computations as process 0 makes for what it writes, for nothing."""
    with tempfile.TemporaryDirectory() as nowhere:
        kept = lambda path: None if path is None else Path(nowhere) / path.name
        write(done, out=kept(request.out), report=kept(request.report), save=kept(request.save))


def _warn(caught: list[warnings.WarningMessage], *, but: tuple[type[Warning], ...]) -> None:
    """Tell each warning once, but for the kinds that are among the fit's notes, and those meant for programmers."""
    kinds = (UserWarning, RuntimeWarning)
    for text in dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, kinds) and not issubclass(w.category, but)
    ):
        complain("Warning", text)


def _dataset(request: Request, part: tuple[int, int] | None) -> data.Data:
    """Data that ship with minstein."""
    import minstein as ms

    name = request.source.partition(":")[2]
    if name not in ms.datasets.names():
        raise unknown("dataset", name, ms.datasets.names())
    whole = data.from_dataset(ms.datasets.load(name), request.source, request.reading)
    return whole if part is None else whole._replace(x=whole.x[data.share(len(whole.x), part)])


def _on_disk(request: Request) -> data.Data:
    """Rows that stay in their file, checked in one pass."""
    import minstein as ms
    from minstein.sample import read_or_leave

    places, columns = data.places(request.source, request.reading.columns)
    x = ms.OnDisk(request.source, places)
    read_or_leave(x)
    found = x.survey(ms.spaces.REALS)
    data.check_extent(request.source, len(x), columns, found.low, found.high)
    return data.Data(x, columns, request.source)


def _fitted(request: Request, table: data.Data) -> Done:
    import jax

    import minstein as ms

    if request.wanted.member is not None:
        table = _spread(table)
    rows = table.x.impression if isinstance(table.x, ms.OnDisk) else table.x
    start, about_model = model_of.build(request.model, request.values, rows)
    with screen.stage("Designing", quiet=request.quiet or request.wish.goal is None):
        loss, about_loss = discrepancy.build(request.wish, rows, start)
    notes = (*_about(table), *about_model, *about_loss)
    progress = False if request.quiet or _is_other(request) else None
    with screen.stage(f"Fitting {len(table.x)} observations", quiet=request.quiet):
        try:
            fit = ms.fit(start, table.x, loss, solver=_solver(request), key=_key(request), progress=progress)
        except ms.NotConverged as failure:
            fit = failure.fit
    fit = dataclasses.replace(fit, notes=(*notes, *fit.notes))
    found = None
    if request.bootstrap is not None and fit.converged:
        with screen.stage(f"Fitting {request.bootstrap} resampled data sets", quiet=request.quiet):
            key = jax.random.key(request.seed)
            found = ms.bootstrap(fit, table.x, key, replications=request.bootstrap, progress=progress)
    comparison = None
    if request.wish.goal is not None and fit.converged and (request.report or request.out):
        with screen.stage("Comparing discrepancies", quiet=request.quiet):
            comparison = ms.compare(start, table.x)
    return Done(fit, table, found, request.alpha, request.seed, request.quiet, comparison)


def _spread(table: data.Data) -> data.Data:
    """The rows of all processes, and the checks that need them all."""
    import minstein as ms

    x = ms.shard(table.x)
    data.check_extent(table.name, len(x), table.columns, x.min(), x.max())
    return table._replace(x=x)


def _key(request: Request) -> Any:
    """The key of a discrepancy that draws at random."""
    import jax

    return jax.random.key(request.seed) if request.wish.discrepancy == "cd" else None


def _solver(request: Request) -> Any:
    return None if request.solver is None else resolve(request.solver)()


def _about(table: data.Data) -> tuple[str, ...]:
    """Where the coordinates come from."""
    columns = table.columns
    if len(columns) == 1:
        return (f"Data: {table.name}, column {columns[0]}.", *table.notes)
    shown = ", ".join(f"[{i}] {name}" for i, name in enumerate(columns[:20]))
    more = "" if len(columns) <= 20 else f" and {len(columns) - 20} more"
    return (f"Data: {table.name}, columns {shown}{more}.", *table.notes)
