"""The benchmarks' own decisions, on rows made up here, and their reference against finite differences."""

import importlib

import numpy as np
import pytest

from benchmarks import blocked, check
from benchmarks.cases import CASES
from benchmarks.closed_form import standard_normal
from benchmarks.errors import difference
from benchmarks.markdown import curves, gates
from benchmarks.peers.numpy_whole import ksd
from benchmarks.publish import replaced
from benchmarks.rows import Point, Row, at_least, at_most
from benchmarks.timing import Timing


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_case_can_be_run(case):
    assert callable(importlib.import_module(f"benchmarks.cases.{case.module}").rows)


COMMITTED = [
    ("numpy", Row("minstein", ratio=at_most(1.0, 1.2))),
    ("quick", Row("lines", ratio=at_least(10, 50.0))),
    ("recompile", Row("other data", ratio=at_most(0, 0, "compiled"))),
    ("curve", Row("never run by the check", ratio=at_most(1.0, 1.0))),
]


@pytest.mark.parametrize(
    ("case", "row", "complaint"),
    [
        ("numpy", Row("minstein", ratio=at_most(1.0, 2.9), error=1e-12), None),  # slower, within noise; a missed gate
        ("numpy", Row("minstein", ratio=at_most(1.0, 3.1)), "3.1 , was 1.2"),
        ("numpy", Row("minstein", ratio=at_most(1.0, 0.1)), None),
        ("numpy", Row("minstein", ratio=at_most(1.0, np.nan)), "nan"),
        ("numpy", Row("minstein", ratio=at_most(1.0, 1.2), error=1e-6), "wrong, by 1e-06"),
        ("numpy", Row("minstein", ratio=at_most(1.0, 1.2), error=np.nan), "wrong, by nan"),
        ("quick", Row("lines", ratio=at_least(10, 21.0)), None),
        ("quick", Row("lines", ratio=at_least(10, 19.0)), "19 , was 50"),
        ("quick", Row("lines", ratio=at_least(10, 500.0)), None),
        ("recompile", Row("other data", ratio=at_most(0, 1, "compiled")), "1 compiled, was 0"),
        ("recompile", Row("other data", ratio=at_most(0, 0, "compiled")), None),
    ],
)
def test_a_ratio_far_from_the_committed_one_and_a_wrong_number_are_complained_of(case, row, complaint):
    found = list(check.complaints([(case, row)], COMMITTED))
    assert len(found) == (complaint is not None)
    assert complaint is None or complaint in found[0]


def test_what_was_not_compared_is_complained_of():
    assert list(check.complaints([("numpy", Row("another"))], COMMITTED)) == ["numpy: minstein: not measured"]
    [first, second] = check.complaints([("numpy", Row("new", ratio=at_most(1.0, 1.0)))], COMMITTED)
    assert "not measured" in first
    assert "no ratio is committed" in second
    broken = Row("the case broke off", note="ImportError: no jax", failed=True)
    assert next(check.complaints([("numpy", broken)], [])).endswith("ImportError: no jax")


def test_a_nan_is_no_small_difference():
    assert np.isnan(difference((1.0, [1.0, np.nan]), (1.0, [1.0, 2.0])))
    assert difference((1.0, [1.0, 2.5]), (1.0, [1.0, 2.0])) == 0.25


def test_the_reference_is_the_formula_and_its_gradient_by_differences():
    x = np.random.default_rng(0).standard_t(5.0, (37, 3))
    at = lambda theta: ksd(x, -(x - theta[:-1]) / theta[-1] ** 2)
    value, gradient = standard_normal(x, lambda *args: blocked.fields(*args, block=16))
    theta, h = np.array([0.0, 0.0, 0.0, 1.0]), 1e-5
    differences = [(at(theta + h * e) - at(theta - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(value, at(theta), rtol=1e-13)
    np.testing.assert_allclose(gradient, differences, atol=1e-9)


def test_tables_of_markdown():
    second = Timing(1.0, 1.0, 2.0)
    rows = [
        ("curve", Row("a, n=2000", second, at=Point("a", 2000, 1))),
        ("curve", Row("b, n=1000", second, error=1e-12, at=Point("b", 1000, 1))),
        ("tiles", Row("slow", second, at_most(0.5, 1.0, "CPU s"))),
    ]
    assert gates(rows).splitlines()[2:] == ["| tiles | slow | 1 CPU s | ≤ 0.5 CPU s | **miss** |"]
    assert curves(rows).splitlines()[2:] == [
        "| n | a | b |",
        "| --- | --- | --- |",
        "| 1 000 |  | 1 |",
        "| 2 000 | 1 |  |",
        "| largest error |  | 1e-12 |",
    ]
    page = "before <!-- t -->\nold\n<!-- end of t --> after"
    assert replaced(page, "t", "new") == "before <!-- t -->\n\nnew\n\n<!-- end of t --> after"
