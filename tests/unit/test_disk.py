"""Rows on disk: the numbers of rows in memory, within the memory of a block, and a clear error for every bad file."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import minstein as ms
import minstein.data.disk

ROWS = np.random.default_rng(1).standard_t(5, (300, 2)) + 1
MODEL = ms.models.Gaussian([0.8, 1.1], 1.2)
SQUARES = ms.kernels.FiniteRank(lambda x: x**2, 0.1 * np.eye(2)[:, :, None])
FULL = lambda x: jnp.eye(2) + 0.1 * jnp.outer(x, x)
MOVING = lambda model, x: 1 / (1 + jnp.sum((x - model.loc) ** 2))
MIXED = ms.DKSD(ms.kernels.Gaussian(1.0) + SQUARES, lambda x: 1 / (1 + x**2), unbiased=False)
DISCREPANCIES = {
    "Hutchinson": ms.DSM(ms.diffusions.decay(2.0), divergence=ms.Hutchinson(jax.random.key(0))),
    "matrix": ms.DKSD(ms.kernels.IMQ(1.0), FULL),
    "moving": ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.of_model(MOVING, moving=True)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows by rows, by columns, and in groups of 77 beside a column of text."""
    folder = tmp_path_factory.mktemp("disk")
    np.save(folder / "x.npy", ROWS)
    np.save(folder / "columns.npy", np.asfortranarray(ROWS))
    table = pyarrow.table({"a": ROWS[:, 0], "name": ["u"] * 300, "b": ROWS[:, 1]})
    parquet.write_table(table, folder / "x.parquet", row_group_size=77)
    return folder


def opened(folder: Path, name: str, block: int | None = 64) -> ms.OnDisk:
    return ms.OnDisk(folder / name, ["a", "b"] if name == "x.parquet" else None, block=block)


@pytest.mark.parametrize("name", ["x.npy", "columns.npy", "x.parquet"])
def test_rows_are_those_of_the_file(folder, name):
    x = opened(folder, name)
    assert (x.shape, x.dtype, x.blocks) == ((300, 2), np.float64, 5)
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in x.pieces()]), ROWS)
    for start, stop in ((150, 290), (3, 80), (80, 81), (299, 400)):
        np.testing.assert_array_equal(x.rows(start, stop), ROWS[start:stop])
    some = x.some(30, seed=3)
    places = [int(np.flatnonzero((row == ROWS).all(1))[0]) for row in some]
    assert [place // 10 for place in places] == list(range(30))
    assert x == opened(folder, name)
    assert hash(x) == hash(opened(folder, name))


@pytest.mark.parametrize("dtype", [np.float32, ">f8", np.int16, bool])
def test_rows_are_floating_point_numbers(tmp_path, dtype):
    rows = (10 * ROWS[:, 0]).astype(dtype)
    np.save(tmp_path / "x.npy", rows)
    x = ms.OnDisk(tmp_path / "x.npy")
    assert (x.shape, x.dtype) == ((300, 1), np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_array_equal(x.rows(0, 300)[:, 0], rows)
    parquet.write_table(pyarrow.table({"x": rows.astype(np.dtype(dtype).newbyteorder("="))}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(ms.OnDisk(tmp_path / "x.parquet").rows(0, 300), x.rows(0, 300))


def same(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_the_numbers_are_those_of_rows_in_memory(folder):
    """Five blocks, the last of them uneven; a kernel of two kinds of terms."""
    x, model = opened(folder, "x.npy"), ms.models.Gaussian([0.8, 1.1], ms.fixed(1.2))
    same(ms.sandwich(ms.SM(), model, x), ms.sandwich(ms.SM(), model, ROWS))
    for found, expected in zip(*(ms.value_and_grad(MIXED, model, data) for data in (x, ROWS)), strict=True):
        same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", DISCREPANCIES)
def test_the_loss_around_a_model_is_that_of_rows_in_memory(folder, name):
    x, discrepancy = opened(folder, "x.parquet"), DISCREPANCIES[name]
    same(discrepancy(MODEL, x), discrepancy(MODEL, ROWS))
    same(ms.sandwich(discrepancy, MODEL, x), ms.sandwich(discrepancy, MODEL, ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(("discrepancy", "solver"), [(ms.SM(), None), (ms.KSD(ms.kernels.IMQ(1.0)), ms.GaussNewton())])
def test_a_fit_that_begins_at_some_rows_ends_where_that_of_all_does(folder, monkeypatch, discrepancy, solver):
    """All rows decide, although scales, starts and the search's Hessian are from 128 of them."""
    monkeypatch.setattr(minstein.data.disk, "_IMPRESSION", 128)
    x, model = ms.OnDisk(folder / "x.npy", [0], block=64), ms.models.Gaussian(0.8, 1.2)
    found, expected = (ms.fit(model, data, discrepancy, solver=solver) for data in (x, ROWS[:, 0]))
    assert x.impression.shape == (128, 1)
    assert found.steps > 0
    assert found.solver == (repr(solver) if solver else "QuasiNewton(max_steps=20, tolerance=None)")
    errors = np.array(list(expected.bse.values()))
    assert np.abs((found.theta - expected.theta) / errors).max() < 1e-7  # each search ends when steps are below 1.5e-8
    np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-6)
    assert "read from disk in blocks of 64" in str(found.summary())
    z = np.array([3.0, 10.0])
    np.testing.assert_allclose(ms.influence(found, x, z), ms.influence(expected, ROWS[:, 0], z), rtol=1e-6)


@pytest.mark.slow
def test_counts_in_single_precision(tmp_path):
    rows = np.random.default_rng(0).poisson(3.0, (200, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)
    model, x = ms.models.ConwayMaxwellPoisson(2.0, 1.0), ms.OnDisk(tmp_path / "x.npy", block=64)
    assert ms.MPF()(model, x) == pytest.approx(ms.MPF()(model, rows), rel=1e-6)
    np.save(tmp_path / "y.npy", rows + np.float32(0.5))
    with pytest.raises(ValueError, match=r"not in Counts\(\), where the model lives, in 200 of 200 rows"):
        ms.fit(model, ms.OnDisk(tmp_path / "y.npy"))


MEASURED = """
import os, sys, numpy as np, minstein as ms
peak = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) << 10
path, d = sys.argv[1], 8
rows = np.random.default_rng(0).standard_normal((1 << 16, d))
with open(path, "wb") as file:
    shape = (128 * len(rows), d)
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    for _ in range(128):
        rows.tofile(file)
model = ms.models.Gaussian(np.zeros(d), ms.fixed(1.0))
small = ms.fit(model, rows, ms.SM())
before = peak()
fit = ms.fit(model, ms.OnDisk(path), ms.SM())
assert fit.converged and np.allclose(fit.theta, rows.mean(0), atol=1e-12), fit
assert np.allclose(fit.cov * 128, small.cov, atol=1e-12)
print((peak() - before) / os.path.getsize(path))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_memory_is_that_of_a_block(tmp_path):
    """Half a gigabyte is fitted with less than a fifth of it, most of which is compiled code."""
    optimised = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-c", MEASURED, tmp_path / "big.npy"]
    done = subprocess.run(command, env=optimised, capture_output=True, text=True)
    (tmp_path / "big.npy").unlink()
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.2


# Errors


def test_files_that_cannot_be_read(tmp_path, folder):
    np.save(tmp_path / "objects.npy", np.array([{}, 1], object), allow_pickle=True)
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "nothing.npy", np.zeros((0, 2)))
    (tmp_path / "x.csv").write_text("1,2\n")
    (tmp_path / "short.npy").write_bytes((folder / "x.npy").read_bytes()[:-8])
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    for name, error, message in (
        ("missing.npy", FileNotFoundError, "There is no file .*missing.npy"),
        ("objects.npy", TypeError, "holds object, not real numbers. Python objects are never loaded"),
        ("cube.npy", ValueError, r"shape \(n, d\) or \(n,\), got \(2, 2, 2\)"),
        ("nothing.npy", ValueError, r"its shape is \(0, 2\)"),
        ("x.csv", ValueError, "not in the format of .npy and Parquet files"),
        ("short.npy", ValueError, "shorter than 300 rows of 2 columns"),
        ("broken.parquet", ValueError, "cannot be read"),
    ):
        with pytest.raises(error, match=message):
            ms.OnDisk(tmp_path / name)
    with pytest.raises(TypeError, match=r"holds string in column 'name'.*columns=\["):
        ms.OnDisk(folder / "x.parquet")
    with pytest.raises(ValueError, match=r"no column 'c'. It has: a, name, b"):
        ms.OnDisk(folder / "x.parquet", ["c"])
    with pytest.raises(ValueError, match="at least 1, got 0"):
        ms.OnDisk(folder / "x.npy", block=0)


def test_rows_that_are_not_finite(tmp_path):
    rows = ROWS.copy()
    rows[[70, 299], 1] = np.nan, np.inf
    np.save(tmp_path / "x.npy", rows)
    x = ms.OnDisk(tmp_path / "x.npy", block=64)
    with pytest.raises(ValueError, match=r"NaN or infinite, in 2 of 300 rows \(rows 70, 299\). Rows on disk"):
        ms.fit(MODEL, x, ms.SM())
    parquet.write_table(pyarrow.table({"x": pyarrow.array([1.0, None, 2.0])}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"1 of 3 rows \(row 1\)"):
        ms.SM()(ms.models.Gaussian(0.0, 1.0), ms.OnDisk(tmp_path / "x.parquet"))


def test_a_file_that_changes_gives_no_result(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    x = ms.OnDisk(tmp_path / "x.npy", block=64)
    assert x.survey(ms.spaces.REALS).bad_count == 0
    np.save(tmp_path / "x.npy", ROWS[:200])
    with pytest.raises(RuntimeError, match=r"was changed after ms\.OnDisk opened it"):
        ms.SM()(MODEL, x)


def test_what_needs_rows_in_memory(tmp_path, folder):
    x = opened(folder, "x.npy")
    own_kernel = ms.KSD(lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2)))
    for call, error, message in (
        (lambda: ms.compare(MODEL, x), TypeError, r"not computed on rows on disk.*x\.some\(100_000\)"),
        (lambda: np.asarray(x), TypeError, "not computed on rows on disk"),
        (lambda: own_kernel(MODEL, x), TypeError, "DKSD with a kernel of your own is not computed on rows on disk"),
        (lambda: ms.KSD(ms.kernels.IMQ(1.0), backend="lines")(MODEL, x), ValueError, 'backend="lines" needs all rows'),
        (lambda: ms.fit(MODEL, x, ms.SM(), solver=ms.SGD()), TypeError, "SGD visits observations in random order"),
        (lambda: jax.grad(lambda model: ms.SM()(model, x))(MODEL), TypeError, "Use ms.value_and_grad"),
    ):
        with pytest.raises(error, match=message):
            call()
    with open(tmp_path / "many.npy", "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (5_000_000, 2)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 80_000_000)
    with pytest.raises(ValueError, match=r"5000000 rows on disk have 2.5e\+13 pairs, about 69 hours"):
        ms.KSD(ms.kernels.IMQ(1.0)).ready(MODEL, ms.OnDisk(tmp_path / "many.npy"))


def test_a_score_that_is_not_finite_is_found_in_its_block(tmp_path):
    rows = np.abs(ROWS[:, :1]) + 0.1
    rows[130] = 0.0
    np.save(tmp_path / "x.npy", rows)
    model = ms.models.from_log_density(lambda rate, x: jnp.log(x[0]) - rate * x[0], ms.positive(1.0))
    with pytest.raises(ValueError, match=r"In rows 128 to 191, numbered from 0.*1 of 64 rows \(row 2\)"):
        ms.SM()(model, ms.OnDisk(tmp_path / "x.npy", block=64))
