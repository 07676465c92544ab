"""What `minstein fit` was asked for, and the checks of it that need neither the data nor JAX."""

from pathlib import Path
from typing import NamedTuple

from . import data, discrepancy, launching, outputs
from . import model as model_of
from .catalogue import Entry
from .problem import Problem
from .spec import Choice, Own


class Request(NamedTuple):
    """Everything that `minstein fit` was asked for."""

    source: str
    reading: data.Reading
    model: Choice | Own
    values: model_of.Values
    wish: discrepancy.Wish
    wanted: launching.Wanted
    solver: Entry | None
    support: tuple[float, float] | None
    alpha: float
    bootstrap: int | None
    seed: int
    out: Path | None
    report: Path | None
    save: Path | None
    as_json: bool
    quiet: bool

    @property
    def files(self) -> list[Path]:
        return [path for path in (self.report, self.save) if path is not None]

    def _check_on_disk(self) -> None:
        """Raise if an option needs every row in memory."""
        asked = {
            "--bootstrap": self.bootstrap,
            "--report": self.report,
            "--out": self.out,
            "--drop-missing": self.reading.drop_missing,
            "--processes": self.wanted.processes,
        }
        for option in [name for name, value in asked.items() if value]:
            raise Problem(
                f"{option} cannot be combined with data that are read from disk in blocks. Leave it out, or read the "
                "data as a whole with --in-memory."
            )

    def check(self) -> None:
        """Raise if the request is wrong in a way that can be detected without JAX."""
        data.check_source(self.source)
        self.wanted.check(source=self.source, bootstrap=self.bootstrap)
        if data.stays_on_disk(self.source, self.reading):
            self._check_on_disk()
        model_of.check(self.model, self.values)
        discrepancy.check(self.wish, self.model)
        if (
            self.out is not None
            and (self.out.exists() or self.out.is_symlink())
            and not self.out.is_dir()
        ):
            raise Problem(f"--out {self.out} is a file, not a directory.")
        inside = [] if self.out is None else [self.out / name for name in outputs.IN_DIRECTORY]
        outputs.check(self.files + inside, inputs={"data": self.source, **_code(self.model)})


def _code(model: Choice | Own) -> dict[str, str]:
    """Return the file of the user's own model, if it is in a file."""
    return {"model": model.place} if isinstance(model, Own) and model.is_file else {}
