"""Every public name is documented, with an example that runs, and every error names the page that explains it."""

import importlib
import inspect
import re
import tomllib
import types
from pathlib import Path

import pytest

import minstein as ms
from minstein import errors
from minstein.data.kinds import wrong_shape

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(ms.__file__).parent
SUBMODULES = (
    "datasets",
    "diffusions",
    "kernels",
    "markov",
    "models",
    "operator",
    "params",
    "plot",
    "spaces",
    "special",
)
MODULES = {"ms": ms} | {f"ms.{name}": getattr(ms, name) for name in SUBMODULES}
WITHOUT = {"Function", "Term", "Span", "Designed", "as_kernel", "as_transition", "compare", "join", "nuts"}
"""Without an example: what reads a user's argument or is made by the package, what needs several processes, and what
takes longer than all examples together."""


def public(module: types.ModuleType) -> list[str]:
    """What a module says is public, or what its package brings together."""
    ours = lambda value: getattr(value, "__module__", "").startswith("minstein")
    named = getattr(module, "__all__", None)
    return list(named or [name for name, value in vars(module).items() if name[0] != "_" and ours(value)])


def documented() -> set[int]:
    """The objects that the reference shows."""
    found, module = set(), None
    for page in sorted((DOCS / "api").glob("*.md")):
        for kind, name in re.findall(r"^\.\. (currentmodule|auto\w+):: ([\w.]+)", page.read_text(), re.M):
            if kind == "currentmodule":
                module = importlib.import_module(name)
            else:
                found.add(id(getattr(module, name)))
    return found


NAMES = [(where, name) for where, module in MODULES.items() for name in public(module)]


def test_the_reference_has_every_public_name():
    shown = documented()
    assert [f"{where}.{name}" for where, name in NAMES if id(getattr(MODULES[where], name)) not in shown] == []


@pytest.mark.parametrize(("where", "name"), NAMES, ids=lambda text: text)
def test_docstring(where, name):
    """A sentence that says what it is and, for what a user calls, an example."""
    thing = getattr(MODULES[where], name)
    text = (inspect.getdoc(thing) or "") if callable(thing) else ""
    is_error = inspect.isclass(thing) and issubclass(thing, Exception)
    assert not callable(thing) or re.match(r".+[.:,]$", text.split("\n\n")[0], re.DOTALL)
    assert not callable(thing) or is_error or inspect.isabstract(thing) or name in WITHOUT or ">>>" in text


def test_errors_name_pages_that_exist():
    pages = re.findall(r'explained\("(.*?)"\)', "".join(path.read_text() for path in SOURCE.rglob("*.py")))
    assert len(pages) > 80
    assert {page for page in pages if not (DOCS / page).exists()} == set()


def test_the_pages_that_errors_name_are_in_the_wheel():
    pages = re.findall(r'explained\("(.*?)"\)', "".join(path.read_text() for path in SOURCE.rglob("*.py")))
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    shipped = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {f"docs/{page}" for page in pages} <= set(shipped)
    assert [source for source in shipped if not (DOCS.parent / source).exists()] == []
    assert all(target == f"minstein/{source}" for source, target in shipped.items())


def test_the_page_is_at_the_end_of_the_text_once():
    assert str(wrong_shape((1, 2, 3))).endswith("Each row is one observation. See: minstein help sharp-bits.")
    nested = errors.explained("fitting.md")(lambda: ValueError(errors.explained("discrete.md")(lambda: "Both.")()))
    assert str(nested()) == "Both. See: minstein help discrete."


def test_an_error_that_carries_a_fit_keeps_it():
    failed = errors.explained("fitting.md")(lambda fit: ms.NotConverged("It failed.", fit))(3)
    assert failed.fit == 3
    assert str(failed) == "It failed. See: minstein help fitting."
