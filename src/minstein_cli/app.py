"""The commands: parse the arguments, call what does the work, and report errors in one message."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from . import pages
from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, MODELS, SOLVERS, Entry, find, names
from .complaint import complain
from .ending import end_on_signal
from .exit_status import BAD_INPUT, CLOSED, INTERRUPTED, LOST
from .launching import Wanted, is_member, look_after, take_part
from .options import FILE, Grouped, Named, every_option
from .problem import Problem, unknown
from .spec import Choice, assignments, box, choose


class Group(click.Group):
    """The commands. Each ends silently if the reader of its output has gone."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes stdout once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(CLOSED)
        except KeyboardInterrupt:  # after the work; click would end with status 1
            ctx.exit(INTERRUPTED)


@contextlib.contextmanager
def report_errors(debug: bool) -> Iterator[None]:
    """Report any error inside in one message, or with its traceback if `debug`."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except BaseException as reason:
        if debug:
            raise
        kind, text, code = _message(reason)
        if not (is_member() and code == INTERRUPTED):  # the launcher has said why
            complain(kind, text)
        raise click.exceptions.Exit(code) from None


def _message(reason: BaseException) -> tuple[str, str, int]:
    """Return the kind of message for an exception, its text, and the exit status."""
    match reason:
        case KeyboardInterrupt(args=(str(text),)):
            return "Interrupted", text, INTERRUPTED
        case KeyboardInterrupt():
            return "Interrupted", "nothing was written.", INTERRUPTED
        case MemoryError():
            return "Error", str(reason) or "There is not enough memory for this.", BAD_INPUT
        case BrokenPipeError():
            raise reason
        case OSError(filename=name, strerror=text) if text:
            return "Error", f"{f'{name}: ' if name else ''}{text}.", BAD_INPUT
        case RuntimeError() if _is_lost_process(reason):
            return "Error", str(reason), LOST
        case Problem() | ValueError() | TypeError() | ImportError():
            return "Error", str(reason), BAD_INPUT
        case Exception():
            return "Error", f"{type(reason).__name__}: {reason} (--debug shows where.)", BAD_INPUT
    raise reason


def _is_lost_process(reason: RuntimeError) -> bool:
    """Whether this is the library's error for a lost process; False if the library is not loaded."""
    library = sys.modules.get("minstein.errors")
    return library is not None and isinstance(reason, library.ProcessLost)


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"minstein {version('minstein')}")
        ctx.exit()


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Status: 0 done, 1 the fit did not converge, 2 bad usage or input, 3 a process of several was lost.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
def app() -> None:
    """Fit statistical models whose density is known only up to a constant, by minimum Stein
    discrepancy.
    """


@app.command(cls=Grouped)
@click.argument("source", metavar="DATA")
@every_option
def fit(source: str, **given: Any) -> None:
    """Fit a model to data and print the estimates with standard errors.

    By default the fit minimises a kernel Stein discrepancy at the scale of the data or, for a
    discrete model, the probability flow. The summary says what was minimised.
    """
    with _as_member(given["debug"]), report_errors(given["debug"]):
        request = _request(source, given)
        request.check()

        if request.wanted.processes is not None and request.wanted.member is None:
            raise click.exceptions.Exit(look_after(request.wanted))

        from . import fitting

        with end_on_signal():
            code = fitting.run(request)
    raise click.exceptions.Exit(code)


def _as_member(debug: bool) -> contextlib.AbstractContextManager:
    """Return a context in which one of several processes does not leave the others waiting."""
    return take_part(debug=debug) if is_member() else contextlib.nullcontext()


def _request(source: str, given: dict[str, Any]) -> Any:
    """Return the request that the options make, after checking each of them on its own."""
    from .data import Reading
    from .discrepancy import wish
    from .model import Values
    from .request import Request

    pick = lambda *names: {name: given[name] for name in names}
    _check_alpha(given["alpha"])
    return Request(
        source=source,
        reading=Reading(
            **pick("columns", "header", "delimiter", "decimal", "drop_missing", "on_disk")
        ),
        model=choose("model", given["model"], MODELS),
        values=Values(
            settings=assignments("--set", given["set"]),
            fixed=assignments("--fix", given["fix"]),
            starts=assignments("--start", given["start"]),
            positive=_split_names(given["positive"]),
        ),
        wish=wish(
            **pick("discrepancy", "kernel", "lengthscale", "diffusion", "statistic"),
            goal=_goal(given["goal"], given["robust"]),
        ),
        wanted=Wanted(**pick("processes", "coordinator", "process_id")),
        solver=_solver(given["solver"]),
        support=None if given["space"] is None else box(given["space"]),
        as_json=given["json"],
        **pick("alpha", "bootstrap", "seed", "out", "report", "save", "quiet"),
    )


def _goal(goal: str | None, robust: bool) -> str | None:
    """Return the goal of the design; --robust is short for --goal robust."""
    if robust and goal == "efficient":
        raise Problem(
            "--robust means --goal robust, so it cannot be combined with --goal efficient."
        )
    return "robust" if robust else goal


def _split_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return ('a', 'b', 'c') for ('a,b', 'c')."""
    return tuple(name.strip() for text in texts for name in text.split(","))


def _solver(text: str | None) -> Entry | None:
    if text is None:
        return None
    choice = choose("solver", text, SOLVERS)
    if not isinstance(choice, Choice) or choice.arguments:
        raise Problem(f"--solver must be one of {', '.join(names(SOLVERS))}, got {text!r}.")
    return choice.entry


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise Problem(
            f"--alpha must lie between 0 and 1, got {alpha:g}. For intervals of 95 % use --alpha 0.05."
        )


_debug = click.option("--debug", is_flag=True, help="Show the traceback of an error.")


@app.command()
@click.argument("file", metavar="FIT", type=FILE)
@click.option(
    "--alpha", type=float, default=0.05, show_default=True, help="Intervals have level 1 − alpha."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown", "latex", "html"]), default="text"
)
@_debug
def show(file: Path, alpha: float, form: str, debug: bool) -> None:
    """Print the summary of FIT, a file written by minstein fit --save. Nothing in it is executed."""
    from . import saved

    with report_errors(debug):
        _check_alpha(alpha)
        saved.show(file, alpha, form)


@app.command()
@click.argument("files", metavar="FIT...", type=FILE, nargs=-1, required=True)
@_debug
def compare(files: tuple[Path, ...], debug: bool) -> None:
    """Print saved fits side by side."""
    from . import saved

    with report_errors(debug):
        saved.compare(list(files))


def _add_listing(kind: str, entries: tuple[Entry, ...], note: str) -> None:
    """Add a command that lists the entries of a catalogue, or describes one of them."""

    @app.command(
        name=f"{kind}s", help=f"List the names for --{kind}, or the parameters of one NAME."
    )
    @click.argument("name", required=False, type=Named(entries))
    def show_entries(name: str | None) -> None:
        from . import screen

        with report_errors(False):
            if name is None:
                screen.entries(entries, note)
                return
            found = find(entries, name)
            if found is None:
                raise unknown(kind, name, names(entries))
            screen.entry(found)


_add_listing(
    "model",
    MODELS,
    "A parameter with a value is held at that value, unless --start is given, which fits it.",
)
_add_listing(
    "kernel", KERNELS, "Arguments: --kernel imq:beta=-0.9. The scale comes from --lengthscale."
)
_add_listing(
    "diffusion", DIFFUSIONS, "Arguments: --diffusion decay:2, or decay:2,centre=0,scale=1."
)


@app.command()
def discrepancies() -> None:
    """List the names for --discrepancy."""
    from . import screen

    note = "All have standard errors except cd, which has them only with --bootstrap.\n"
    screen.entries(
        DISCREPANCIES,
        f"{note}--goal robust is dksd with a diffusion that vanishes far from the data.",
    )


@app.command()
@_debug
def datasets(debug: bool) -> None:
    """List the data that ship with minstein."""
    from . import saved

    with report_errors(debug):
        saved.datasets()


class _Page(click.ParamType):
    """The name of a page, which the shell completes."""

    name = "page"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in pages.names() if name.startswith(incomplete)]


@app.command(name="help")
@click.argument("page", required=False, type=_Page())
def show_page(page: str | None) -> None:
    """Print a PAGE of the documentation, or list the pages."""
    with report_errors(False):
        pages.show(page)


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: eval "$(minstein completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(app, {}, "minstein", "_MINSTEIN_COMPLETE").source())
