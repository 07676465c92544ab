"""The experiments of the paper: one of them from end to end, and the numbers they are judged by."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from minstein_cli.app import app
from minstein_paper.catalogue import NAMES
from minstein_paper.claim import Verdict, verdict
from minstein_paper.measured import Measured, mean, ratio, rmse, share
from minstein_paper.page import markdown_table
from minstein_paper.patches import patches
from minstein_paper.pot import amari, log_density, log_likelihood, log_normaliser
from minstein_paper.run import reproduce


@pytest.mark.slow
def test_generalised_gamma(tmp_path):
    """One experiment from end to end: its claims hold by far, its files are there, and it is not done twice."""
    found = reproduce(["gamma"], tmp_path, seed=1, progress=False)
    (findings,) = found.values()
    assert {claim.verdict for claim in findings.claims} == {Verdict.HOLDS}
    for picture in findings.pictures:
        assert (tmp_path / f"{picture.name}.png").stat().st_size > 10_000
        assert "<svg" in (tmp_path / f"{picture.name}.svg").read_text(encoding="utf-8")
    for table in findings.tables:
        assert (tmp_path / f"{table.name}.csv").read_text(encoding="utf-8").startswith(table.columns[0])
    assert "SM is not robust" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert reproduce(["gamma"], tmp_path, seed=1, progress=False) == found
    with pytest.raises(ValueError, match="seed 1"):
        reproduce(["gamma"], tmp_path, seed=2, progress=False)


def test_list_needs_no_directory():
    result = CliRunner().invoke(app, ["paper", "list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in NAMES)


def test_a_run_needs_a_directory():
    result = CliRunner().invoke(app, ["paper", "liu"])
    assert result.exit_code == 2
    assert "--out" in result.output


def test_verdicts():
    assert verdict(True) == "holds"
    assert verdict(False, otherwise=True) == "holds partly"
    assert verdict(False) == "does not hold"


def test_monte_carlo_errors():
    """The stated errors are the standard deviations of the numbers over repeated simulation."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4000, 100))
    b = 0.8 * a + 0.6 * rng.standard_normal((4000, 100))
    for statistic in (
        lambda a, b: mean(a),
        lambda a, b: rmse(a, 0.0),
        lambda a, b: ratio(a, b, 0.0),
        lambda a, b: share(a > 1),
    ):
        values = np.array([statistic(*pair) for pair in zip(a, b, strict=True)])
        assert values[:, 1].mean() == pytest.approx(values[:, 0].std(), rel=0.06)


def test_measured():
    assert str(Measured(0.7192, 0.0301)) == "0.719 ± 0.030"
    assert Measured(0.9, 0.04).below(1.0)
    assert not Measured(0.93, 0.04).below(1.0)
    assert Measured(1.0, 0.1).agrees(1.29)


def test_bars_in_a_cell_do_not_end_it():
    assert markdown_table(["a|b"], [["|x|"]]).splitlines() == ["| a\\|b |", "| --- |", "| \\|x\\| |"]


def test_square_product_of_experts():
    """Its normaliser is the integral of its density, and its experts are independent Student-t variables."""
    theta = {"W": np.array([[1.0, 0.4], [-0.3, 1.5]]), "excess": np.array([1.2, 2.0])}
    nodes, weights = np.polynomial.legendre.leggauss(200)
    line, weights = np.tan(nodes * np.pi / 2), weights * np.pi / 2 / np.cos(nodes * np.pi / 2) ** 2
    x = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    with jax.enable_x64(True):
        density = np.exp(jax.vmap(lambda x: log_density(theta, x))(jnp.asarray(x))).reshape(200, 200)
        assert weights @ density @ weights == pytest.approx(np.exp(float(log_normaliser(theta))), rel=1e-4)
    df = 2 * theta["excess"]
    t = stats.t(df, scale=np.sqrt(2 / df)).logpdf(x @ theta["W"].T).sum(axis=1) + np.log(np.linalg.det(theta["W"]))
    flat = np.concatenate([theta["W"].ravel(), theta["excess"]])
    assert log_likelihood(flat, x[:50]) == pytest.approx(t[:50].mean(), rel=1e-12)
    assert amari(np.array([[0.0, -3.0], [2.0, 0.0]]) @ theta["W"], theta["W"]) == pytest.approx(0, abs=1e-12)
    assert amari(np.array([[1.0, 0.5], [0.5, 1.0]]) @ theta["W"], theta["W"]) == pytest.approx(0.5)


def test_photographs_are_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"scikit-learn.*minstein\[paper\]"):
        patches()
