"""The options of `minstein fit`, in the groups and the order in which the help shows them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from .catalogue import DIFFUSIONS, DISCREPANCIES, KERNELS, MODELS, SOLVERS, Entry, names
from .formats import list_formats

FILE = click.Path(path_type=Path)


class Named(click.ParamType):
    """A name in the catalogue, perhaps with arguments, or a name in the user's own code.

    The shell completes names in the catalogue.
    """

    name = "name"

    def __init__(self, entries: tuple[Entry, ...]):
        self.entries = entries

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found = [
            CompletionItem(e.name, help=e.line)
            for e in self.entries
            if e.name.startswith(incomplete)
        ]
        return found or [CompletionItem(incomplete, type="file")]


class Grouped(click.Command):
    """A command whose help shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments, groups = [], {title: [] for title in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Argument):
                arguments.append((parameter.make_metavar(ctx), ARGUMENTS[parameter.name or ""]))
            elif record is not None:
                groups[_group_of(parameter)].append(record)
        for title, records in {"Arguments": arguments, **groups}.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=24)


def _group_of(parameter: click.Parameter) -> str:
    return next((title for title, options in GROUPS.items() if parameter.name in options), "Other")


ARGUMENTS = {
    "source": f"A {list_formats()} file with a row for each observation; - for CSV on stdin; or dataset:NAME.",
}


def _of(entries: tuple[Entry, ...]) -> str:
    return ", ".join(names(entries))


OPTIONS: dict[str, dict[str, Any]] = {
    "Data": {
        "--columns/-c": {
            "multiple": True,
            "metavar": "A,B,…",
            "help": "Columns, by name or number; by default all.",
        },
        "--header/--no-header": {
            "default": None,
            "help": "Whether the first line of a CSV file has names; by default detected automatically.",
        },
        "--delimiter": {
            "metavar": "CHAR",
            "help": "What separates columns in a CSV file; by default detected automatically.",
        },
        "--decimal": {
            "metavar": "CHAR",
            "default": ".",
            "help": "The decimal point in a CSV file.",
        },
        "--drop-missing": {"is_flag": True, "help": "Leave out rows with missing values."},
        "--on-disk/--in-memory": {
            "default": None,
            "help": f"Whether a {list_formats(in_blocks=True)} file is read in blocks; by default if it is larger than "
            "a quarter of the memory.",
        },
    },
    "Model": {
        "--model/-m": {
            "required": True,
            "metavar": "NAME",
            "type": Named(MODELS),
            "help": f"A family: {_of(MODELS)}. Or your own, as path/to/file.py:name or package.module:name: a model, a "
            "function or class that makes one from --set, or a function log_p(params, x) with --start. "
            "This runs the code in that file.",
        },
        "--set": {
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "Set a shape parameter: --set df=5.",
        },
        "--fix": {
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "Hold a parameter: --fix scale=10. A vector is written 0,0 and a matrix '1,0;0.5,2'.",
        },
        "--start": {
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "Start from this value: --start loc=0. This also frees a shape parameter.",
        },
        "--space": {
            "metavar": "box:LOW,HIGH",
            "help": "The support of the density, such as box:0,inf or box:0,1; by default detected automatically.",
        },
        "--positive": {
            "multiple": True,
            "metavar": "A,B,…",
            "help": "Keep parameters of your own model above 0. Without it they may take any value.",
        },
    },
    "Discrepancy": {
        "--discrepancy/-d": {
            "metavar": "NAME",
            "type": Named(DISCREPANCIES),
            "help": f"The discrepancy: {_of(DISCREPANCIES)}; by default ksd, or mpf for a discrete model.",
        },
        "--kernel/-k": {
            "metavar": "NAME[:ARGS]",
            "type": Named(KERNELS),
            "help": f"{_of(KERNELS)}, with arguments as in imq:beta=-0.9, or your own as file.py:name; by default imq.",
        },
        "--lengthscale/-l": {
            "metavar": "LENGTH",
            "help": "median, the median distance of the standardised data; a multiple such as 4*median; or a number in "
            "the units of the data. By default median. For discrete-ksd, a number of variables.",
        },
        "--diffusion": {
            "metavar": "NAME[:ARGS]",
            "type": Named(DIFFUSIONS),
            "help": f"{_of(DIFFUSIONS)}, with arguments as in decay:2, or your own as file.py:name.",
        },
        "--statistic": {
            "metavar": "u|v",
            "help": "The U- or the V-statistic of ksd and dksd, by default v, and of discrete-ksd, by default u.",
        },
        "--goal": {
            "type": click.Choice(["efficient", "robust"]),
            "help": "A discrepancy designed for the model and the data: nearly as efficient as maximum likelihood, or "
            "one under which outliers have no influence.",
        },
        "--robust": {"is_flag": True, "help": "The same as --goal robust."},
        "--solver": {
            "metavar": "NAME",
            "type": Named(SOLVERS),
            "help": f"{_of(SOLVERS)}; by default chosen automatically.",
        },
    },
    "Uncertainty": {
        "--alpha": {
            "type": float,
            "default": 0.05,
            "show_default": True,
            "help": "Intervals have level 1 − alpha.",
        },
        "--bootstrap": {
            "type": click.IntRange(2),
            "metavar": "N",
            "help": "Also compute standard errors from N resampled data sets.",
        },
        "--seed": {
            "type": click.IntRange(0, 2**32 - 1),
            "metavar": "N",
            "default": 0,
            "help": "The random seed of the bootstrap and of cd.",
        },
    },
    "Many machines": {
        "--processes": {
            "type": click.IntRange(2),
            "metavar": "N",
            "help": "Share rows and work among N processes: on this host, unless --coordinator is given.",
        },
        "--coordinator": {
            "metavar": "HOST:PORT",
            "help": "The address at which the other processes reach process 0.",
        },
        "--process-id": {
            "type": click.IntRange(0),
            "metavar": "I",
            "help": "The number of this process, from 0.",
        },
    },
    "Output": {
        "--out": {
            "type": FILE,
            "metavar": "DIR",
            "help": "Write summary, fit, report and pictures to a directory.",
        },
        "--report": {
            "type": FILE,
            "metavar": "FILE",
            "help": "Write a report as a page for a browser: report.html.",
        },
        "--save": {
            "type": FILE,
            "metavar": "FILE",
            "help": "Write the fit: fit.json, for minstein show.",
        },
        "--json": {"is_flag": True, "help": "Print JSON instead of a table."},
        "--quiet/-q": {"is_flag": True, "help": "Print only errors, and JSON if asked for."},
        "--debug": {"is_flag": True, "help": "Show the traceback of an error."},
    },
}


def _declarations(key: str) -> tuple[tuple[str, ...], str]:
    """Return the declarations that click needs for '--model/-m', and the name of the argument."""
    name = key.partition("/")[0].removeprefix("--").replace("-", "_")
    return ((key, name) if "/--" in key else (*key.split("/"), name)), name


GROUPS = {
    title: [_declarations(key)[1] for key in options] for title, options in OPTIONS.items()
} | {"Other": []}


def every_option(command: Callable) -> Callable:
    """Decorate the function of `minstein fit`."""
    for options in reversed(OPTIONS.values()):
        for key, settings in reversed(options.items()):
            command = click.option(*_declarations(key)[0], **settings)(command)
    return command
