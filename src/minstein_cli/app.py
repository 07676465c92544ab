"""The commands: parse, hand on, and tell what went wrong in one message."""

import contextlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from . import options as opt
from . import screen
from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, MODELS, SOLVERS, Entry, names
from .problem import Problem
from .spec import Choice, assignments, choose

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Fit statistical models known only up to a constant, by minimum Stein discrepancy.",
    epilog="Status: 0 done, 1 the fit did not converge, 2 bad usage or input.",
)

BAD_INPUT, INTERRUPTED = 2, 130


@contextlib.contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Whatever goes wrong inside is told in one message, or by its traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as reason:
        if debug:
            raise
        kind, text, code = _told(reason)
        screen.complain(kind, text)
        raise typer.Exit(code) from None


def _told(reason: BaseException) -> tuple[str, str, int]:
    match reason:
        case KeyboardInterrupt():
            return "Interrupted", "nothing was written.", INTERRUPTED
        case MemoryError():
            return "Error", "There is not enough memory for this.", BAD_INPUT
        case OSError(filename=name, strerror=text) if text:
            return "Error", f"{f'{name}: ' if name else ''}{text}. Nothing was written.", BAD_INPUT
        case Problem() | ValueError() | TypeError() | ImportError():
            return "Error", str(reason), BAD_INPUT
        case Exception():
            return "Error", f"{type(reason).__name__}: {reason} (--debug shows where.)", BAD_INPUT
    raise reason


def _version(value: bool) -> None:
    if value:
        print(f"minstein {version('minstein')}")
        raise typer.Exit


@app.callback()
def _main(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def fit(
    source: opt.Source,
    columns: opt.Columns = None,
    header: opt.Header = None,
    delimiter: opt.Delimiter = None,
    decimal: opt.Decimal = ".",
    drop_missing: opt.DropMissing = False,
    *,
    model: opt.Model,
    settings: opt.Settings = None,
    fixed: opt.Fixed = None,
    starts: opt.Starts = None,
    discrepancy: opt.Discrepancy = None,
    kernel: opt.Kernel = None,
    lengthscale: opt.Lengthscale = None,
    diffusion: opt.Diffusion = None,
    statistic: opt.Statistic = None,
    robust: opt.Robust = False,
    solver: opt.Solver = None,
    alpha: opt.Alpha = 0.05,
    bootstrap: opt.Bootstrap = None,
    seed: opt.Seed = 0,
    out: opt.Out = None,
    report: opt.Report = None,
    save: opt.Save = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Fit a model to data and print the estimates with standard errors.

    With nothing but data and a model it minimises a kernel Stein discrepancy at the scale of the data, and says so.
    """
    from . import fitting
    from .data import Reading
    from .discrepancy import wish
    from .model import Values

    with reported(debug):
        _check_alpha(alpha)
        request = fitting.Request(
            source=source,
            reading=Reading(tuple(columns or ()), header, delimiter, decimal, drop_missing),
            model=choose("model", model, MODELS),
            values=Values(assignments("--set", settings), assignments("--fix", fixed), assignments("--start", starts)),
            wish=wish(discrepancy, kernel, lengthscale, diffusion, statistic, robust),
            solver=None if solver is None else _solver(solver),
            alpha=alpha,
            bootstrap=bootstrap,
            seed=seed,
            out=out,
            report=report,
            save=save,
            as_json=as_json,
            quiet=quiet,
        )
        code = fitting.run(request)
    raise typer.Exit(code)


def _solver(text: str) -> Entry:
    choice = choose("solver", text, SOLVERS)
    if not isinstance(choice, Choice) or choice.arguments:
        raise Problem(f"--solver must be one of {', '.join(names(SOLVERS))}, got {text!r}.")
    return choice.entry


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise Problem(f"--alpha must lie between 0 and 1, got {alpha:g}. Intervals of 95 % have --alpha 0.05.")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FIT", help="A file that minstein fit --save wrote.")],
    alpha: Annotated[float, typer.Option(metavar="NUMBER", help="Intervals have level 1 − ALPHA.")] = 0.05,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text, markdown, latex or html.")] = "text",
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Print the summary of a saved fit. Nothing in the file is executed."""
    from . import saved

    with reported(debug):
        _check_alpha(alpha)
        saved.show(file, alpha, form)


@app.command()
def compare(
    files: Annotated[list[Path], typer.Argument(metavar="FIT…", help="Files that minstein fit --save wrote.")],
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Print saved fits side by side."""
    from . import saved

    with reported(debug):
        saved.compare(files)


@app.command()
def models() -> None:
    """List the families that --model knows."""
    screen.entries(
        MODELS, "Held parameters are set with --set and fitted with --start. Your own: --model file.py:name."
    )


@app.command()
def kernels() -> None:
    """List the kernels that --kernel knows."""
    screen.entries(KERNELS, "Arguments: --kernel imq:beta=-0.9. The scale comes from --lengthscale.")


@app.command()
def discrepancies() -> None:
    """List the discrepancies that --discrepancy knows."""
    screen.entries(DISCREPANCIES, "--robust is dksd with a redescending diffusion and a wide kernel.")


@app.command()
def diffusions() -> None:
    """List the diffusions that --diffusion knows."""
    screen.entries(DIFFUSIONS, "Arguments by position or name: --diffusion decay:2 or decay:2,centre=0,scale=1.")


@app.command()
def datasets(debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False) -> None:
    """List the data that ship with minstein."""
    from . import saved

    with reported(debug):
        saved.datasets()
