"""The data that ship with the package: facts about them that their sources state."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import minstein as ms

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ms.datasets.names())
def test_every_set_says_what_it_is(name):
    data = ms.datasets.load(name)
    assert data.x.dtype == np.float64
    assert data.x.shape[1] == len(data.columns) == len(set(data.columns))
    assert np.isfinite(data.x).all()
    assert all(len(text) > 10 for text in (data.description, data.source, data.licence))
    for page in (ROOT / "docs/datasets.md", ROOT / "src/minstein/datasets/README.md"):
        n, d = data.x.shape
        assert re.search(rf"`{name}(\.csv)?` \| {n} × {d} \|", page.read_text())


def test_newcomb_is_stiglers_table():
    x = ms.datasets.load("newcomb").x[:, 0]
    assert (len(x), sorted(x)[:2], x.max()) == (66, [-44, -2], 40)
    assert round(x.mean(), 1) == 26.2  # Gelman et al., Bayesian Data Analysis, section 3.2


def test_bills_have_heavy_tails():
    x = ms.datasets.load("bills").x[:, 0]
    assert stats.kurtosis(x) == pytest.approx(14, abs=0.5)  # a normal distribution has 0
    # The rate fell from 2.82 % in 1959 to 0.12 % in 2009.
    assert x.sum() == pytest.approx(0.12 - 2.82)


def test_wine_has_the_moments_that_its_description_prints():
    data = ms.datasets.load("wine")
    assert (data.x > 0).all()
    printed = {"alcohol": (11.0, 14.8, 13.0, 0.8), "colour": (1.3, 13.0, 5.1, 2.3)}
    for name, expected in printed.items():
        x = data.x[:, data.columns.index(name)]
        np.testing.assert_allclose([x.min(), x.max(), x.mean(), x.std(ddof=1)], expected, atol=0.05)


def test_digits_are_images():
    x = ms.datasets.load("digits").x
    assert set(np.unique(x)) == {0.0, 1.0}
    np.testing.assert_array_equal(  # the first image is a nought
        x[0].reshape(4, 4), [[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]]
    )


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no data set '\.\./secret'; choose one of bills, digits, newcomb, wine"):
        ms.datasets.load("../secret")
