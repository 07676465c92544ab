"""Saving and loading a fit: nothing lost, nothing executed."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms

T5 = ms.models.StudentT(25.0, 10.0, 5.0)
X = T5.sample(jax.random.key(1), 100)


@pytest.fixture(scope="module")
def fit():
    return ms.fit(T5, X)


def test_nothing_is_lost(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    again = ms.load(tmp_path / "fit.json")
    assert eqx.tree_equal(fit, again)
    assert repr(again) == repr(fit)
    assert again.discrepancy(again.model, X) == fit.discrepancy(fit.model, X)
    content = json.loads((tmp_path / "fit.json").read_text())
    assert content["minstein"] == ms.__version__
    assert {"jax", "numpy", "python", "version"} <= content.keys()


@pytest.mark.slow
def test_random_fits_keep_their_key(tmp_path):
    fit = ms.fit(T5, X, solver=ms.GaussNewton(starts=1), key=jax.random.key(3))
    fit.save(tmp_path / "fit.json")
    again = ms.load(tmp_path / "fit.json")
    assert jax.random.key_data(again.key).tolist() == jax.random.key_data(jax.random.key(3)).tolist()


@pytest.mark.slow
def test_functions_are_given_back(tmp_path):
    m = lambda model, x: 1 + ((x[0] - model.loc) / model.scale) ** 2 / 5
    dksd = ms.DKSD(ms.kernels.IMQ(10.0), ms.diffusions.of_model(m))
    fit = ms.fit(T5, X, dksd)
    fit.save(tmp_path / "fit.json")
    bare = ms.load(tmp_path / "fit.json")
    assert bare.params == fit.params
    assert bare.bse == fit.bse
    with pytest.raises(TypeError, match="holds no code"):
        bare.discrepancy(bare.model, X)
    full = ms.load(tmp_path / "fit.json", discrepancy=fit.discrepancy)
    assert full.discrepancy(full.model, X) == fit.discrepancy(fit.model, X)


@pytest.mark.slow
def test_a_module_of_the_user(tmp_path):
    network = eqx.nn.MLP(1, "scalar", 4, 1, key=jax.random.key(0))
    solver = ms.SGD(steps=3, batch=10)
    fit = ms.fit(network, X / 30, ms.SM(), solver=solver, key=jax.random.key(0), covariance=False)
    fit.save(tmp_path / "fit.json")
    np.testing.assert_array_equal(ms.load(tmp_path / "fit.json").theta, fit.theta)
    full = ms.load(tmp_path / "fit.json", model=network)
    np.testing.assert_array_equal(ms.params.theta(full.model), fit.theta)
    assert full.model(jnp.zeros(1)) == fit.model(jnp.zeros(1))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: "{",
        lambda content: "[1, 2]",
        lambda content: json.dumps({**content, "format": "other"}),
        lambda content: json.dumps({**content, "content": {"class": "os.system", "fields": {}}}),
        lambda content: json.dumps({**content, "content": {"class": "minstein.params.Marked", "fields": {}}}),
        lambda content: json.dumps({**content, "content": {"strange": 1}}),
        lambda content: json.dumps({**content, "content": 3}),
    ],
    ids=["cut off", "a list", "another format", "a foreign class", "missing fields", "strange", "a number"],
)
def test_damaged_files(fit, tmp_path, damage):
    path = tmp_path / "fit.json"
    fit.save(path)
    path.write_text(damage(json.loads(path.read_text())))
    with pytest.raises(ValueError, match="not a fit that minstein saved"):
        ms.load(path)


def test_newer_files(fit, tmp_path):
    path = tmp_path / "fit.json"
    fit.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(ValueError, match="newer minstein"):
        ms.load(path)


def test_a_failed_write_leaves_the_old_file(fit, tmp_path, monkeypatch):
    path = tmp_path / "fit.json"
    fit.save(path)
    before = path.read_text()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        fit.save(path)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.json"]


SAVED = Path(__file__).parents[1] / "saved"
"""Fits that minstein 0.1.0 saved, when files named classes by their modules."""


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("student-t", {"loc": 1.212198291679888, "scale": 1.417511555972852}),
        ("own", {"rate": 0.04020304306726506}),
        ("counts", {"rate": 3.4650717418125287, "dispersion": 1.0050189470232402}),
        ("designed", {"loc": -0.06390012074479519, "scale": 0.9818731561653582}),
    ],
)
def test_files_of_the_first_version_load(name, params, tmp_path):
    fit = ms.load(SAVED / f"{name}.json")
    assert fit.params == params
    fit.save(tmp_path / "again.json")
    assert eqx.tree_equal(fit, ms.load(tmp_path / "again.json"))


def test_the_discrepancy_of_an_old_file_is_the_same_on_the_same_data():
    fit = ms.load(SAVED / "student-t.json")
    x = np.random.default_rng(0).standard_t(5, 40) + 1
    np.testing.assert_allclose(fit.discrepancy(fit.model, x), fit.loss, rtol=1e-12)


def test_files_name_kinds_and_not_modules(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    assert "minstein." not in json.dumps(json.loads((tmp_path / "fit.json").read_text())["content"])
