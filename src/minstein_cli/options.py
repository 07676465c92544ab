"""The options of `minstein fit`, in the order in which the help shows them."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, MODELS, SOLVERS, Entry, names

DATA, MODEL, LOSS, ERRORS, OUTPUT = "Data", "Model", "Discrepancy", "Uncertainty", "Output"


def _completed(entries: tuple[Entry, ...]) -> Any:
    return lambda incomplete: [(entry.name, entry.line) for entry in entries if entry.name.startswith(incomplete)]


def _of(entries: tuple[Entry, ...]) -> str:
    return ", ".join(names(entries))


Source = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A CSV, Parquet or .npy file with a row for each observation; - for CSV on stdin; or dataset:NAME.",
    ),
]
Columns = Annotated[
    list[str] | None,
    Option("--columns", "-c", metavar="A,B,…", help="Columns, by name or number. Default: all.", rich_help_panel=DATA),
]
Header = Annotated[
    bool | None,
    Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file has names. Default: found out.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Delimiter = Annotated[
    str | None,
    Option(metavar="CHAR", help="What separates columns in a CSV file. Default: found out.", rich_help_panel=DATA),
]
Decimal = Annotated[
    str, Option(metavar="CHAR", help="The decimal point in a CSV file.", show_default=False, rich_help_panel=DATA)
]
DropMissing = Annotated[
    bool, Option("--drop-missing", help="Leave out rows with missing values.", rich_help_panel=DATA)
]

Model = Annotated[
    str,
    Option(
        "--model",
        "-m",
        metavar="NAME",
        help=f"A family: {_of(MODELS)}; or your own, as path/to/file.py:name or package.module:name. Your own is a "
        "model, a function or class that makes one from --set, or a function log_p(params, x) with --start. "
        "This runs the code in that file.",
        autocompletion=_completed(MODELS),
        rich_help_panel=MODEL,
    ),
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A shape parameter, held at VALUE: --set df=5.", rich_help_panel=MODEL),
]
Fixed = Annotated[
    list[str] | None,
    Option(
        "--fix",
        metavar="NAME=VALUE",
        help="Hold a parameter: --fix scale=10. A vector is written 0,0 and a matrix '1,0;0.5,2'.",
        rich_help_panel=MODEL,
    ),
]
Starts = Annotated[
    list[str] | None,
    Option(
        "--start",
        metavar="NAME=VALUE",
        help="Begin there: --start loc=0. A shape parameter with a start is fitted too.",
        rich_help_panel=MODEL,
    ),
]

Discrepancy = Annotated[
    str | None,
    Option(
        "--discrepancy",
        "-d",
        metavar="NAME",
        help=f"What to minimise: {_of(DISCREPANCIES)}. Default: ksd.",
        autocompletion=_completed(DISCREPANCIES),
        rich_help_panel=LOSS,
    ),
]
Kernel = Annotated[
    str | None,
    Option(
        "--kernel",
        "-k",
        metavar="NAME:ARGS",
        help=f"{_of(KERNELS)}, with arguments as in imq:beta=-0.9; or your own, as file.py:name. Default: imq.",
        autocompletion=_completed(KERNELS),
        rich_help_panel=LOSS,
    ),
]
Lengthscale = Annotated[
    str | None,
    Option(
        "--lengthscale",
        "-l",
        metavar="LENGTH",
        help="median (the median distance of standardised data), a multiple such as 4*median, or a number in the units "
        "of the data. Default: median.",
        rich_help_panel=LOSS,
    ),
]
Diffusion = Annotated[
    str | None,
    Option(
        metavar="NAME:ARGS",
        help=f"{_of(DIFFUSIONS)}, with arguments as in decay:2; or your own, as file.py:name.",
        autocompletion=_completed(DIFFUSIONS),
        rich_help_panel=LOSS,
    ),
]
Statistic = Annotated[
    str | None,
    Option(metavar="u|v", help="The U- or the V-statistic of ksd and dksd. Default: v.", rich_help_panel=LOSS),
]
Robust = Annotated[
    bool, Option("--robust", help="A discrepancy under which outliers have no influence.", rich_help_panel=LOSS)
]
Solver = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help=f"{_of(SOLVERS)}. Default: chosen.",
        autocompletion=_completed(SOLVERS),
        rich_help_panel=LOSS,
    ),
]

Alpha = Annotated[float, Option(metavar="NUMBER", help="Intervals have level 1 − ALPHA.", rich_help_panel=ERRORS)]
Bootstrap = Annotated[
    int | None,
    Option(metavar="N", min=2, help="Errors also from N resampled data sets.", rich_help_panel=ERRORS),
]
Seed = Annotated[int, Option(metavar="NUMBER", help="For the bootstrap.", rich_help_panel=ERRORS)]

Out = Annotated[
    Path | None,
    Option(metavar="DIR", help="Write the summary, the fit, the report and pictures there.", rich_help_panel=OUTPUT),
]
Report = Annotated[
    Path | None, Option(metavar="FILE", help="Write a page to look at: report.html.", rich_help_panel=OUTPUT)
]
Save = Annotated[
    Path | None, Option(metavar="FILE", help="Write the fit: fit.json, for minstein show.", rich_help_panel=OUTPUT)
]
Json = Annotated[bool, Option("--json", help="Print JSON instead of a table.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Print nothing but errors, and JSON if asked for.", rich_help_panel=OUTPUT)
]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)]
