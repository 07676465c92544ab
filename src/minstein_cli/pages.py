"""`minstein help`: the pages of the documentation that ship with minstein. Needs neither click nor
JAX.
"""

import importlib.util
import pydoc
from pathlib import Path

from .problem import Problem, unknown


def names() -> list[str]:
    """Return the names of the pages in alphabetical order."""
    return sorted(path.stem for path in _directory().glob("*.md"))


def text(name: str) -> str:
    """Return the text of the page of this name, with or without .md."""
    known, wanted = names(), name.lower().removesuffix(".md")
    if wanted not in known:
        advice = "The options of a command: minstein COMMAND --help."
        raise unknown("page", name, known, advice=advice)
    return (_directory() / f"{wanted}.md").read_text(encoding="utf-8")


def listing() -> str:
    """Return the names of the pages with their titles, one on each line."""
    width = max(map(len, names()))
    return "".join(f"{name:<{width}}  {_title(text(name))}\n" for name in names())


def show(name: str | None) -> None:
    """Print a page, through a pager on a terminal; without a name, list the pages."""
    if name is None:
        print(listing(), end="")
    else:
        pydoc.pager(text(name))


def _title(page: str) -> str:
    return page.partition("\n")[0].removeprefix("# ")


def _directory() -> Path:
    """Return the directory of the pages, in an installed package or in a source checkout."""
    spec = importlib.util.find_spec("minstein")  # this does not run the package, so JAX stays out
    if spec is None or spec.origin is None:
        raise Problem("minstein is not installed, so its pages cannot be found.")
    package = Path(spec.origin).parent
    places = (package / "docs", package.parents[1] / "docs")
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise Problem(f"The pages are missing: there is no directory {places[0]}.")
    return found
