"""The experiments of the paper from end to end, and the numbers they are judged by."""

import dataclasses
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from studies.__main__ import main
from studies.paper.catalogue import NAMES
from studies.paper.claim import verdict
from studies.paper.lab import Lab
from studies.paper.measured import Measured, mean, ratio, rmse, share
from studies.paper.page import markdown_table
from studies.paper.patches import patches
from studies.paper.pot import amari, log_density, log_likelihood, log_normaliser
from studies.paper.run import reproduce
from studies.paper.side_by_side import side_by_side
from studies.replacing import replacing, write_text

OPEN = ("theory: complexity", "experts: a diffusion that grows", "experts: saturated patches")
"""A claim about seconds, which a busy machine may refute, and claims that the next random numbers may decide anew."""


def documented() -> dict[str, str]:
    """Claims and verdicts in the table of the documentation."""
    page = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ([^|]*: [^|]*|bessel scale) \|.*\| ([^|]*) \|$", page, re.M))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_experiment(name, tmp_path):
    """Each experiment comes to the verdicts that the documentation tells, and leaves its figures and tables."""
    (findings,) = reproduce([name], tmp_path, seed=1, progress=False).values()
    told, page = documented(), (tmp_path / "index.html").read_text(encoding="utf-8")
    for claim in findings.claims:
        assert claim.name in OPEN or claim.verdict == told[claim.name], claim
        assert claim.name in page
    for picture in findings.pictures:
        assert (tmp_path / f"{picture.name}.png").stat().st_size > 10_000
        assert "<svg" in (tmp_path / f"{picture.name}.svg").read_text(encoding="utf-8")
    for table in findings.tables:
        assert (tmp_path / f"{table.name}.csv").read_text(encoding="utf-8").startswith(table.columns[0])


def test_an_experiment_goes_on_where_it_was_interrupted(tmp_path):
    """The second run takes the first half of the replications from the first, and ends with the same numbers."""
    directories = tmp_path / "whole", tmp_path / "broken"
    whole, broken = (Lab(directory, 1, False, lambda text: None) for directory in directories)
    noise = lambda given, key: given + jax.random.normal(key, (2,))
    rows = whole.replicate("noise", noise, np.ones(2), quick=50, full=50)
    calls = []

    def interrupted(text):
        calls.append(text)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Lab(directories[1], 1, False, interrupted).replicate("noise", noise, np.ones(2), quick=50, full=50)
    calls.clear()
    again = dataclasses.replace(broken, say=calls.append).replicate("noise", noise, np.ones(2), quick=50, full=50)
    assert calls == ["noise, 25 of 50"]
    np.testing.assert_array_equal(again, rows)


def doubled(number, say):
    if number < 0:
        raise ValueError("negative")
    say(f"{number} is doubled")
    return 2 * number


@pytest.mark.slow
def test_side_by_side():
    said = []
    assert dict(side_by_side(doubled, {"a": (1,), "b": (2,), "c": (3,)}, 2, said.append)) == {"a": 2, "b": 4, "c": 6}
    assert set(said) == {f"{i} is doubled" for i in (1, 2, 3)}
    with pytest.raises(ValueError, match="negative"):
        list(side_by_side(doubled, {"a": (-1,), "b": (2,)}, 1, said.append))


def test_a_directory_holds_one_seed(tmp_path):
    (tmp_path / "settings.json").write_text('{"seed": 1, "minstein": "0"}', encoding="utf-8")
    with pytest.raises(ValueError, match="seed 1"):
        reproduce(["gamma"], tmp_path, seed=2, progress=False)


def test_list_needs_no_directory(capsys):
    assert main(["paper", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES)


def test_a_run_needs_a_directory(capsys):
    with pytest.raises(SystemExit) as ending:
        main(["paper", "liu"])
    assert ending.value.code == 2
    assert "--out" in capsys.readouterr().err


def test_what_is_wrong_is_told_in_one_message(tmp_path, capsys):
    (tmp_path / "settings.json").write_text('{"seed": 1, "minstein": "0"}', encoding="utf-8")
    assert main(["paper", "gamma", "--out", str(tmp_path), "--seed", "2"]) == 2
    assert capsys.readouterr().err.startswith(f"Error: {tmp_path} holds results of seed 1")
    with pytest.raises(ValueError, match="seed 1"):
        main(["paper", "gamma", "--out", str(tmp_path), "--seed", "2", "--debug"])


def test_an_interrupted_command_says_how_to_continue(tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("studies.paper.run.reproduce", interrupted)
    assert main(["paper", "all", "--out", str(tmp_path)]) == 130
    assert f"{tmp_path} keeps what was finished" in capsys.readouterr().err


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "page.txt"
    write_text(path, "old")

    def broken_off():
        with replacing(path) as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert path.read_text(encoding="utf-8") == "old"
    write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_verdicts():
    assert verdict(True) == "holds"
    assert verdict(False, otherwise=True) == "holds partly"
    assert verdict(False) == "does not hold"
    assert verdict(False, contrary=False) == "undecided"


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
    with pytest.raises(ImportError, match=r"scikit-learn.*\[studies\]"):
        patches()
