"""The experiments of the paper: list them, or run them and print what became of the claims."""

from pathlib import Path

from minstein_paper.catalogue import EXPERIMENTS, NAMES

from . import cache, screen


def listing() -> None:
    screen.listing(("experiment", "what it is about"), [(e.name, e.title) for e in EXPERIMENTS])


def run(experiment: str, out: Path, *, full: bool, seed: int, jobs: int | None, quiet: bool) -> None:
    """Run one experiment or all of them, and print a line for each claim."""
    cache.use()
    from minstein_paper.run import reproduce

    names = NAMES if experiment == "all" else (experiment,)
    try:
        found = reproduce(names, out, full=full, seed=seed, jobs=jobs, progress=False if quiet else None)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{out} keeps what was finished; the same command goes on from there.") from None
    claims = [claim for findings in found.values() for claim in findings.claims]
    if claims:
        screen.listing(("claim", "measured", "verdict"), [(c.name, c.measured, str(c.verdict)) for c in claims])
    screen.console().print(f"\n{out / 'index.html'} has the figures, tables and verdicts.")
