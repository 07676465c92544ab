"""Where the density ends, from the command line."""

import json

import numpy as np
import pytest
from scipy import stats

RNG = np.random.default_rng(31)
MODEL = "def log_p(p, x):\n    return -((x[0] - p['mu']) ** 2) / 2\n"


def test_a_truncated_normal_distribution(minstein, tmp_path):
    """Without its support the estimate is about 1.15 with a standard error of 0.04."""
    x = stats.truncnorm.rvs(-1, np.inf, 1.0, size=400, random_state=RNG)
    np.savetxt(tmp_path / "x.csv", x)
    (tmp_path / "own.py").write_text(MODEL)
    given = ("fit", "x.csv", "-m", "own.py:log_p", "--start", "mu=0", "--json")
    result = minstein(*given, "--space", "box:0,inf")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert abs(found["parameters"]["mu"]["estimate"] - 1) < 4 * found["parameters"]["mu"]["std_error"]
    assert any("The support has edges (low = 0)" in note for note in found["notes"])
    np.savetxt(tmp_path / "x.csv", x - 1)
    assert "outside the support" in minstein(*given, "--space", "box:0,inf").stderr


@pytest.mark.parametrize("text", ["box:0", "sphere", "box:1,0", "box:a,b", "box"])
def test_what_is_not_a_space(minstein, tmp_path, text):
    np.savetxt(tmp_path / "x.csv", RNG.normal(size=20))
    result = minstein("fit", "x.csv", "-m", "gaussian", "--space", text)
    assert result.exit_code == 2
    assert f"--space {text}" in result.stderr or repr(text) in result.stderr
