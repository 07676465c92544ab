"""Names and row numbers from files: shown as they are in the file, and never obeyed by a terminal or a typesetter."""

import json
import re
import sys
import unicodedata

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import minstein as ms
from minstein._text import clean
from minstein_cli.data import Reading, read
from minstein_cli.plain import plain

from .conftest import NEWCOMB

RNG = np.random.default_rng(5)


def heard(text: str) -> list[str]:
    """The characters that a terminal would obey, and those that turn the direction of writing."""
    turning = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    return [c for c in text if c != "\n" and (unicodedata.category(c) == "Cc" or c in turning)]


NASTY = [
    ("$x^{$", "a\x1b[31mb\x9b31m"),
    ("$\\frac$ \\alpha_{", "\u202egnp.exe\tb"),
    ("<script>alert(1)</script>", "[bold]x[/bold] & %s{0}"),
    ("é中😀" + "x" * 300, "_hidden"),
]


@pytest.fixture
def _no_grid(monkeypatch):
    """The trace stands in for the loss on a grid, which takes long and has no names of columns."""
    monkeypatch.setattr(ms.plot, "loss", lambda fit, x, ax: ms.plot.trace(fit, ax=ax))
    monkeypatch.setattr(sys.modules["minstein.report.figures"], "_MOST_FOR_LOSS", 0)


@pytest.mark.usefixtures("_no_grid")
@pytest.mark.parametrize("names", NASTY, ids=range(len(NASTY)))
def test_columns_of_any_name(minstein, tmp_path, names):
    header = ",".join(f'"{name}"' for name in names)
    rows = [f"{a},{b}" for a, b in RNG.normal(size=(60, 2))]
    (tmp_path / "x.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    result = minstein("fit", "x.csv", "-m", "gaussian", "-d", "sm", "--fix", "scale=1", "--out", "out")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for text in (result.output, page, (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")):
        assert not heard(text)
    assert "<script>" not in page


def test_a_parameter_of_any_name(minstein, tmp_path):
    name, x = "$x^{$ a\x1b[31mb\nc \u202egnp", RNG.normal(size=50)
    model = ms.models.from_log_density(lambda p, x: -((x[0] - p[name]) ** 2), {name: 0.0})
    fit = ms.fit(model, x, ms.SM())
    for file in ("a.json", "b.json"):
        fit.save(tmp_path / file)
    for command in (("show", "a.json"), ("show", "a.json", "--format", "html"), ("compare", "a.json", "b.json")):
        result = minstein(*command)
        assert result.exit_code == 0, result.stderr
        assert not heard(result.output)
    assert not heard(repr(fit))
    canvas = Figure()
    places = canvas.subplots(1, 3)
    ms.plot.intervals(fit, ax=places[0])
    ms.plot.influence(fit, x, ax=places[1])
    ms.plot.loss(fit, x, points=3, ax=places[2])
    FigureCanvasAgg(canvas).draw()


def test_messages_and_json_obey_too(minstein, tmp_path):
    (tmp_path / "x.csv").write_text("a\x1b[31m,b\x9b\u202e\n1,2\n,3\n2,5\n", encoding="utf-8")
    refused = minstein("fit", "x.csv", "-m", "gaussian")
    assert refused.exit_code == 2
    assert "missing" in refused.stderr
    assert not heard(refused.stderr)
    assert not heard(minstein("fit", "\x1b[31m.csv", "-m", "gaussian").stderr)
    found = minstein("fit", "x.csv", "-c", "2", "-m", "gaussian", "-d", "sm", "--json")
    assert found.exit_code == 0, found.stderr
    assert not heard(found.stdout)
    assert json.loads(found.stdout)["columns"] == ["b\ufffd\ufffd"]


def test_the_command_line_and_the_library_agree_on_what_is_unseen():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert plain(every) == clean(every)


# Rows


@pytest.mark.usefixtures("_no_grid")
def test_the_report_names_rows_as_the_file_does(minstein, tmp_path):
    """Two rows are left out before the outlier, which is row 12 of the data, on line 13."""
    values = [f"{v:.6f}" for v in RNG.normal(size=20)]
    values[2] = values[5] = ""
    values[11] = "30"
    (tmp_path / "x.csv").write_text("\n".join(["a,b", *(f"{v},{i % 7}" for i, v in enumerate(values))]))
    result = minstein("fit", "x.csv", "-m", "gaussian", "-d", "sm", "--fix", "scale=1", "--drop-missing",
                      "--report", "r.html", "-q")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert re.search(r"Row 12 alone moved", page)
    first = re.search(r'<tbody><tr><th scope="row">(\d+)</th><td>30</td>', page)
    assert first
    assert first[1] == "12"
    assert "25 spreads from the median in some variable: 1 of 18 rows (row 12)" in page
    assert "the first row of data being 1" in page


@pytest.mark.usefixtures("_no_grid")
def test_rows_have_the_numbers_they_are_given():
    x = np.append(RNG.normal(size=12), 30.0)
    fit = ms.fit(ms.models.Gaussian(0.0, ms.fixed(1.0)), x, ms.SM())
    assert "Row 112 alone" in ms.report(fit, x, rows=np.arange(100, 113))
    with pytest.raises(ValueError, match="a whole number for each of the 13 rows"):
        ms.report(fit, x, rows=[1, 2])


def test_shares_keep_the_numbers_of_their_rows(tmp_path):
    values = [f"{v:.6f},{i % 5}" for i, v in enumerate(RNG.normal(size=20))]
    values[0] = values[7] = values[19] = ",1"
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["a,b", *values]))
    whole = read(str(path), Reading(drop_missing=True))
    assert whole.rows.tolist() == [i + 1 for i in range(20) if i not in (0, 7, 19)]
    shares = [read(str(path), Reading(drop_missing=True), (i, 3)) for i in range(3)]
    assert np.concatenate([share.kept for share in shares]).tolist() == whole.kept.tolist()
    import gzip

    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    shares = [read(str(packed), Reading(drop_missing=True), (i, 3)) for i in range(3)]
    assert np.concatenate([share.kept for share in shares]).tolist() == whole.kept.tolist()
    np.testing.assert_array_equal(np.concatenate([share.x for share in shares]), whole.x)


def test_a_models_refusal_names_the_row_of_the_file(minstein, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import jax.numpy as jnp\ndef log_p(params, x):\n    return jnp.log(x[0]) - params['b'] * x[0]\n"
    )
    (tmp_path / "x.csv").write_text("a,b\n1,1\n,2\n2,1\n-3,1\n5,2\n")
    result = minstein("fit", "x.csv", "-m", "mine.py:log_p", "--start", "b=1", "--drop-missing")
    assert "the first in row 4." in result.stderr


# Columns that count rows


@pytest.mark.parametrize(("header", "first"), [(",a", 0), ("Unnamed: 0,a", 0), ('"",a', 1)])
def test_a_column_of_row_numbers_is_left_out(tmp_path, header, first):
    x = RNG.normal(size=9)
    path = tmp_path / "x.csv"
    path.write_text("\n".join([header, *(f"{i + first},{v}" for i, v in enumerate(x))]))
    data = read(str(path), Reading())
    np.testing.assert_allclose(data.x, x[:, None])
    assert data.columns == ("a",)
    assert "counts the rows and was left out" in data.notes[0]
    shares = [read(str(path), Reading(), (i, 2)).x for i in range(2)]
    np.testing.assert_allclose(np.concatenate(shares), x[:, None])
    assert read(str(path), Reading(columns=("1", "2"))).x.shape == (9, 2)


def test_a_column_without_a_name_that_holds_data_stays(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(",a\n0,1\n2,2\n1,5\n")
    assert read(str(path), Reading()).x.shape == (3, 2)


# Parameters of one's own


OWN = "import jax.numpy as jnp\ndef log_p(params, x):\n    return -((x[0] / params['scale']) ** 2) / 2\n"


def test_a_scale_of_ones_own_is_positive_if_told(minstein, tmp_path):
    """log p is even in the scale, so −σ is found as well as σ. Score matching of N(0, σ²) is at the mean square."""
    x = RNG.normal(size=80)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "mine.py").write_text(OWN)
    common = ["fit", "x.npy", "-m", "mine.py:log_p", "-d", "sm", "--json"]
    bare = json.loads(minstein(*common, "--start", "scale=-1").stdout)
    assert bare["parameters"]["scale"]["estimate"] < 0
    assert any("scale is unconstrained" in note for note in bare["notes"])
    told = json.loads(minstein(*common, "--start", "scale=1", "--positive", "scale").stdout)
    np.testing.assert_allclose(told["parameters"]["scale"]["estimate"], np.sqrt(np.mean(x**2)), rtol=1e-6)
    assert not any("unconstrained" in note for note in told["notes"])
    refused = minstein(*common, "--start", "scale=-1", "--positive", "scale")
    assert refused.exit_code == 2
    assert "positive" in refused.stderr


@pytest.mark.parametrize(("arguments", "message"), [
    (["-m", "gaussian", "--positive", "scale"], "knows which of its parameters are positive"),
    (["-m", "mine.py:log_p", "--start", "scale=1", "--positive", "scal"], "Did you mean 'scale'"),
    (["-m", "mine.py:log_p", "--fix", "scale=1", "--positive", "scale"], "held by --fix"),
])  # fmt: skip
def test_what_cannot_be_marked_positive(minstein, tmp_path, arguments, message):
    (tmp_path / "mine.py").write_text(OWN)
    result = minstein("fit", NEWCOMB, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


# Lines


def test_lines_that_end_as_on_old_macs(tmp_path):
    x = RNG.normal(size=(9, 2))
    path = tmp_path / "x.csv"
    path.write_bytes("\r".join(["# made long ago", "a,b", *(f"{a},{b}" for a, b in x), ""]).encode())
    np.testing.assert_allclose(read(str(path), Reading()).x, x)
    np.testing.assert_allclose(np.concatenate([read(str(path), Reading(), (i, 2)).x for i in range(2)]), x)


def test_a_header_beyond_what_is_looked_at(tmp_path):
    """A thousand names, 80 kB of them; and one name of 90 kB."""
    for names in ([f"variable {i:080}" for i in range(1000)], ["a" * 90_000, "b"]):
        x = RNG.normal(size=(3, len(names)))
        path = tmp_path / "x.csv"
        path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in x)]))
        found = read(str(path), Reading())
        assert found.columns == tuple(names)
        np.testing.assert_allclose(found.x, x)
        np.testing.assert_allclose(np.concatenate([read(str(path), Reading(), (i, 2)).x for i in range(2)]), x)


def test_a_cell_beyond_what_can_be_read(minstein, tmp_path):
    (tmp_path / "x.csv").write_text(f"{'a' * 200_000},b\n1,2\n2,5\n")
    result = minstein("fit", "x.csv", "-m", "gaussian")
    assert result.exit_code == 2
    assert "x.csv cannot be read as CSV: field larger than field limit" in result.stderr
