"""The experiments of the paper: `all --quick` once, and what each claim's verdict is expected to be.

A verdict is computed from the replications with a margin of two Monte-Carlo errors; where the expected one depends on
chance, the other is allowed too.
"""

import numpy as np
import pytest
from click.testing import CliRunner

from minstein_cli.app import app
from minstein_paper.catalogue import EXPERIMENTS, NAMES
from minstein_paper.claim import Verdict, verdict
from minstein_paper.measured import Measured, mean, ratio, rmse, share
from minstein_paper.page import markdown_table

HOLDS, PARTLY, FAILS, UNDECIDABLE = Verdict.HOLDS, Verdict.PARTLY, Verdict.FAILS, Verdict.UNDECIDABLE

EXPECTED = {
    "bessel location: s = 1": PARTLY,
    "bessel location: s = 0.6": HOLDS,
    "bessel location: s = 2": HOLDS,
    "bessel scale": PARTLY,
    "student-t location: SM and KSD struggle": FAILS,
    "student-t location: far from convex": HOLDS,
    "student-t location: DKSD accurate": PARTLY,
    "student-t scale: non-negative versions": FAILS,
    "student-t scale: DKSD": PARTLY,
    "stochastic: Riemannian in a few dozen": HOLDS,
    "stochastic: SGD has not converged": PARTLY,
    "gamma: SM is not robust": HOLDS,
    "gamma: DSM is robust": HOLDS,
    "gamma: DKSD is robust": HOLDS,
    "gamma: α by θ₂": HOLDS,
    "liu: DKSD recovers θ": PARTLY,
    "liu: significant gain": PARTLY,
    "liu: the model": UNDECIDABLE,
    "robustness: Student-t": HOLDS,
    "robustness: Bessel": HOLDS,
    "robustness: m as printed, data at 25": PARTLY,
    "robustness: Bessel with ν = 1000": UNDECIDABLE,
    "theory: rate": HOLDS,
    "theory: variance of DKSD": HOLDS,
    "theory: coverage of DKSD": HOLDS,
    "theory: coverage of DSM": FAILS,
    "theory: influence function": PARTLY,
    "theory: KSD is bias-robust, SM is not": HOLDS,
    "theory: DSM is a limit of DKSD": HOLDS,
    "theory: convex U-statistics": FAILS,
    "theory: complexity": HOLDS,
}


@pytest.mark.slow
def test_every_claim_has_the_expected_verdict(tmp_path):
    from minstein_paper.run import reproduce

    found = reproduce(NAMES, tmp_path, seed=1, progress=False)
    verdicts = {claim.name: claim.verdict for findings in found.values() for claim in findings.claims}
    assert verdicts == EXPECTED
    for findings in found.values():
        for picture in findings.pictures:
            assert (tmp_path / f"{picture.name}.png").stat().st_size > 10_000
            assert "<svg" in (tmp_path / f"{picture.name}.svg").read_text(encoding="utf-8")
        for table in findings.tables:
            assert (tmp_path / f"{table.name}.csv").read_text(encoding="utf-8").startswith(table.columns[0])
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(experiment.title.replace("'", "&#x27;") in page for experiment in EXPERIMENTS)
    assert "does not hold" in (tmp_path / "index.md").read_text(encoding="utf-8")
    again = reproduce(NAMES, tmp_path, seed=1, progress=False)
    assert again == found
    with pytest.raises(ValueError, match="seed 1"):
        reproduce(NAMES, tmp_path, seed=2, progress=False)


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
