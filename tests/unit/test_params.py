"""θ as a vector: names, order, constraints, and the maps to and from ℝᵏ."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import minstein as ms
from minstein.params import from_real, names, theta, to_real, with_theta

Gaussian, StudentT = ms.models.Gaussian, ms.models.StudentT
SymmetricBessel, GeneralisedGamma = ms.models.SymmetricBessel, ms.models.GeneralisedGamma
from_log_density = ms.models.from_log_density


@pytest.fixture(autouse=True, scope="module")
def _double_precision():
    with jax.enable_x64(True):
        yield


def holding(value):
    """A model whose one parameter is this value; its density plays no part."""
    return from_log_density(lambda params, x: 0.0 * x[0], value)


def held(model):
    """The value that such a model holds, without its mark."""
    return np.asarray(ms.params.unwrap(model).params)


# ---------------------------------------------------------------------------------------------------------- constraints


law = settings(deadline=None, derandomize=True)


def vectors(size, bound):
    return st.lists(st.floats(-bound, bound), min_size=size, max_size=size).map(np.array)


def lower(eta):
    """The triangular matrix whose rows are these numbers, with the exponential of its diagonal."""
    L = np.zeros((2, 2))
    L[np.tril_indices(2)] = eta
    L[[0, 1], [0, 1]] = np.exp(np.diag(L))
    return L


REAL = holding(np.array([0.5, -2.0, 3.0]))
POSITIVE = holding(ms.positive([0.5, 2.0, 3.0]))
SIMPLEX = holding(ms.simplex([0.2, 0.3, 0.4, 0.1]))
DEFINITE = holding(ms.positive_definite([[2.0, 0.3], [0.3, 1.0]]))
SCALE = Gaussian(ms.fixed([0.0, 0.0]), [[1.0, 0.0], [0.5, 2.0]])

to_real_compiled, from_real_compiled = eqx.filter_jit(to_real), eqx.filter_jit(from_real)
theta_compiled, with_theta_compiled = eqx.filter_jit(theta), eqx.filter_jit(with_theta)


@law
@given(vectors(3, 1e6))
def test_real_parameters_are_their_own_coordinates(eta):
    np.testing.assert_array_equal(held(from_real_compiled(REAL, eta)), eta)


@law
@given(vectors(3, 700))
def test_positive_parameters_are_exponentials_however_far_the_vector(eta):
    value = held(from_real_compiled(POSITIVE, eta))
    assert np.all(value > 0)
    np.testing.assert_allclose(value, np.exp(eta), rtol=1e-12)


@law
@given(vectors(3, 300))
def test_simplex_parameters_are_positive_and_sum_to_one_however_far_the_vector(eta):
    value = held(from_real_compiled(SIMPLEX, eta))
    assert np.all(value > 0)
    assert value.sum() == pytest.approx(1, rel=1e-14)
    np.testing.assert_allclose(value, softmax(np.append(eta, 0)), rtol=1e-11)


@law
@given(vectors(3, 4))
def test_positive_definite_parameters_are_squares_of_triangular_matrices(eta):
    """Bounded, because beyond it a positive-definite matrix is singular to double precision."""
    value = held(from_real_compiled(DEFINITE, eta))
    np.testing.assert_array_equal(value, value.T)
    assert np.linalg.eigvalsh(value)[0] > 0
    np.testing.assert_allclose(value, lower(eta) @ lower(eta).T, rtol=1e-12, atol=1e-12)


@law
@given(vectors(3, 300))
def test_scales_are_triangular_with_a_positive_diagonal_however_far_the_vector(eta):
    value = np.asarray(from_real_compiled(SCALE, eta).scale)
    assert value[0, 1] == 0
    assert np.all(np.diag(value) > 0)
    np.testing.assert_allclose(value, lower(eta), rtol=1e-12)


BOUNDS = [(REAL, 1e6), (POSITIVE, 700), (SIMPLEX, 300), (DEFINITE, 2), (SCALE, 300)]
IDS = ["real", "positive", "simplex", "positive definite", "scale"]


@pytest.mark.parametrize(("model", "bound"), BOUNDS, ids=IDS)
def test_every_real_vector_comes_back(model, bound):
    @law
    @given(vectors(3, bound))
    def comes_back(eta):
        returned = to_real_compiled(from_real_compiled(model, eta))
        np.testing.assert_allclose(returned, eta, rtol=1e-11, atol=1e-9)

    comes_back()


@pytest.mark.parametrize(("model", "bound"), BOUNDS, ids=IDS)
def test_every_model_comes_back_from_its_vectors(model, bound):
    @law
    @given(vectors(3, min(bound, 5)))
    def comes_back(eta):
        somewhere = from_real_compiled(model, eta)
        for vector, rebuild in [(theta_compiled, with_theta_compiled), (to_real_compiled, from_real_compiled)]:
            again = rebuild(model, vector(somewhere))
            assert jax.tree.structure(again) == jax.tree.structure(model)
            for leaf, exact in zip(jax.tree.leaves(again), jax.tree.leaves(somewhere), strict=True):
                np.testing.assert_allclose(leaf, exact, rtol=1e-10, atol=1e-12)

    comes_back()


@pytest.mark.parametrize(
    ("mark", "value", "text"),
    [
        (ms.positive, -1.0, "positive.*must be positive, got -1"),
        (ms.positive, 0.0, "must be positive, got 0"),
        (ms.positive, np.nan, "must be positive"),
        (ms.positive, [1.0, 0.0], r"must be positive, got an array of shape \(2,\)"),
        (ms.simplex, [0.5, 0.4], "positive weights that sum to one"),
        (ms.simplex, [1.5, -0.5], "positive weights that sum to one"),
        (ms.simplex, [[0.5, 0.5]], "positive weights that sum to one"),
        (ms.simplex, [1.0], "positive weights that sum to one"),
        (ms.positive_definite, [[1.0, 2.0], [2.0, 1.0]], "symmetric positive-definite"),
        (ms.positive_definite, [[1.0, 0.5], [0.0, 1.0]], "symmetric positive-definite"),
        (ms.positive_definite, [1.0, 2.0], "symmetric positive-definite"),
        (ms.positive_definite, np.full((2, 2), np.nan), "symmetric positive-definite"),
    ],
)
def test_marks_refuse_values_that_violate_them(mark, value, text):
    with pytest.raises(ValueError, match=text):
        mark(value)


# ---------------------------------------------------------------------------------------------------------------- names


class Layer(eqx.Module):
    weight: Any
    bias: Any
    activation: str = eqx.field(static=True, default="tanh")


class Network(eqx.Module):
    layers: list
    rate: Any
    steps: int = 3

    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(layer.weight @ x + layer.bias)
        return -self.rate * jnp.sum(x**2)


NETWORK = Network([Layer(np.ones((2, 1)), np.zeros(2)), Layer(np.eye(1, 2), ms.fixed(np.zeros(1)))], ms.positive(2.0))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            NETWORK,
            "layers[0].weight[0,0] layers[0].weight[1,0] layers[0].bias[0] layers[0].bias[1] "
            "layers[1].weight[0,0] layers[1].weight[0,1] rate",
        ),
        (holding({"b": 1.0, "a": np.zeros(2)}), "a[0] a[1] b"),
        (holding({"x": [1.0, {"y": np.zeros((1, 2))}]}), "x[0] x[1].y[0,0] x[1].y[0,1]"),
        (holding({"n": 3, "flag": True, "name": None, "sigma": 1.0}), "sigma"),
        (holding(np.zeros(2)), "theta[0] theta[1]"),
        (holding(0.5), "theta"),
        (SIMPLEX, "theta[0] theta[1] theta[2]"),
        (DEFINITE, "theta[0,0] theta[1,0] theta[1,1]"),
        (holding({"all": ms.fixed({"a": 1.0, "b": [2.0]}), "free": 1.0}), "free"),
        ({"one": holding({"mu": 1.0}), "two": holding({"mu": 2.0})}, "one.mu two.mu"),
        (
            {"p": ms.models.from_numpyro(dist.Normal, {"loc": 1.0, "scale": 2.0}), "q": Gaussian(0.0, 1.0)},
            "p.loc p.scale q.loc q.scale",
        ),
        (lambda x: -(x[0] ** 2), ""),
        (Gaussian(jnp.array(0), jnp.array(1)), "loc scale"),
    ],
)
def test_names_are_tree_paths(model, expected):
    assert names(model) == tuple(expected.split())
    assert theta(model).shape == to_real(model).shape == (len(names(model)),)


def test_parameters_inside_the_statistic_of_an_exponential_family_are_free():
    class Power(eqx.Module):
        exponents: Any

        def __call__(self, x):
            return x[0] ** self.exponents

    model = ms.models.ExponentialFamily(Power(np.array([1.0, 2.0])), [0.5, -1.0])
    assert names(model) == ("statistic.exponents[0]", "statistic.exponents[1]", "theta[0]", "theta[1]")
    moved = with_theta(model, jnp.array([1.0, 3.0, 2.0, -0.5]))
    assert float(moved(jnp.array([2.0]))) == 2 * 2 - 0.5 * 8


# ----------------------------------------------------------------------------------------------- every shipped family

FAMILIES = [
    Gaussian(0.3, 2.0),
    Gaussian([0.3, -1.0], [0.5, 2.0]),
    Gaussian([0.3, -1.0], [[1.2, 0.0], [-0.5, 0.7]]),
    Gaussian(0.3, ms.fixed(2.0)),
    StudentT(0.3, 2.0, 5.0),
    StudentT([0.3, -1.0], [[1.2, 0.0], [-0.5, 0.7]], ms.positive(5.0)),
    SymmetricBessel(0.3, 2.0, 1.5),
    SymmetricBessel(ms.fixed([0.3, -1.0]), ms.positive([0.5, 2.0]), ms.positive(1.5)),
    GeneralisedGamma(0.3, 3.0),
    GeneralisedGamma([0.3, -1.0], ms.positive(3.0)),
    ms.models.ExponentialFamily(lambda x: jnp.array([x[0], x[0] ** 2]), [0.4, -0.6]),
]
family = pytest.mark.parametrize("model", FAMILIES, ids=repr)


def entry(model, name):
    """The number that a name points at, as Python reads it: 'scale[1,0]' is model.scale[1,0]."""
    return float(eval(f"model.{name}", {"model": ms.params.unwrap(model)}))


@family
def test_each_entry_of_theta_is_the_number_that_its_name_points_at(model):
    np.testing.assert_array_equal(theta(model), [entry(model, name) for name in names(model)])
    vector = jnp.arange(1.0, len(names(model)) + 1)
    moved = with_theta(model, vector)
    assert [entry(moved, name) for name in names(model)] == vector.tolist()


@family
def test_a_family_comes_back_and_keeps_its_marks(model):
    for moved in (with_theta(model, theta(model)), from_real(model, to_real(model))):
        assert jax.tree.structure(moved) == jax.tree.structure(model)
        assert names(moved) == names(model)
        for leaf, exact in zip(jax.tree.leaves(moved), jax.tree.leaves(model), strict=True):
            np.testing.assert_allclose(leaf, exact, rtol=1e-14, atol=1e-15)


@family
def test_a_family_at_any_real_vector_is_one_its_constructor_accepts(model):
    """The constructors check every constraint. Smoothness has a lower bound of its own, so it starts well above it."""
    random = np.random.default_rng(0)
    for eta in random.uniform(-3, 3, (5, len(names(model)))):
        moved = from_real(model, jnp.asarray(np.where(["smooth" in name for name in names(model)], 1 + eta**2, eta)))
        fields = {name: getattr(moved, name) for name in type(model).__dataclass_fields__}
        assert names(type(model)(**fields)) == names(model)


def test_shape_parameters_are_held_unless_marked_positive():
    assert names(StudentT(0.0, 1.0, 5.0)) == ("loc", "scale")
    assert names(SymmetricBessel(0.0, 1.0, 2.0)) == ("loc", "scale")
    assert names(GeneralisedGamma(0.0, 3.0)) == ("loc",)
    assert names(StudentT(0.0, 1.0, ms.positive(5.0))) == ("loc", "scale", "df")
    assert names(SymmetricBessel(0.0, 1.0, ms.positive(2.0))) == ("loc", "scale", "smoothness")
    assert names(GeneralisedGamma(0.0, ms.positive(3.0))) == ("loc", "power")


# ------------------------------------------------------------------------------------------------- fixed, and gradients


def test_a_fixed_leaf_gets_no_gradient_and_does_not_move():
    model = Gaussian(0.5, ms.fixed(2.0))
    slopes = jax.grad(lambda model: model(jnp.array([3.0])))(model)
    assert float(slopes.scale.value) == 0
    assert float(slopes.loc) == (3.0 - 0.5) / 4
    assert float(with_theta(model, jnp.array([7.0])).scale.value) == 2


def test_the_gradient_of_a_loss_has_one_entry_for_each_name():
    x = np.array([0.5, 1.5, 4.0])
    _, gradient = ms.value_and_grad(ms.SM(), Gaussian(0.0, 1.0), x)
    np.testing.assert_allclose(gradient, [-2 * x.mean(), -4 * np.mean(x**2) + 4], rtol=1e-12)
    _, without_loc = ms.value_and_grad(ms.SM(), Gaussian(ms.fixed(0.0), 1.0), x)
    np.testing.assert_allclose(without_loc, gradient[1:], rtol=1e-12)


def test_marks_in_a_users_own_module_are_taken_off_before_it_is_called():
    x = np.array([[0.5], [1.5], [-0.2], [4.0]])
    plain = eqx.tree_at(lambda n: (n.layers[1].bias, n.rate), NETWORK, (np.zeros(1), np.asarray(2.0)))
    loss, gradient = ms.value_and_grad(ms.SM(), NETWORK, x)
    _, with_bias = ms.value_and_grad(ms.SM(), plain, x)
    assert loss == pytest.approx(ms.SM()(plain, x), rel=1e-14)
    np.testing.assert_allclose(gradient, np.delete(with_bias, names(plain).index("layers[1].bias[0]")), rtol=1e-12)


def test_derivatives_through_from_real_follow_the_chain_rule():
    """log p = −z²/2 with z = (x − μ)/e^η: ∂_μ = z/e^η and ∂_η = z²; compiled and over a batch."""
    model, x = Gaussian(0.0, 1.0), 3.0
    slopes = jax.jit(jax.vmap(jax.grad(lambda eta: from_real(model, eta)(jnp.array([x])))))
    eta = np.array([[0.0, 0.0], [1.0, 0.5], [-2.0, -1.0]])
    z = (x - eta[:, 0]) / np.exp(eta[:, 1])
    np.testing.assert_allclose(slopes(eta), np.stack([z / np.exp(eta[:, 1]), z**2], axis=1), rtol=1e-13)


def test_the_slope_of_theta_in_the_unconstrained_vector():
    """Softmax: diag(w) − wwᵀ for the free weights; and LLᵀ at L = I: 2, 1, 2 on the diagonal."""
    slope = lambda model, eta: np.asarray(jax.jacfwd(lambda eta: theta(from_real(model, eta)))(eta))
    w = np.array([0.2, 0.3, 0.4])
    np.testing.assert_allclose(slope(SIMPLEX, to_real(SIMPLEX)), np.diag(w) - np.outer(w, w), rtol=1e-12)
    np.testing.assert_allclose(slope(DEFINITE, jnp.zeros(3)), np.diag([2.0, 1.0, 2.0]), rtol=1e-12)


@pytest.mark.parametrize("rebuild", [with_theta, from_real])
@pytest.mark.parametrize("size", [1, 3])
def test_a_vector_of_the_wrong_length_is_refused(rebuild, size):
    with pytest.raises(ValueError, match=rf"\({size},\).*2 free parameters"):
        rebuild(Gaussian(0.0, 1.0), jnp.ones(size))


def test_marks_within_fixed_come_off_and_marks_on_marks_are_refused():
    model = ms.models.from_log_density(
        lambda p, x: -p["known"]["a"] * x[0] ** 2 + p["b"] * x[0],
        {"known": ms.fixed({"a": ms.positive(1.0), "f": jnp.sin}), "b": 0.5},
    )
    assert names(model) == ("b",)
    assert ms.SM()(model, np.array([1.0])) == pytest.approx((-2 + 0.5) ** 2 - 4)
    with pytest.raises(TypeError, match="already marked"):
        ms.positive(ms.fixed(1.0))


def test_masks_and_integers_are_not_parameters():
    mask = np.array([True, False])
    model = ms.models.from_log_density(
        lambda p, x: -p["a"] * jnp.sum(jnp.where(p["mask"], x, 0) ** 2), {"a": 1.0, "mask": mask}
    )
    assert names(model) == ("a",)
    assert ms.SM()(model, np.array([[1.0, 5.0]])) == 0.0
    assert ms.fixed(mask).value.dtype == bool


def test_every_mark_prints_itself():
    marks = [ms.fixed(1.5), ms.positive(2.0), ms.simplex([0.5, 0.5]), ms.positive_definite(np.eye(2))]
    assert [str(mark).partition("(")[0] for mark in marks] == ["fixed", "positive", "simplex", "positive_definite"]
    normal = ms.models.from_numpyro(dist.MultivariateNormal, {"loc": np.zeros(2), "scale_tril": np.eye(2)})
    assert "scale_tril" in repr(normal)
    assert "Hutchinson" in repr(ms.SM(divergence=ms.Hutchinson(jax.random.key(0))))


def test_nothing_free_is_an_empty_vector():
    model = Gaussian(ms.fixed(0.0), ms.fixed(1.0))
    assert theta(model).shape == (0,)
    assert float(with_theta(model, theta(model))(jnp.array([2.0]))) == -2
