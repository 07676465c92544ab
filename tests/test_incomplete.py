"""Statistics that leave pairs out, or replace the kernel: against sums written out, and their standard errors by
simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.pairs.forms import Features
from minstein.pairs.nystrom import Landmarks
from minstein.pairs.parts import Scattered
from minstein.pairs.reduce import reduced
from minstein.sample import pad

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


def form_of(backend, x, held):
    """The form that a backend makes, to know which rows it drew."""
    sample = pad(x)
    form, _ = reduced(KERNEL.terms()[0], sample, Features(sample.x, jnp.ones(len(sample.x))))
    return held.of(form, sample, backend)


def matrix(kernel, diffusion, x):
    """k⁰ of every pair, by autodiff."""
    k0 = ms.stein_kernel(MODEL, diffusion, kernel)
    return np.asarray(jax.jit(jax.vmap(jax.vmap(k0, (None, 0)), (0, None)))(x, x))


class TestParts:
    def test_every_observation_is_in_one_part(self):
        with jax.enable_x64(True):
            members = np.asarray(form_of(ms.Parts(64), RNG.standard_normal((N, 3)), Scattered).members)
        counts = [int(np.sum(part < N)) for part in members]
        assert sorted(members[members < N].tolist()) == list(range(N))
        assert max(counts) - min(counts) <= 1
        assert len(counts) == 8  # of 512 padded rows
        assert all((part[:count] < N).all() for part, count in zip(members, counts, strict=True))

    @pytest.mark.parametrize("m", QUICK)
    def test_it_is_the_mean_over_the_parts(self, m):
        x = RNG.standard_normal((N, 3))
        with jax.enable_x64(True):
            members = np.asarray(form_of(ms.Parts(64), x, Scattered).members)
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
            members = np.asarray(form_of(ms.Parts(700), x, Scattered).members)
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
            "8 random parts of 37 observations or so were summed, 12 % of all pairs" in note for note in fit.notes
        )

    def test_a_very_large_fit_takes_them_by_itself(self):
        assert not ms.KSD(KERNEL).sums_all_pairs(200_000, 1, np.float64)
        assert ms.KSD(KERNEL).sums_all_pairs(200_000, 5, np.float64)
        assert not ms.KSD(KERNEL, backend="tiles").sums_all_pairs(200_000, 5, np.float64)

    def test_too_small(self):
        with pytest.raises(ValueError, match="16 or more, got 3"):
            ms.Parts(3)


class TestNystrom:
    @pytest.mark.parametrize("m", QUICK)
    def test_it_is_the_approximate_kernel(self, m):
        x = RNG.standard_normal((60, 3))
        with jax.enable_x64(True):
            z = np.asarray(form_of(ms.Nystrom(10), x, Landmarks).at["z"]) + np.median(x, axis=0)
            M = np.linalg.inv([[float(KERNEL(a, b)) for b in z] for a in z])
            at = lambda x: jax.vmap(lambda c: KERNEL(x, c))(jnp.asarray(z))
            k0 = matrix(lambda x, y: at(x) @ M @ at(y), DIFFUSIONS[m], x)
        u = ms.DKSD(KERNEL, DIFFUSIONS[m], backend=ms.Nystrom(10))(MODEL, x)
        v = ms.DKSD(KERNEL, DIFFUSIONS[m], unbiased=False, backend=ms.Nystrom(10))(MODEL, x)
        np.testing.assert_allclose(u, (k0.sum() - np.trace(k0)) / (60 * 59), rtol=1e-9)
        np.testing.assert_allclose(v, k0.mean(), rtol=1e-9)

    @pytest.mark.slow
    def test_its_fit_is_that_of_the_kernel_of_finite_rank(self):
        """Estimates and standard errors, by the sums of `FiniteRank`, which share no code with it."""
        x = RNG.standard_normal((60, 3))
        with jax.enable_x64(True):
            z = np.asarray(form_of(ms.Nystrom(10), x, Landmarks).at["z"]) + np.median(x, axis=0)
            M = np.linalg.inv([[float(KERNEL(a, b)) for b in z] for a in z])
        coefficients = np.einsum("ab,ij->aibj", np.linalg.cholesky(M), np.eye(3)).reshape(10, 3, 30)
        psi = lambda x: jax.vmap(lambda c: KERNEL(x, c))(jnp.asarray(z, x.dtype))
        finite = ms.fit(MODEL, x, ms.KSD(ms.kernels.FiniteRank(psi, coefficients), unbiased=False))
        nystrom = ms.fit(MODEL, x, ms.KSD(KERNEL, unbiased=False, backend=ms.Nystrom(10)))
        np.testing.assert_allclose(nystrom.theta, finite.theta, rtol=1e-7)
        np.testing.assert_allclose(nystrom.cov, finite.cov, rtol=1e-6)
        assert any("approximation on 10 of the observations" in note for note in nystrom.notes)
        assert ms.influence(nystrom, x).shape == (60, 4)
        with pytest.raises(TypeError, match="points that are not in the sample"):
            ms.influence(nystrom, x, x[:2])

    def test_none(self):
        with pytest.raises(ValueError, match="1 or more, got 0"):
            ms.Nystrom(0)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "loss"), [(ms.Parts(64), 3.3), (ms.Nystrom(30), 1.4)])
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
