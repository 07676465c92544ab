"""What is compiled once is not compiled again: same shapes, other numbers, data of similar size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import minstein as ms
from minstein.data.compiling import _is_small, compiled
from minstein.data.sample import TILE, bucket

RNG = np.random.default_rng(5)


class Traces:
    """A log-density that counts how often JAX traces it."""

    def __init__(self):
        self.count = 0

    def __call__(self, params, x):
        self.count += 1
        return -jnp.sum((x - params["loc"]) ** 2) / params["scale"] ** 2


@pytest.mark.parametrize("evaluate", [lambda d, m, x: d(m, x), ms.value_and_grad, ms.information])
def test_one_compilation_serves(evaluate):
    log_p = Traces()
    model = lambda loc, scale: ms.models.from_log_density(log_p, {"loc": loc, "scale": ms.positive(scale)})
    ksd = lambda c: ms.DKSD(ms.kernels.IMQ(c), ms.diffusions.decay(1 + c))
    evaluate(ksd(1.0), model(0.0, 1.0), RNG.standard_normal((100, 2)))
    first = log_p.count
    evaluate(ksd(1.0), model(0.0, 1.0), RNG.standard_normal((100, 2)))
    evaluate(ksd(2.5), model(0.3, 2.0), RNG.standard_normal((100, 2)))
    evaluate(ksd(0.1), model(0.3, 2.0), RNG.standard_normal((90, 2)))
    assert log_p.count == first
    evaluate(ksd(1.0), model(0.0, 1.0), RNG.standard_normal((100, 3)))
    assert log_p.count > first


def test_a_held_diffusion_of_another_pilot_is_not_compiled_again():
    log_p = Traces()
    model = lambda loc: ms.models.from_log_density(log_p, {"loc": loc, "scale": 1.0})
    m = ms.diffusions.of_model(lambda model, x: 1 + jnp.sum((x - model.params["loc"]) ** 2))
    x = RNG.standard_normal((20, 2))
    ms.DKSD(ms.kernels.IMQ(1.0), m.at(model(0.0)))(model(0.1), x)
    first = log_p.count
    ms.DKSD(ms.kernels.IMQ(1.0), m.at(model(2.0)))(model(0.1), x)
    assert log_p.count == first


def test_what_is_little_data(tmp_path):
    """Arrays count by their rows and entries, and rows on disk count although none is in the arguments."""
    np.save(tmp_path / "x.npy", RNG.standard_normal((5000, 2)))
    table = ms.OnDisk(tmp_path / "x.npy").sample()
    assert _is_small(("text", 3.0, np.zeros((500, 2))), 512)
    assert not _is_small((np.zeros((513, 2)),), 512)
    assert not _is_small((np.zeros((500, 3000)),), 512)
    assert not _is_small(({"sample": table},), 4096)


def test_a_compiled_function_may_be_part_of_another_program():
    double = compiled(lambda x: 2 * x)
    x = np.arange(3.0)
    for result in (double(x), jax.jit(double)(x), jax.vmap(double)(x), jax.jit(lambda: double(x))()):
        np.testing.assert_array_equal(result, [0, 2, 4])
    assert jax.grad(lambda x: double(x).sum())(x).tolist() == [2, 2, 2]


def test_buckets():
    """Never smaller than n, at most a tile or a quarter larger, a multiple of the tile, and few of them."""
    sizes = np.unique(np.concatenate([np.arange(1, 3000), np.geomspace(3000, 3e6, 500).astype(int)]))
    buckets = np.array([bucket(int(n)) for n in sizes])
    assert np.all(buckets >= sizes)
    assert np.all(buckets <= np.maximum(np.maximum(16, 2 * sizes) * (sizes <= TILE), (sizes + TILE).clip(1.25 * sizes)))
    assert np.all((buckets % TILE == 0) | (buckets < TILE))
    assert len(set(buckets)) < 70
