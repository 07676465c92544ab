"""Running experiments: seeds, progress, and taking up again what was interrupted."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from minstein import __version__

from ..replacing import write_text
from .catalogue import EXPERIMENTS, Experiment, find
from .claim import Claim, Erratum, Findings, Picture, Table, Verdict
from .lab import Lab
from .page import write_page, write_table
from .side_by_side import side_by_side


def reproduce(
    names: Iterable[str],
    out: Path,
    *,
    full: bool = False,
    seed: int = 1,
    jobs: int | None = None,
    progress: bool | None = None,
) -> dict[Experiment, Findings]:
    """Run experiments into a directory and return their findings by experiment.

    Replications that the directory holds already, of the same seed and version, are used again; so are experiments that
    were finished with the same effort. The page shows every experiment that the directory holds.

    Args:
        names: of the experiments.
        out: the directory.
        full: whether to spend the time that a publication deserves.
        seed: the source of randomness.
        jobs: experiments at a time; as many as there are processors unless given. The numbers do not depend on it.
        progress: whether to show a progress bar; on a terminal unless given.
    """
    out.mkdir(parents=True, exist_ok=True)
    _check_settings(out, seed)
    chosen = [experiment for experiment in EXPERIMENTS if experiment.name in set(names)]
    weight = lambda experiment: experiment.full if full else experiment.quick
    jobs = min(len(chosen), jobs or os.cpu_count() or 1)
    found = {}
    with tqdm(
        total=sum(map(weight, chosen)),
        disable=None if progress is None else not progress,
        bar_format="{desc}{percentage:3.0f} %|{bar}| {elapsed} gone, {remaining} left",
    ) as bar:
        for experiment, findings in _carried_out(chosen, out, seed, full, jobs, bar.set_description_str):
            found[experiment] = findings
            bar.update(weight(experiment))
    found = {experiment: found[experiment] for experiment in chosen}
    held = {e: findings for e in EXPERIMENTS if (findings := found.get(e) or _finished(out, e, full)) is not None}
    write_page(out, _about(seed, full), held)
    return found


def _carried_out(
    chosen: list[Experiment],
    out: Path,
    seed: int,
    full: bool,
    jobs: int,
    say: Callable[[str], None],
) -> Iterator[tuple[Experiment, Findings]]:
    if jobs > 1:
        longest_first = sorted(chosen, key=lambda e: -e.quick)
        yield from side_by_side(_run, {e: (e.name, out, seed, full) for e in longest_first}, jobs, say)
    else:
        yield from ((e, _run(e.name, out, seed, full, say)) for e in chosen)


def _run(name: str, out: Path, seed: int, full: bool, say: Callable[[str], None]) -> Findings:
    """The findings of one experiment, from the directory if it was finished before."""
    experiment = find(name)
    return _finished(out, experiment, full) or _performed(experiment, out, seed, full, say)


def _performed(experiment: Experiment, out: Path, seed: int, full: bool, say: Callable[[str], None]) -> Findings:
    began = time.perf_counter()
    directory = out / experiment.name
    directory.mkdir(exist_ok=True)
    findings = experiment.run(Lab(directory, seed, full, lambda text: say(f"{experiment.name}: {text} ")))
    findings = _placed(findings, experiment.name)
    for table in findings.tables:
        write_table(out, table)
    record = {**dataclasses.asdict(findings), "seconds": round(time.perf_counter() - began, 1)}
    write_text(_record(out, experiment, full), json.dumps(record, indent=1, ensure_ascii=False))
    return findings


def _placed(findings: Findings, folder: str) -> Findings:
    """Files are named from the directory of the page."""
    moved = lambda item: dataclasses.replace(item, name=f"{folder}/{item.name}")
    return dataclasses.replace(
        findings,
        tables=tuple(map(moved, findings.tables)),
        pictures=tuple(map(moved, findings.pictures)),
    )


def _record(out: Path, experiment: Experiment, full: bool) -> Path:
    return out / experiment.name / f"findings-{'full' if full else 'quick'}.json"


def _finished(out: Path, experiment: Experiment, full: bool) -> Findings | None:
    """What an experiment found before, unless it has not been run to its end with this effort."""
    path = _record(out, experiment, full)
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return Findings(
        record["text"],
        tuple(Claim(**{**claim, "verdict": Verdict(claim["verdict"])}) for claim in record["claims"]),
        tuple(
            Table(t["name"], t["title"], tuple(t["columns"]), tuple(map(tuple, t["rows"]))) for t in record["tables"]
        ),
        tuple(Picture(**picture) for picture in record["pictures"]),
        tuple(Erratum(**erratum) for erratum in record["errata"]),
    )


def _check_settings(out: Path, seed: int) -> None:
    """A directory holds the results of one seed and one version of minstein."""
    path, settings = out / "settings.json", {"seed": seed, "minstein": __version__}
    if path.exists() and (held := json.loads(path.read_text(encoding="utf-8"))) != settings:
        raise ValueError(
            f"{out} holds results of seed {held.get('seed')} and minstein {held.get('minstein')}; this run has seed "
            f"{seed} and minstein {__version__}. Results of one kind go together: give another directory with --out."
        )
    write_text(path, json.dumps(settings))


def _about(seed: int, full: bool) -> str:
    effort = "--full" if full else "--quick: few replications, so that the Monte-Carlo errors are large"
    return (
        "Every numerical experiment of the paper (Barp, Briol, Duncan, Girolami and Mackey, NeurIPS 2019), run "
        f"through the public interface of minstein {__version__}. Seed {seed}, {effort}. A claim that one number is "
        "smaller than another is accepted where they differ by two Monte-Carlo standard errors."
    )
