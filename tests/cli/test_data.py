"""Reading data: what is read is what was written, and every refusal says why."""

import gzip

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from minstein_cli import data
from minstein_cli.data import Reading, read
from minstein_cli.problem import Problem

X = np.array([[1.5, -2.0], [0.25, 1e-300], [3.0, 4.0], [-1e5, 7.125]])


def table(delimiter, header="a{0}b\n", decimal="."):
    rows = [delimiter.join(repr(float(v)).replace(".", decimal) for v in row) for row in X]
    return header.format(delimiter) + "\n".join(rows) + "\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize("header", ["a{0}b\n", "", "# said of the data: a; b, c\n\n# more\na{0}b\n", "\ufeffa{0}b\n"])
def test_csv_is_read_whatever_its_delimiter_and_header(tmp_path, delimiter, header):
    path = tmp_path / "x.csv"
    path.write_text(table(delimiter, header), encoding="utf-8")
    found = read(str(path), Reading())
    np.testing.assert_array_equal(found.x, X)
    assert found.columns == (("a", "b") if header else ("x1", "x2"))


def test_csv_with_windows_lines_quotes_and_decimal_commas(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(table(";", '"length; mm"{0}b\n', ",").replace("\n", "\r\n").encode())
    found = read(str(path), Reading(decimal=","))
    np.testing.assert_array_equal(found.x, X)
    assert found.columns == ("length; mm", "b")


def test_compressed_csv_parquet_and_npy(tmp_path):
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(table(",").encode()))
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X)
    for name in ("x.csv.gz", "x.parquet", "x.npy"):
        np.testing.assert_array_equal(read(str(tmp_path / name), Reading()).x, X)


def test_integers_and_a_single_column(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5))
    np.testing.assert_array_equal(read(str(tmp_path / "x.npy"), Reading()).x, np.arange(5.0)[:, None])


@pytest.mark.parametrize("columns", [("b", "a"), ("b,a",), ("2", "1"), ("2,a",)])
def test_columns_by_name_and_number_in_the_order_given(tmp_path, columns):
    (tmp_path / "x.csv").write_text(table(","))
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1], "c": ["u"] * 4}), tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        found = read(str(tmp_path / name), Reading(columns=columns))
        np.testing.assert_array_equal(found.x, X[:, ::-1])
        assert found.columns == ("b", "a")


def test_a_column_whose_name_has_a_comma(tmp_path):
    (tmp_path / "x.csv").write_text('"a, mm",b\n1,2\n3,4\n')
    assert read(str(tmp_path / "x.csv"), Reading(columns=("a, mm",))).columns == ("a, mm",)


def test_header_and_delimiter_as_told(tmp_path):
    (tmp_path / "x.csv").write_text("1:2\n3:4\n5:7\n")
    found = read(str(tmp_path / "x.csv"), Reading(header=True, delimiter=":"))
    assert found.columns == ("1", "2")
    np.testing.assert_array_equal(found.x, [[3, 4], [5, 7]])


def test_a_long_file_is_read_beyond_the_part_that_is_looked_at(tmp_path):
    x = np.random.default_rng(0).normal(size=(9000, 2))
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b", comments="", fmt="%.17g")
    np.testing.assert_array_equal(read(str(tmp_path / "x.csv"), Reading()).x, x)


MISSING = "a,b\n1,2\n,3\n4,NA\n5,\n7,8\n2,9\n"


def test_missing_values_are_counted_or_dropped(tmp_path):
    (tmp_path / "x.csv").write_text(MISSING)
    with pytest.raises(Problem, match=r"3 of 6 rows. By column: a 1, b 2. .*--drop-missing"):
        read(str(tmp_path / "x.csv"), Reading())
    found = read(str(tmp_path / "x.csv"), Reading(drop_missing=True))
    np.testing.assert_array_equal(found.x, [[1, 2], [7, 8], [2, 9]])
    assert found.notes == ("3 of 6 rows have missing values and were left out.",)
    np.testing.assert_array_equal(read(str(tmp_path / "x.csv"), Reading(("a",), drop_missing=True)).x.ravel(),
                                  [1, 4, 5, 7, 2])  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("# only this\n", "has no rows, only comments"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,2\n", "has one row"),
        ("a,b\n1,2\n3,oops\n", "Column 'b' .* is not numeric: row 2 has 'oops'.* --columns a"),
        ("a;b\n1,5;2\n2,5;3\n", "row 1 has '1,5' .*--decimal ,"),
        ("a,b\n1,true\n2,false\n", "Column 'b' .* is not numeric"),
        ("a,b\n1,2020-01-01\n2,2020-01-02\n", "Column 'b' .* is not numeric"),
        ("a,b\n1,2\n1,3\n", "Column 'a' .* is constant: all 2 values are 1"),
        ("a,b\n1,NA\n1,\n", "Column 'b' .* has no values at all"),
        ("a,b\n1,inf\n2,3\n", "Column 'b' .* has 1 infinite value\\."),
        ("a,a\n1,2\n2,3\n", "two columns named 'a'"),
        ("a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("gr\xf6\xdfe\n1\n2\n".encode("latin1"), "neither text in UTF-8"),
        (b"PK\x03\x04 and so on", "zip archive"),
        (b"PAR1 and so on", "cannot be read as Parquet"),
        (b"\x93NUMPY\x01\x00 and so on", "cannot be read"),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "x"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Problem, match=message):
        read(str(path), Reading())


def test_arrays_that_are_refused(tmp_path):
    class Boom:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was executed",))

    path = tmp_path / "x.npy"
    for array, message in [
        (np.array([Boom(), 1], object), "Python objects, which are not loaded"),
        (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.ones(3, complex), "complex128"),
        (np.array(["a"]), "not real numbers"),
    ]:
        np.save(path, array, allow_pickle=True)
        with pytest.raises(Problem, match=message):
            read(str(path), Reading())


def test_a_large_file_stays_on_disk_unless_told_otherwise(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text(table(","))
    stays = lambda name, told=None: data.stays_on_disk(str(tmp_path / name), Reading(on_disk=told))
    assert [stays(name) for name in ("x.npy", "x.parquet", "x.csv")] == [False, False, False]
    assert stays("x.npy", True)
    monkeypatch.setattr("minstein_cli.memory.total", lambda: 200)
    assert [stays(name) for name in ("x.npy", "x.parquet", "x.csv")] == [True, True, False]
    assert not stays("x.npy", False)
    with pytest.raises(Problem, match="cannot be read in blocks"):
        stays("x.csv", True)
    assert data.places(str(tmp_path / "x.parquet"), ("b",)) == ([1], ("b",))
    assert data.places(str(tmp_path / "x.npy"), ("2,x1",)) == ([1, 0], ("x2", "x1"))
