"""The command `python -m studies`, from the root of a checkout."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .paper.catalogue import NAMES

BAD_INPUT, INTERRUPTED = 2, 130
"""Statuses with which the command ends; the second is what a shell reports after Ctrl-C."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the study that was asked for; return the status with which to end."""
    given = _parser().parse_args(words)
    try:
        given.run(given)
    except KeyboardInterrupt as reason:
        print(f"Interrupted: {reason}" if reason.args else "Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, ImportError, OSError) as reason:
        if given.debug:
            raise
        print(f"Error: {reason}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies", description="Simulation studies of minstein.")
    studies = parser.add_subparsers(metavar="STUDY", required=True)
    _add_paper(studies)
    _add_efficiency(studies)
    _add_likelihood(studies)
    _add_limits(studies)
    _add_robust(studies)
    _add_wrong(studies)
    return parser


def _add(studies: argparse._SubParsersAction, name: str, about: str, run: Callable) -> argparse.ArgumentParser:
    parser = studies.add_parser(name, help=about, description=about)
    parser.set_defaults(run=run)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _add_paper(studies: argparse._SubParsersAction) -> None:
    def run(given: argparse.Namespace) -> None:
        from .paper import command

        if given.experiment == "list":
            command.print_experiments()
        elif given.out is None:
            parser.error("--out is missing: the directory for figures, tables and the page, such as --out out/paper.")
        else:
            command.run(
                given.experiment, given.out, full=given.full, seed=given.seed, jobs=given.jobs, quiet=given.quiet
            )

    about = "Reproduce the experiments of the paper: figures, tables, and each claim with its verdict."
    parser = _add(studies, "paper", about, run)
    parser.epilog = "After an interruption, the same command continues where it stopped."
    names = [*NAMES, "all", "list"]
    parser.add_argument("experiment", choices=names, metavar="EXPERIMENT|all|list", help=", ".join(names))
    parser.add_argument("--out", type=Path, help="the directory for figures, tables and the page")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", dest="full", action="store_false", help="a few minutes for all; the default")
    effort.add_argument("--full", action="store_true", help="enough replications for publication")
    parser.set_defaults(full=False)
    parser.add_argument("--seed", type=_at_least(0), default=1, help="the source of randomness; 1 by default")
    parser.add_argument("--jobs", type=_at_least(1), help="experiments at a time; one for each processor by default")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_efficiency(studies: argparse._SubParsersAction) -> None:
    def run(given: argparse.Namespace) -> None:
        from .design import efficiency

        efficiency.main(given.out, given.replications, tuple(given.sizes), given.only)

    parser = _add(studies, "efficiency", "Designed discrepancies against maximum likelihood: nine models.", run)
    parser.add_argument("--replications", type=_at_least(1), default=400, help="samples of each size; 400 by default")
    parser.add_argument("--sizes", type=_at_least(2), nargs="+", default=[300, 1000], help="300 and 1000 by default")
    parser.add_argument("--only", metavar="MODEL", help="one of the models")
    parser.add_argument("--out", type=Path, default=Path("out"), help="the directory of the files; out by default")


def _add_likelihood(studies: argparse._SubParsersAction) -> None:
    def run(given: argparse.Namespace) -> None:
        from .design import likelihood

        likelihood.main(given.replications, given.only)

    parser = _add(studies, "likelihood", "The default against maximum likelihood: eleven models.", run)
    parser.add_argument("--replications", type=_at_least(2), default=400, help="samples of each size; 400 by default")
    parser.add_argument("--only", metavar="MODEL", help="one of the models")


def _add_limits(studies: argparse._SubParsersAction) -> None:
    def run(given: argparse.Namespace) -> None:
        from .design import limits

        limits.main(given.replications, given.only)

    about = "Limits of a design: wrong models, many variables, bad pilots, and another efficient estimator."
    parser = _add(studies, "limits", about, run)
    parser.add_argument("--replications", type=_at_least(1), default=200, help="samples; 200 by default")
    parser.add_argument("--only", metavar="PART", help="one of the parts")


def _add_robust(studies: argparse._SubParsersAction) -> None:
    def run(given: argparse.Namespace) -> None:
        from .design import robust

        robust.main(given.out)

    parser = _add(studies, "robust", "The bias of a robust design under outliers, beside Huber and Tukey.", run)
    parser.add_argument("--out", type=Path, default=Path("out"), help="the directory of the figure; out by default")


def _add_wrong(studies: argparse._SubParsersAction) -> None:
    def run(given: argparse.Namespace) -> None:
        from .design import wrong

        wrong.main(given.replications, given.only)

    parser = _add(studies, "wrong", "The default under a wrong model: bias and coverage of its target.", run)
    parser.add_argument("--replications", type=_at_least(2), default=400, help="samples of each size; 400 by default")
    parser.add_argument("--only", metavar="CASE", help="one of the cases")


def _at_least(low: int) -> Callable[[str], int]:
    """Return a reader of integers that refuses those below `low`."""

    def integer(text: str) -> int:
        if (number := int(text)) < low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, got {number}")
        return number

    return integer


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end, it stops as after Ctrl-C
    sys.exit(main())
