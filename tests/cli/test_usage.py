"""What is typed wrongly, what can be named, and that neither needs JAX."""

import inspect
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import minstein as ms
from minstein.discrepancies.base import AbstractDiscrepancy
from minstein.kernels import AbstractRadial
from minstein.models._family import AbstractSampler
from minstein.params import HELD
from minstein_cli import cache, catalogue
from minstein_cli.library import resolve
from minstein_cli.model import Values, build
from minstein_cli.spec import Choice

from .conftest import NEWCOMB

ALL = (*catalogue.MODELS, *catalogue.KERNELS, *catalogue.DIFFUSIONS, *catalogue.DISCREPANCIES, *catalogue.SOLVERS)


# The catalogue


LEFT = {
    "mpf": {"neighbours", "form"},
    "cd": {"kernel", "steps", "persistent", "key"},
    "efficient": {"diffusion", "basis", "start", "r_squared", "identity"},
}
"""What the command line leaves as it is."""


@pytest.mark.parametrize("entry", [e for e in ALL if e not in catalogue.SOLVERS], ids=lambda e: e.path)
def test_the_catalogue_has_the_parameters_of_the_library(entry):
    thing = resolve(entry)
    if not isinstance(thing, type | FunctionType):
        assert entry.parameters == ()
        return
    left = {"backend", "divergence", "edges", "space"} | LEFT.get(entry.name, set())
    signature = {n: p for n, p in inspect.signature(thing).parameters.items() if n not in left}
    assert [p.name for p in entry.parameters] == list(signature)
    for p in entry.parameters:
        default = signature[p.name].default
        if isinstance(p.default, float) and entry in catalogue.KERNELS:
            assert p.default == default


@pytest.mark.parametrize("entry", catalogue.MODELS, ids=lambda e: e.name)
def test_the_catalogue_knows_which_parameters_are_held(entry):
    thing = resolve(entry)
    fields = (thing if isinstance(thing, type) else inspect.signature(thing).return_annotation).__dataclass_fields__
    assert {p.name: p.held for p in entry.parameters} == {
        n: f.metadata["constraint"] is HELD for n, f in fields.items() if "constraint" in f.metadata
    }


def test_every_family_and_every_radial_kernel_is_in_the_catalogue():
    """But for the RBM, whose hidden units the data do not tell: it is named as file.py:name."""
    families = {k for k in vars(ms.models).values() if isinstance(k, type) and issubclass(k, AbstractSampler)}
    radial = {k for k in vars(ms.kernels).values() if isinstance(k, type) and issubclass(k, AbstractRadial)}
    named = {resolve(e) for e in catalogue.MODELS}
    assert families - {ms.models.RBM} == named - {ms.models.BoltzmannMachine}
    assert radial - {AbstractRadial} == {resolve(e) for e in catalogue.KERNELS}


def test_every_discrepancy_is_in_the_catalogue():
    kinds = {k for k in vars(ms).values() if isinstance(k, type) and issubclass(k, AbstractDiscrepancy)}
    assert kinds <= {resolve(e) for e in catalogue.DISCREPANCIES}


@pytest.mark.parametrize("entry", catalogue.MODELS, ids=lambda e: e.name)
def test_the_catalogue_knows_where_models_live(entry):
    spaces = {"binary": ms.spaces.BINARY, "spin": ms.spaces.SPINS, "count": ms.spaces.COUNTS, "real": ms.spaces.REALS}
    x = np.array([[1.0, 1.0], [1.0, 1.0]])
    model, _ = build(Choice(entry, {}), Values({}, {}, {}), x)
    assert ms.spaces.space_of(model) == spaces[entry.on[0]]


@pytest.mark.parametrize("kind", ["models", "kernels", "diffusions", "discrepancies"])
def test_lists_have_a_line_for_each_entry(minstein, kind):
    result = minstein(kind)
    assert result.exit_code == 0
    for entry in getattr(catalogue, kind.upper()):
        line = next(line for line in result.stdout.splitlines() if line.startswith(entry.name + " "))
        assert entry.line in line
        assert all(p.name in line for p in entry.parameters)


def test_one_entry_in_full(minstein):
    assert "df: degrees of freedom ν; held at 5" in minstein("models", "student-t").stdout
    assert minstein("models", "studentt").exit_code == 2


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv", "-m", "gaussian"], "There is no file nothing.csv"),
        ([".", "-m", "gaussian"], "is a directory"),
        ([NEWCOMB], "Missing option '--model'"),
        ([NEWCOMB, "-m", "gaussian", "--wrong"], "No such option '--wrong'"),
        ([NEWCOMB, "-m", "student"], "There is no model 'student'. Did you mean 'student-t'?"),
        ([NEWCOMB, "-m", "nowhere.py:model"], "There is no file nowhere.py"),
        ([NEWCOMB, "-m", "nowhere.py"], "does not name an object"),
        ([NEWCOMB, "-m", "gaussian", "--set", "df=3"], "no parameter of gaussian named 'df'"),
        ([NEWCOMB, "-m", "student-t", "--set", "loc=3"], "loc is fitted"),
        ([NEWCOMB, "-m", "student-t", "--set", "df"], "write NAME=VALUE"),
        ([NEWCOMB, "-m", "student-t", "--set", "df=five"], "must be a number, got 'five'"),
        ([NEWCOMB, "-m", "student-t", "--set", "df=2", "--fix", "df=2"], "df is given more than once"),
        ([NEWCOMB, "-m", "student-t", "--fix", "scale=1;2,3"], "the same length"),
        ([NEWCOMB, "-m", "gaussian", "-d", "kdd"], "There is no discrepancy 'kdd'. Did you mean"),
        ([NEWCOMB, "-m", "gaussian", "-d", "sm", "-k", "imq"], "sm has no kernel"),
        ([NEWCOMB, "-m", "gaussian", "-d", "ksd", "--diffusion", "decay:2"], "ksd has no diffusion"),
        ([NEWCOMB, "-m", "gaussian", "-d", "dksd"], "dksd needs a diffusion"),
        ([NEWCOMB, "-m", "gaussian", "--diffusion", "decay"], "needs alpha"),
        ([NEWCOMB, "-m", "gaussian", "--diffusion", "decay:1,2,3,4"], "takes 3 arguments"),
        ([NEWCOMB, "-m", "gaussian", "-k", "imq:gamma=1"], "no argument of the kernel imq named 'gamma'"),
        ([NEWCOMB, "-m", "gaussian", "-l", "-3"], "--lengthscale must be a positive number"),
        ([NEWCOMB, "-m", "gaussian", "--statistic", "w"], "--statistic must be u or v"),
        ([NEWCOMB, "-m", "gaussian", "--robust", "-k", "imq"], "--goal robust determines the discrepancy"),
        ([NEWCOMB, "-m", "gaussian", "-d", "mpf"], "mpf is not defined there: gaussian is a model of real numbers"),
        ([NEWCOMB, "-m", "ising", "-d", "ksd"], "ksd is not defined there: ising is a model of −1 and 1, .* mpf, dfd"),
        ([NEWCOMB, "-m", "ising", "-k", "imq"], "ksd is not defined there: .* Leave out --discrepancy, --kernel"),
        ([NEWCOMB, "-m", "ising", "-d", "mpf", "--diffusion", "decay:2"], "mpf has no diffusion"),
        ([NEWCOMB, "-m", "ising", "--robust"], "--goal robust is for models of real numbers, and ising is a model"),
        ([NEWCOMB, "-m", "ising", "-d", "discrete-ksd", "-k", "imq"], "has Hamming's kernel"),
        ([NEWCOMB, "-m", "ising", "-d", "discrete-ksd", "-l", "2*median"], "is a number of variables"),
        ([NEWCOMB, "-m", "conway-maxwell-poisson", "-d", "pseudo-likelihood"], "counts 0, 1, 2, .* mpf, dfd\\."),
        ([NEWCOMB, "-m", "boltzmann-machine"], "the model lives on the alphabet {0, 1}"),
        ([NEWCOMB, "-m", "gaussian", "--solver", "x"], "There is no solver 'x'"),
        ([NEWCOMB, "-m", "gaussian", "--alpha", "2"], "--alpha must lie between 0 and 1"),
        ([NEWCOMB, "-m", "gaussian", "--bootstrap", "1"], "not in the range"),
        ([NEWCOMB, "-m", "gaussian", "--save", NEWCOMB], "is the data file"),
        ([NEWCOMB, "-m", "gaussian", "--save", "."], "is a directory"),
        ([NEWCOMB, "-m", "gaussian", "--out", NEWCOMB], "is a file, not a directory"),
        ([NEWCOMB, "-m", "gaussian", "-c", "seconds"], "no column in .* named 'seconds'. .* nanoseconds"),
        ([NEWCOMB, "-m", "gaussian", "--fix", "scale=-1"], "scale must be positive, got -1"),
        ([NEWCOMB, "-m", "gaussian", "-k", "imq:beta=2"], "beta must be negative"),
    ],
)  # fmt: skip
def test_bad_usage_is_told_in_one_message(minstein, arguments, message):
    result = minstein("fit", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("Error: ") == 1
    assert "Traceback" not in result.stderr
    assert re.search(message, result.stderr.partition("Error: ")[2])


def test_debug_shows_the_traceback(minstein):
    assert type(minstein("fit", "nothing.csv", "-m", "gaussian", "--debug").exception).__name__ == "Problem"


def test_saved_fits_that_are_not(minstein, tmp_path):
    (tmp_path / "a.json").write_text("{}")
    assert "There is no file b.json" in minstein("show", "b.json").stderr
    assert "not a fit that minstein saved" in minstein("show", "a.json").stderr
    assert minstein("compare", "a.json").exit_code == 2


# Without JAX

WITHOUT = """
import sys
from minstein_cli import main
sys.argv = ["minstein", *{arguments!r}]
try:
    main()
except SystemExit as end:
    print(end.code, *(name for name in ("jax", "minstein", "numpy", "pyarrow") if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["fit", "--help"], 0),
        (["models"], 0),
        (["help"], 0),
        (["help", "fitting"], 0),
        (["help", "no-such-page"], 2),
        (["fit", "x.csv", "-m", "normal"], 2),
        (["fit", "x.csv", "-m", "gaussian"], 2),
        (["fit", NEWCOMB, "-m", "ising", "--robust"], 2),
        (["fit", NEWCOMB, "-m", "gaussian", "--wrong"], 2),
    ],
)
def test_help_and_usage_errors_are_quick(arguments, code):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", WITHOUT.format(arguments=arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.stderr.splitlines()[-1] == str(code)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


WITHOUT_CLICK = """
import sys
sys.modules["click"] = None
sys.argv = ["minstein", *{arguments!r}]
from minstein_cli import main
main()
"""


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["help", "fitting"], 0, "# Fitting"),
        (["help"], 0, "sharp-bits      Sharp bits"),
        (["help", "fiting"], 2, "Error: There is no page 'fiting'. Did you mean 'fitting'?"),
        (["models"], 1, "pip install 'minstein[cli]'"),
    ],
)
def test_pages_need_no_click(arguments, code, text):
    command = [sys.executable, "-c", WITHOUT_CLICK.format(arguments=arguments)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == code
    assert text in run.stdout + run.stderr


def test_pages(minstein):
    pages = Path(__file__).parents[2] / "docs"
    assert minstein("help", "Fitting.md").stdout.strip() == (pages / "fitting.md").read_text().strip()
    assert minstein("help").stdout.count("\n") == len(list(pages.glob("*.md")))
    refused = minstein("help", "fiting")
    assert refused.exit_code == 2
    assert "Did you mean 'fitting'? There are: architecture" in refused.stderr


def test_names_are_completed():
    environment = {**os.environ, "_MINSTEIN_COMPLETE": "zsh_complete", "COMP_WORDS": "minstein fit x.csv --model st",
                   "COMP_CWORD": "4"}  # fmt: skip
    command = [sys.executable, "-c", "from minstein_cli import main; main()"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "student-t\nStudent's t" in run.stdout
    assert "gaussian" not in run.stdout


def test_completion_scripts(minstein):
    for shell in ("bash", "zsh", "fish"):
        result = minstein("completion", shell)
        assert result.exit_code == 0
        assert "_MINSTEIN_COMPLETE" in result.stdout


def test_the_version(minstein):
    assert minstein("--version").stdout == f"minstein {ms.__version__}\n"


# The compilation cache


def cache_of(monkeypatch, tmp_path, given=None):
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
             "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES")  # fmt: skip
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    if given is not None:
        monkeypatch.setenv(names[0], given)
    cache.use()
    return os.environ.get(names[0])


def test_the_cache_is_the_users_own_and_keyed_by_host_and_version(monkeypatch, tmp_path):
    import platform

    import jax

    directory = cache_of(monkeypatch, tmp_path)
    assert os.path.isdir(directory)
    for part in (str(tmp_path), platform.node(), ms.__version__, jax.__version__):
        assert part in directory


def test_the_cache_is_where_jax_is_told(monkeypatch, tmp_path):
    assert cache_of(monkeypatch, tmp_path, "/elsewhere") == "/elsewhere"


def test_no_cache_where_none_can_be_made(monkeypatch, tmp_path):
    (tmp_path / "minstein").write_text("in the way")
    assert cache_of(monkeypatch, tmp_path) is None
