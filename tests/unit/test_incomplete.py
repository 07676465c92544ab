"""Statistics that leave pairs out: against sums written out, and their standard errors by simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.data.in_memory import as_rows

RNG = np.random.default_rng(17)
N = 300
MODEL = ms.models.Gaussian([0.1, -0.2, 0.3], 1.2)
KERNEL = ms.kernels.IMQ(1.5)
DIFFUSIONS = {
    "number": ms.diffusions.decay(2.0),
    "diagonal": np.array([1.0, 0.5, 2.0]),
    "matrix": np.diag([1.0, 0.5, 2.0]) + 0.1,
}
QUICK = ["number", *(pytest.param(name, marks=pytest.mark.slow) for name in ("diagonal", "matrix"))]


def members_of(parts, x):
    """The numbers of the rows of each part."""
    return np.asarray(parts.way(as_rows(x).sample()).members)


def matrix(kernel, diffusion, x):
    """k⁰ of every pair, by autodiff."""
    k0 = ms.stein_kernel(MODEL, diffusion, kernel)
    return np.asarray(jax.jit(jax.vmap(jax.vmap(k0, (None, 0)), (0, None)))(x, x))


class TestParts:
    def test_every_observation_is_in_one_part(self):
        with jax.enable_x64(True):
            members = members_of(ms.Parts(64), RNG.standard_normal((N, 3)))
        counts = [int(np.sum(part < N)) for part in members]
        assert sorted(members[members < N].tolist()) == list(range(N))
        assert max(counts) - min(counts) <= 1
        assert len(counts) == 8  # of 512 padded rows
        assert all((part[:count] < N).all() for part, count in zip(members, counts, strict=True))

    @pytest.mark.parametrize("m", QUICK)
    def test_it_is_the_mean_over_the_parts(self, m):
        x = RNG.standard_normal((N, 3))
        with jax.enable_x64(True):
            members = members_of(ms.Parts(64), x)
            k0 = matrix(KERNEL, DIFFUSIONS[m], x)
        parts = [part[part < N] for part in members]
        off = k0 - np.diag(np.diag(k0))
        expected = sum(len(part) / N * off[np.ix_(part, part)].sum() / (len(part) * (len(part) - 1)) for part in parts)
        u = ms.DKSD(KERNEL, DIFFUSIONS[m], backend=ms.Parts(64))(MODEL, x)
        v = ms.DKSD(KERNEL, DIFFUSIONS[m], unbiased=False, backend=ms.Parts(64))(MODEL, x)
        np.testing.assert_allclose(u, expected, rtol=1e-11)
        np.testing.assert_allclose(v, (N - 1) / N * expected + np.trace(k0) / N**2, rtol=1e-11)

    def test_parts_that_are_no_whole_number_of_tiles(self):
        """4096 padded rows in six parts, which are larger than one tile: 667 or 666 observations each."""
        n, x = 4000, RNG.standard_normal((4000, 3))
        with jax.enable_x64(True):
            members = members_of(ms.Parts(700), x)
        parts = [part[part < n] for part in members]
        assert sorted({len(part) for part in parts}) == [666, 667]
        expected = sum(len(part) / n * ms.KSD(KERNEL)(MODEL, x[part]) for part in parts)
        np.testing.assert_allclose(ms.KSD(KERNEL, backend=ms.Parts(700))(MODEL, x), expected, rtol=1e-11)

    @pytest.mark.slow
    def test_one_part_is_the_whole(self):
        x = RNG.standard_normal((N, 3))
        tiles, whole = (ms.fit(MODEL, x, ms.KSD(KERNEL, backend=way)) for way in ("tiles", ms.Parts(1000)))
        np.testing.assert_allclose(whole.theta, tiles.theta, rtol=1e-9)
        np.testing.assert_allclose(whole.cov, tiles.cov, rtol=1e-9)
        assert not any("parts" in note for note in whole.notes)

    @pytest.mark.slow
    def test_the_result_says_so(self):
        fit = ms.fit(MODEL, RNG.standard_normal((N, 3)), ms.KSD(KERNEL, backend=ms.Parts(64)))
        assert any(
            "8 random parts of about 37 observations were summed, 12 % of all pairs" in note for note in fit.notes
        )

    def test_a_very_large_fit_takes_them_by_itself(self):
        assert not ms.KSD(KERNEL).sums_all_pairs(200_000, 1, np.float64)
        assert ms.KSD(KERNEL).sums_all_pairs(200_000, 5, np.float64)
        assert not ms.KSD(KERNEL, backend="tiles").sums_all_pairs(200_000, 5, np.float64)

    def test_too_small(self):
        with pytest.raises(ValueError, match="16 or more, got 3"):
            ms.Parts(3)


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize(("backend", "loss"), [(ms.Parts(64), 3.3)])
def test_standard_errors_are_those_of_the_statistic(backend, loss):
    """400 samples of 512: they match what the estimates do, or are larger where the parts are small."""
    x = np.random.default_rng(0).standard_normal((400, 512, 4))
    model = ms.models.Gaussian(np.zeros(4), 1.0)
    each = lambda way: lambda x: ms.fit(model, x, ms.KSD(ms.kernels.IMQ(2.0), unbiased=False, backend=way), throw=False)
    with jax.enable_x64(True):
        some, every = (
            jax.tree.map(np.asarray, jax.jit(lambda x, way=way: jax.lax.map(each(way), x))(jnp.asarray(x)))
            for way in (backend, "tiles")
        )
    sd, of_all = some.theta.std(0), every.theta.std(0)
    ratio = np.sqrt(np.einsum("rii->ri", some.cov).mean(0)) / sd
    covered = np.mean(np.abs(some.theta - [0, 0, 0, 0, 1]) < 1.96 * np.sqrt(np.einsum("rii->ri", some.cov)), axis=0)
    assert np.all((ratio > 0.92) & (ratio < 1.45))
    assert np.all(covered > 0.91)
    assert np.all(sd > 0.95 * of_all)
    assert np.all(sd < loss * of_all)
