"""`minstein fit` and what looks at its results: right numbers, whole files, honest statuses."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy import stats

import minstein as ms
from minstein._files import replacing
from minstein.discrepancies.default import robust_discrepancy
from minstein.inference.bootstrap import Bootstrap
from minstein_cli import model as model_of
from minstein_cli import outputs, writing
from minstein_cli.catalogue import DIFFUSIONS, KERNELS, MODELS
from minstein_cli.discrepancy import build, wish
from minstein_cli.model import Values
from minstein_cli.spec import choose

from .conftest import NEWCOMB, newcomb

X = newcomb()
OWN = """
import jax.numpy as jnp
import minstein as ms

def log_p(params, x):
    return -((x[0] - params["mu"]) ** 2) / (2 * params["sigma"] ** 2)

def level(params, x):
    return params["a"] - x[0] ** 2 / 200

def nan(params, x):
    return jnp.log(-params["a"] - x[0] ** 2)

def make(width=10.0):
    return ms.models.from_log_density(log_p, {"mu": 0.0, "sigma": ms.fixed(width)})

model = ms.models.from_log_density(log_p, {"mu": 0.0, "sigma": ms.positive(20.0)})
number = 3
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)


def estimates(result):
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["parameters"]
    return np.array([found[name]["estimate"] for name in found])


# Numbers


def test_score_matching_of_a_gaussian_gives_mean_and_deviation(minstein):
    result = minstein("fit", NEWCOMB, "-m", "gaussian", "-d", "sm", "--json")
    np.testing.assert_allclose(estimates(result), [X.mean(), X.std()], rtol=1e-8)
    found = json.loads(result.stdout)
    assert found["columns"] == ["nanoseconds"]
    assert found["n"] == 66
    loc = found["parameters"]["loc"]
    np.testing.assert_allclose(loc["std_error"], X.std() / np.sqrt(66), rtol=1e-6)
    half = stats.t.ppf(0.975, 64) * X.std() / np.sqrt(66 - 2)
    np.testing.assert_allclose(loc["interval"], [X.mean() - half, X.mean() + half], rtol=1e-6)


def test_the_default_is_that_of_the_library():
    x = X[:, None]
    model, about_model = model_of.build(choose("model", "student-t", MODELS), Values({}, {}, {}), x)
    assert build(wish(None, None, None, None, None, None), x, model) == (None, ())
    assert "df is held at 5, the default" in about_model[0]


def test_bootstrap_errors_are_shown(minstein, monkeypatch):
    theta = np.random.default_rng(0).normal([26.0, 10.0], [1.5, 3.0], (40, 2))
    asked = {}

    def bootstrap(fit, x, key, **rest):
        asked.update(rest, key=int(jax.random.key_data(key)[-1]))
        return Bootstrap(theta, np.arange(40) > 0, fit.names)

    monkeypatch.setattr(ms, "bootstrap", bootstrap)
    command = ("fit", NEWCOMB, "-m", "gaussian", "-d", "sm", "--bootstrap", 40, "--seed", 7, "--alpha", 0.1)
    found = json.loads(minstein(*command, "--json").stdout)["bootstrap"]
    assert (asked["replications"], asked["key"]) == (40, 7)
    assert (found["replications"], found["converged"], found["seed"]) == (40, 39, 7)
    loc = found["parameters"]["loc"]
    np.testing.assert_allclose(loc["std_error"], theta[1:, 0].std(ddof=1))
    np.testing.assert_allclose(loc["interval"], np.quantile(theta[1:, 0], [0.05, 0.95]))
    table = minstein(*command).stdout.partition("Bootstrap")[2]
    assert [f"{theta[1:, j].std(ddof=1):.4g}" for j in (0, 1)] == re.findall(r"^(?:loc|scale) +(\S+)", table, re.M)


def test_robust_estimates_do_not_feel_gross_errors(minstein, tmp_path):
    """Neither how far out they are, nor in which unit they are measured; and the rest decides."""
    estimate = {}
    for name, x in {"as is": X, "farther": np.where(X < 0, 100 * X, X), "in seconds": 1e-9 * X}.items():
        np.save(tmp_path / "x.npy", x)
        result = minstein("fit", "x.npy", "-m", "gaussian", "--robust", "--json")
        estimate[name] = estimates(result)
    np.testing.assert_allclose(estimate["farther"], estimate["as is"], rtol=0.01)
    np.testing.assert_allclose(estimate["in seconds"] * 1e9, estimate["as is"], rtol=1e-6)
    clean = X[X > 0]
    errors = clean.std() / np.sqrt(64) * np.array([1, 1 / np.sqrt(2)])
    assert np.all(np.abs(estimate["as is"] - [clean.mean(), clean.std()]) < errors)
    assert "vanishes far from the bulk" in " ".join(json.loads(result.stdout)["notes"])


# Models


def built(name, d, settings=(), fixed=(), starts=()):
    x = np.random.default_rng(d).normal(10.0, 2.0, (50, d))
    return model_of.build(choose("model", name, MODELS), Values(dict(settings), dict(fixed), dict(starts)), x)[0]


def test_shapes_follow_the_data():
    assert ms.params.names(built("gaussian", 1)) == ("loc", "scale")
    assert np.shape(built("gaussian", 3).scale) == (3, 3)
    assert np.shape(built("student-t", 11).scale) == (11,)
    assert np.shape(built("gaussian", 3, {"scale": "diagonal"}).scale) == (3,)
    assert np.shape(built("gaussian", 3, {"scale": "scalar"}).scale) == ()
    assert float(built("symmetric-bessel", 2).smoothness) == 2.5
    np.testing.assert_allclose(built("gaussian", 3).loc, 10, atol=1.5)


def test_values_of_parameters():
    model = built("student-t", 2, {"df": 7.0}, {"scale": 2.0}, {"loc": 1.0})
    assert ms.params.names(model) == ("loc[0]", "loc[1]")
    np.testing.assert_array_equal(model.loc, [1, 1])
    assert float(model.df) == 7
    assert ms.params.names(built("student-t", 1, starts={"df": 3.0})) == ("loc", "scale", "df")
    matrix = [[1.0, 0.0], [0.5, 2.0]]
    np.testing.assert_array_equal(built("gaussian", 2, fixed={"scale": matrix}).scale.value, matrix)


def test_a_function_of_ones_own(minstein, own):
    result = minstein(
        "fit", NEWCOMB, "-m", "own.py:log_p", "-d", "sm", "--start", "mu=20", "--fix", "sigma=10", "--json"
    )
    np.testing.assert_allclose(estimates(result), [X.mean()], rtol=1e-8)


def test_models_of_ones_own(own, tmp_path, monkeypatch):
    """A model is taken as it is; a function makes one from --set; both by file and by module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own", raising=False)
    x = X[:, None]
    model, notes = model_of.build(choose("model", "own:model", MODELS), Values({}, {}, {"sigma": 7.0}), x)
    assert notes[0] == "The model is own:model."
    assert notes[1].startswith("mu is unconstrained")
    np.testing.assert_allclose(ms.params.theta(model), [0, 7])
    made, _ = model_of.build(choose("model", "own.py:make", MODELS), Values({"width": 5.0}, {}, {"mu": 1.0}), x)
    assert ms.params.names(made) == ("mu",)
    assert float(made.params["sigma"].value) == 5
    held, _ = model_of.build(choose("model", "own.py:model", MODELS), Values({}, {"sigma": 3.0}, {}), x)
    assert ms.params.names(held) == ("mu",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["own.py:nan", "--start", "a=1"], "returns nan at 66 of 66 observations, the first in row 1"),
        (["own.py:log_p"], "Give its parameters: --start"),
        (["own.py:number"], "is not a model"),
        (["own.py:other"], "has no 'other'"),
        (["own.py:model", "--start", "nu=1"], "no free parameter named 'nu'. Did you mean 'mu'?"),
        (["own.py:model", "--start", "sigma=-1"], "outside the range of the parameter"),
        (["own.py:model", "--fix", "mu=1,2"], "mu has shape"),
        (["own.py:model", "--set", "mu=1"], "--set does not apply"),
        (["nowhere_at_all:model"], "could not be run: ModuleNotFoundError"),
    ],
)
def test_models_that_are_refused(minstein, own, arguments, message):
    result = minstein("fit", NEWCOMB, "-m", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_leaves_by_name():
    model = ms.models.from_log_density(lambda p, x: x[0], [{"a": 1.0}, np.ones(2), 3, ms.positive(2.0)])
    assert list(ms.params.leaves(model)) == ["theta[0].a", "theta[1]", "theta[3]"]
    held = ms.params.with_leaf(model, "theta[1]", ms.fixed(np.zeros(2)))
    assert ms.params.names(held) == ("theta[0].a", "theta[3]")
    with pytest.raises(ValueError, match="no leaf 'b'"):
        ms.params.with_leaf(model, "b", 1.0)


# Discrepancies


def discrepancy(**given):
    names = ("discrepancy", "kernel", "lengthscale", "diffusion", "statistic")
    asked = wish(**{name: given.get(name) for name in names}, goal=None)
    return build(asked, np.column_stack([X, X**2]), ms.models.Gaussian([0.0, 0.0], 1.0))[0]


def test_kernels_and_their_lengthscales():
    x = np.column_stack([X, X**2])
    kernel = discrepancy(kernel="matern:smoothness=3.5", lengthscale="2*median").kernel
    whitened = np.linalg.solve(kernel.factor, x.T).T
    np.testing.assert_allclose(kernel.kernel.lengthscale, 2 * ms.kernels.median_heuristic(whitened))
    assert kernel.kernel.smoothness == 3.5
    raw = discrepancy(kernel="gaussian", lengthscale="3")
    assert float(raw.kernel.lengthscale) == 3
    assert float(raw.diffusion.value) == 1
    assert discrepancy(kernel="imq:c=2,beta=-0.9", statistic="u").unbiased


def test_diffusions():
    x = np.column_stack([X, X**2])
    centre = np.median(x, axis=0)
    mad = 1.4826 * np.median(np.abs(x - centre), axis=0)
    z = np.array([20.0, 500.0])
    r = np.linalg.norm((z - centre) / mad)
    with jax.enable_x64(True):
        np.testing.assert_allclose(discrepancy(diffusion="decay:3").diffusion.field(z), mad / (1 + r**3))
        found = discrepancy(discrepancy="dsm", diffusion="redescending").diffusion.field(z)
        np.testing.assert_allclose(found, mad * np.exp(-(r**2) / 2 / 2.5**2))
        plain = discrepancy(diffusion="decay:2,centre=0,scale=1").diffusion.field(z)
        np.testing.assert_allclose(plain, 1 / (1 + z @ z))


@pytest.mark.parametrize("entry", [*KERNELS, *DIFFUSIONS], ids=lambda e: e.name)
def test_everything_in_the_catalogue_can_be_used(entry):
    option = "kernel" if entry in KERNELS else "diffusion"
    assert discrepancy(**{option: "decay:2" if entry.name == "decay" else entry.name}).kernel is not None


# Discrete data

BITS = np.array(
    [[0, 0, 1]] * 3 + [[1, 1, 0]] * 4 + [[0, 1, 1]] * 2 + [[1, 0, 1]] * 3 + [[1, 1, 1]] * 2 + [[0, 0, 0]] * 4
)


@pytest.mark.parametrize("name", ["boltzmann-machine", "ising"])
def test_a_field_for_each_column_and_a_coupling_for_each_pair(name):
    model, notes = model_of.build(choose("model", name, MODELS), Values({}, {"coupling": 0.5}, {"field": 1.0}), BITS)
    assert ms.params.names(model) == ("field[0]", "field[1]", "field[2]")
    np.testing.assert_array_equal(ms.params.theta(model), np.ones(3))
    assert notes[0].endswith("in the order [0]–[1], [0]–[2], …, [1]–[2].")
    point = np.array([0.0, 1.0, 1.0]) if name == "boltzmann-machine" else np.array([-1.0, 1.0, 1.0])
    assert float(model(point)) == (2.5 if name == "boltzmann-machine" else 0.5)


@pytest.mark.parametrize("d", [1, 2])
def test_counts_have_a_rate_and_a_dispersion_for_each_column(d):
    x = np.random.default_rng(0).poisson(4.0, (500, d)).astype(float)
    model, _ = model_of.build(choose("model", "conway-maxwell-poisson", MODELS), Values({}, {}, {}), x)
    assert len(ms.params.names(model)) == 2 * d
    np.testing.assert_allclose(model.dispersion, 1.0, atol=0.4)


def test_independent_bits_have_the_logits_of_their_means(minstein, tmp_path):
    """Without couplings the pseudo-likelihood is the likelihood, and its errors are those of a logit."""
    np.savetxt(tmp_path / "bits.csv", BITS, delimiter=",", header="a,b,c", comments="", fmt="%d")
    command = ("fit", "bits.csv", "-m", "boltzmann-machine", "-d", "pseudo-likelihood", "--fix", "coupling=0", "--json")
    result = minstein(*command)
    p = BITS.mean(axis=0)
    np.testing.assert_allclose(estimates(result), np.log(p / (1 - p)), rtol=1e-6)
    errors = [found["std_error"] for found in json.loads(result.stdout)["parameters"].values()]
    np.testing.assert_allclose(errors, 1 / np.sqrt(len(BITS) * p * (1 - p)), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, ms.MPF()),
        ({"discrepancy": "mpf"}, ms.MPF()),
        ({"discrepancy": "dfd"}, ms.DFD()),
        ({"discrepancy": "pseudo-likelihood"}, ms.PseudoLikelihood()),
        ({"discrepancy": "discrete-ksd"}, ms.DiscreteKSD()),
        (
            {"discrepancy": "discrete-ksd", "lengthscale": "2", "statistic": "v"},
            ms.DiscreteKSD(ms.kernels.Hamming(2.0), unbiased=False),
        ),
        ({"discrepancy": "cd"}, ms.CD(ms.markov.Gibbs())),
    ],
)
def test_discrepancies_of_discrete_models(arguments, found):
    names = ("discrepancy", "kernel", "lengthscale", "diffusion", "statistic")
    asked = wish(**{name: arguments.get(name) for name in names}, goal=None)
    model = ms.models.BoltzmannMachine(np.zeros(3), np.zeros(3))
    assert repr(build(asked, BITS.astype(float), model)[0]) == repr(found)


@pytest.mark.slow
def test_all_that_out_writes_of_a_discrete_fit(minstein, tmp_path):
    """The default, with standard errors; no density, no influence curve, and the page says why."""
    result = minstein("fit", "dataset:digits", "-c", "r0c1,r1c1", "-m", "boltzmann-machine", "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert "std. error" in result.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "summary.txt",
        "fit.json",
        "report.html",
        "trace.png",
        "intervals.png",
        "loss.png",
        "minstein.sha256",
    }
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "by minimum probability flow" in page
    assert "a discrete model need not have" in page
    assert "most influential observations" in page
    assert "slope of the log-density" not in page
    assert "fitted density" not in page


@pytest.mark.slow
def test_contrastive_divergence_is_drawn_from_the_seed(minstein):
    command = ("fit", "dataset:digits", "-c", "r0c1,r1c1", "-m", "boltzmann-machine", "-d", "cd", "--json")
    first, same, other = (estimates(minstein(*command, "--seed", seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert np.any(first != other)
    x = ms.datasets.load("digits").x[:, [1, 5]]
    table = np.array([[np.mean((x == [i, j]).all(1)) for j in (0, 1)] for i in (0, 1)])
    exact = [np.log(table[1, 0] / table[0, 0]), np.log(table[0, 1] / table[0, 0])]
    exact += [np.log(table[1, 1] * table[0, 0] / table[1, 0] / table[0, 1])]
    np.testing.assert_allclose(first, exact, atol=0.2)


# Statuses


def test_no_minimum_is_status_1(minstein, own):
    result = minstein("fit", NEWCOMB, "-m", "own.py:level", "-d", "sm", "--start", "a=1", "--save", "f.json")
    assert result.exit_code == 1
    assert "Not converged: The information tensor is singular" in result.stderr
    assert "std. error" not in result.stdout
    assert not ms.load("f.json").converged


def test_quiet_prints_nothing(minstein):
    result = minstein("fit", NEWCOMB, "-m", "gaussian", "-d", "sm", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


# Files


def fit(minstein, *extra):
    return minstein("fit", NEWCOMB, "-m", "gaussian", "-d", "sm", *extra)


def test_saved_fits_are_shown_and_compared(minstein, own):
    printed = fit(minstein, "--save", "a.json").stdout
    summary, _, last = printed.rstrip("\n").rpartition("\n")
    assert last == "Wrote a.json"
    assert minstein("show", "a.json").stdout.rstrip("\n") == summary
    assert "| `loc` |" in minstein("show", "a.json", "--format", "markdown").stdout
    own_model = ("-m", "own.py:log_p", "--start", "mu=20", "--fix", "sigma=10")
    minstein("fit", NEWCOMB, *own_model, "-d", "sm", "--save", "b.json")
    lines = minstein("compare", "a.json", "b.json").stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert rows["a"] == ["b"]
    assert rows["loc"] == [f"{X.mean():.4g}", f"({X.std() / np.sqrt(66):.2g})", "–"]
    assert rows["discrepancy"] == ["SM", "SM"]


def test_all_that_out_writes(minstein, tmp_path, monkeypatch):
    """The report itself is the library's; here it is a stand-in that shows what it was given."""

    def report(fit, x, path, **rest):
        path.write_text(f"{len(x)} {sorted(rest)} {rest['columns']}")

    monkeypatch.setattr(ms, "report", report, raising=False)
    monkeypatch.setattr(ms.plot, "loss", lambda fit, x, ax: ms.plot.trace(fit, ax=ax))
    result = fit(minstein, "--out", "new/out", "--report", "page.html")
    assert result.exit_code == 0, result.stderr
    found = sorted(path.name for path in (tmp_path / "new" / "out").iterdir())
    pictures = ["density.png", "influence.png", "intervals.png", "loss.png", "trace.png"]
    assert found == sorted([*pictures, "fit.json", "report.html", "summary.txt", "minstein.sha256"])
    assert (
        (tmp_path / "page.html")
        .read_text()
        .startswith("66 ['alpha', 'bootstrap', 'columns', 'command', 'comparison', 'notes', 'rows', 'seed']")
    )
    assert (tmp_path / "new/out/summary.txt").read_text().rstrip() in result.stdout
    for name in pictures:
        assert (tmp_path / "new/out" / name).read_bytes().startswith(b"\x89PNG")


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("where", "name", "what", "code", "message"), [
    (outputs, "_flush", full, 2, "out/minstein.sha256 could not be written: No space left on device"),
    (writing, "_report", interrupted, 130, "Interrupted: nothing was written"),
])  # fmt: skip
def test_earlier_output_is_untouched_when_writing_fails(
    minstein, tmp_path, monkeypatch, where, name, what, code, message
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.txt").write_text("earlier")
    (tmp_path / "a.json").write_text("earlier")
    monkeypatch.setattr(ms, "report", lambda fit, x, path, **_: path.write_text("page"), raising=False)
    monkeypatch.setattr(writing, "_pictures", lambda done: {})
    monkeypatch.setattr(where, name, what)
    result = fit(minstein, "--out", "out", "--save", "fresh/b.json")
    assert result.exit_code == code
    assert message in result.stderr
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["a.json", "out", "out/summary.txt"]
    assert (tmp_path / "out" / "summary.txt").read_text() == "earlier"


def test_files_have_ordinary_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        with replacing(tmp_path / "a") as file:
            file.write(b"a")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("told", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_while_a_models_code_runs(tmp_path, told):
    (tmp_path / "slow.py").write_text(
        "import sys, time\nprint('running', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    )
    (tmp_path / "a.json").write_text("earlier")
    code = (  # a shell that runs the tests in the background has told its children to ignore Ctrl-C
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from minstein_cli import main; main()"
    )
    command = [sys.executable, "-c", code, "fit", NEWCOMB, "-m", "slow.py:model", "--save", "a.json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr.readline() == "running\n"
        run.send_signal(told)
        assert run.stderr.read() == "Interrupted: nothing was written.\n"
    assert run.returncode == 130
    assert (tmp_path / "a.json").read_text() == "earlier"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name not in ("cache", "__pycache__")) == ["a.json", "slow.py"]


def test_data_that_ship(minstein, monkeypatch):
    dataset = SimpleNamespace(x=X[:, None], columns=("nanoseconds",), description="Light.")
    shelf = SimpleNamespace(names=lambda: ["newcomb"], load=lambda name: dataset)
    monkeypatch.setattr(ms, "datasets", shelf, raising=False)
    result = minstein("fit", "dataset:newcomb", "-m", "gaussian", "-d", "sm", "--json")
    np.testing.assert_allclose(estimates(result), [X.mean(), X.std()], rtol=1e-8)
    assert "Did you mean 'newcomb'?" in minstein("fit", "dataset:newcom", "-m", "gaussian").stderr
    assert minstein("datasets").stdout.splitlines()[1].split() == ["newcomb", "66", "1", "Light."]


# Slow


@pytest.mark.slow
def test_a_second_fit_of_the_same_shape_compiles_nothing(tmp_path):
    command = [sys.executable, "-m", "minstein", "fit", NEWCOMB, "-m", "gaussian", "-d", "sm", "-q"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    subprocess.run(command, check=True, env=environment)
    first = sorted(tmp_path.rglob("*-cache"))
    subprocess.run(command, check=True, env=environment)
    assert first
    assert sorted(tmp_path.rglob("*-cache")) == first


@pytest.mark.slow
def test_the_bootstrap_itself(minstein):
    result = minstein("fit", NEWCOMB, "-m", "gaussian", "-d", "sm", "--json", "--bootstrap", 200)
    error = json.loads(result.stdout)["bootstrap"]["parameters"]["loc"]["std_error"]
    assert abs(error / (X.std() / np.sqrt(66)) - 1) < 4 / np.sqrt(2 * 200)


@pytest.mark.slow
def test_the_robust_discrepancy_is_efficient_at_the_normal_distribution():
    """95 % for the location, by the sandwich on the quantiles of a normal sample, whose variance bound is 1/n."""
    n = 1000
    x = stats.norm.ppf((np.arange(n) + 0.5) / n)[:, None]
    fit = ms.fit(ms.models.Gaussian(0.0, 1.0), x, robust_discrepancy(x))
    assert abs(1 / (n * fit.bse["loc"] ** 2) - 0.955) < 0.015


@pytest.mark.slow
def test_rows_on_disk(minstein):
    """The estimates of rows in memory; what needs every row there is refused before JAX is loaded."""
    np.save("x.npy", np.random.default_rng(0).normal(1.0, 2.0, (300, 2)))
    fit = ("fit", "x.npy", "-m", "gaussian", "--fix", "scale=2", "-d", "sm", "-c", "2", "--json")
    found, expected = (json.loads(minstein(*fit, how).stdout) for how in ("--on-disk", "--in-memory"))
    assert found["columns"] == ["x2"]
    for part in ("estimate", "std_error"):
        assert found["parameters"]["loc"][part] == pytest.approx(expected["parameters"]["loc"][part], rel=1e-9)
    refused = minstein(*fit, "--on-disk", "--bootstrap", 10)
    assert refused.exit_code == 2
    assert "--bootstrap cannot be combined with data that are read from disk in blocks" in refused.stderr
