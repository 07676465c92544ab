"""The command: list the experiments, or run them and print a verdict on each claim."""

from pathlib import Path

from .catalogue import EXPERIMENTS, NAMES


def print_experiments() -> None:
    """Print the name and the title of each experiment."""
    for experiment in EXPERIMENTS:
        print(f"{experiment.name:<12}{experiment.title}")


def run(experiment: str, out: Path, *, full: bool, seed: int, jobs: int | None, quiet: bool) -> None:
    """Run one experiment or all of them, and print each claim with its verdict and what was measured."""
    from .run import reproduce

    names = NAMES if experiment == "all" else (experiment,)
    try:
        found = reproduce(names, out, full=full, seed=seed, jobs=jobs, progress=False if quiet else None)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{out} keeps what was finished; the same command continues from there.") from None
    for findings in found.values():
        for claim in findings.claims:
            print(f"{claim.name}: {claim.verdict}\n    {claim.measured}")
    print(f"\n{out / 'index.html'} has the figures, tables and verdicts.")
