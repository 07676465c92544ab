"""The commands: parse, hand on, and tell what went wrong in one message."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from minstein_paper.catalogue import NAMES as EXPERIMENTS

from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, MODELS, SOLVERS, Entry, find, names
from .complaint import complain
from .launching import LOST, Wanted, is_member, look_after, taking_part
from .options import FILE, Grouped, Named, every_option
from .problem import Problem, unknown
from .spec import Choice, assignments, choose

BAD_INPUT, INTERRUPTED = 2, 130


@contextlib.contextmanager
def reported(debug: bool) -> Iterator[None]:
    """Whatever goes wrong inside is told in one message, or by its traceback."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except BaseException as reason:
        if debug:
            raise
        kind, text, code = _told(reason)
        if not (is_member() and code == INTERRUPTED):  # who looks after this process has said why
            complain(kind, text)
        raise click.exceptions.Exit(code) from None


def _told(reason: BaseException) -> tuple[str, str, int]:
    match reason:
        case KeyboardInterrupt(args=(str(text),)):
            return "Interrupted", text, INTERRUPTED
        case KeyboardInterrupt():
            return "Interrupted", "nothing was written.", INTERRUPTED
        case MemoryError():
            return "Error", "There is not enough memory for this.", BAD_INPUT
        case BrokenPipeError():
            raise reason
        case OSError(filename=name, strerror=text) if text:
            return "Error", f"{f'{name}: ' if name else ''}{text}.", BAD_INPUT
        case RuntimeError() if type(reason).__name__ == "ProcessLost":
            return "Error", str(reason), LOST
        case Problem() | ValueError() | TypeError() | ImportError():
            return "Error", str(reason), BAD_INPUT
        case Exception():
            return "Error", f"{type(reason).__name__}: {reason} (--debug shows where.)", BAD_INPUT
    raise reason


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"minstein {version('minstein')}")
        ctx.exit()


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Status: 0 done, 1 the fit did not converge, 2 bad usage or input, 3 a process of several was lost.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def app() -> None:
    """Fit statistical models known only up to a constant, by minimum Stein discrepancy."""


@app.command(cls=Grouped)
@click.argument("source", metavar="DATA")
@every_option
def fit(source: str, **given: Any) -> None:
    """Fit a model to data and print the estimates with standard errors.

    With nothing but data and a model it minimises a kernel Stein discrepancy at the scale of the data, or the
    probability flow of a discrete model, and says so.
    """
    with _as_member(given["debug"]), reported(given["debug"]):
        request = _request(source, given)
        request.check()

        if request.wanted.processes is not None and request.wanted.member is None:
            raise click.exceptions.Exit(look_after(request.wanted))

        from . import fitting

        code = fitting.run(request)
    raise click.exceptions.Exit(code)


def _as_member(debug: bool) -> contextlib.AbstractContextManager:
    """Where this is one of several processes, what becomes of it when it fails."""
    return taking_part(debug=debug) if is_member() else contextlib.nullcontext()


def _request(source: str, given: dict[str, Any]) -> Any:
    """The options, read and checked one by one."""
    from .data import Reading
    from .discrepancy import wish
    from .model import Values
    from .request import Request

    _check_alpha(given["alpha"])
    asked = ("discrepancy", "kernel", "lengthscale", "diffusion", "statistic")
    if given["robust"] and given["goal"] == "efficient":
        raise Problem("--robust is --goal robust, which is not --goal efficient: an estimate cannot have both.")
    goal = "robust" if given["robust"] else given["goal"]
    return Request(
        source=source,
        reading=Reading(
            *(given[name] for name in ("columns", "header", "delimiter", "decimal", "drop_missing", "on_disk"))
        ),
        model=choose("model", given["model"], MODELS),
        values=Values(*(assignments(f"--{name}", given[name]) for name in ("set", "fix", "start"))),
        wish=wish(**{name: given[name] for name in asked}, goal=goal),
        wanted=Wanted(given["processes"], given["coordinator"], given["process_id"]),
        solver=None if given["solver"] is None else _solver(given["solver"]),
        as_json=given["json"],
        **{name: given[name] for name in ("alpha", "bootstrap", "seed", "out", "report", "save", "quiet")},
    )


def _solver(text: str) -> Entry:
    choice = choose("solver", text, SOLVERS)
    if not isinstance(choice, Choice) or choice.arguments:
        raise Problem(f"--solver must be one of {', '.join(names(SOLVERS))}, got {text!r}.")
    return choice.entry


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise Problem(f"--alpha must lie between 0 and 1, got {alpha:g}. Intervals of 95 % have --alpha 0.05.")


_debug = click.option("--debug", is_flag=True, help="Show the traceback of an error.")


@app.command()
@click.argument("file", metavar="FIT", type=FILE)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Intervals have level 1 − alpha.")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "latex", "html"]), default="text")
@_debug
def show(file: Path, alpha: float, form: str, debug: bool) -> None:
    """Print the summary of FIT, a file that minstein fit --save wrote. Nothing in the file is executed."""
    from . import saved

    with reported(debug):
        _check_alpha(alpha)
        saved.show(file, alpha, form)


@app.command()
@click.argument("files", metavar="FIT...", type=FILE, nargs=-1, required=True)
@_debug
def compare(files: tuple[Path, ...], debug: bool) -> None:
    """Print saved fits side by side."""
    from . import saved

    with reported(debug):
        saved.compare(list(files))


def _listing(kind: str, entries: tuple[Entry, ...], note: str) -> None:
    """Add a command that lists what can be named, or tells about one of them."""

    @app.command(name=f"{kind}s", help=f"List what --{kind} knows, or the parameters of one NAME.")
    @click.argument("name", required=False, type=Named(entries))
    def listed(name: str | None) -> None:
        from . import screen

        with reported(False):
            if name is None:
                screen.entries(entries, note)
                return
            found = find(entries, name)
            if found is None:
                raise unknown(kind, name, names(entries))
            screen.entry(found)


_listing("model", MODELS, "A parameter with a value is held at it, unless --start says to fit it.")
_listing("kernel", KERNELS, "Arguments: --kernel imq:beta=-0.9. The scale comes from --lengthscale.")
_listing("diffusion", DIFFUSIONS, "Arguments: --diffusion decay:2, or decay:2,centre=0,scale=1.")


@app.command()
def discrepancies() -> None:
    """List what --discrepancy knows."""
    from . import screen

    note = "All have standard errors but cd, which has them from --bootstrap.\n"
    screen.entries(DISCREPANCIES, f"{note}--goal robust is dksd with a redescending diffusion.")


@app.command()
@_debug
def datasets(debug: bool) -> None:
    """List the data that ship with minstein."""
    from . import saved

    with reported(debug):
        saved.datasets()


@app.command()
@click.argument("experiment", type=click.Choice([*EXPERIMENTS, "all", "list"]), metavar="EXPERIMENT|all|list")
@click.option("--out", type=FILE, help="The directory for figures, tables and the page; needed unless listing.")
@click.option("--quick/--full", default=True, help="A few minutes for all, or enough replications for publication.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The source of randomness.")
@click.option("--jobs", type=click.IntRange(min=1), help="Experiments at a time; one for each processor by default.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@_debug
def paper(
    experiment: str, out: Path | None, quick: bool, seed: int, jobs: int | None, quiet: bool, debug: bool
) -> None:
    """Reproduce the experiments of the paper: figures, tables, and each claim with its verdict.

    What was interrupted goes on where it stopped when the same command is given again.
    """
    from . import paper as reproduction

    with reported(debug):
        if experiment == "list":
            reproduction.listing()
        elif out is None:
            raise Problem("--out is missing: the directory for figures, tables and the page, such as --out paper.")
        else:
            reproduction.run(experiment, out, full=not quick, seed=seed, jobs=jobs, quiet=quiet)


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: eval "$(minstein completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(app, {}, "minstein", "_MINSTEIN_COMPLETE").source())
