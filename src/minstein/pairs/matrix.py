"""The matrix k⁰(xᵢ, xⱼ) itself, computed a row at a time, for inspection."""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Scalar
from ..data.sample import Sample
from ..kernels import AbstractRadial, Span
from ..kernels._kernel import Free
from .autodiff import ByAutodiff
from .backends import Summand
from .forms import AbstractForm, Features
from .reduce import change_features, reduce_term


def stein_matrix(terms: tuple[Summand, ...], sample: Sample, phi: Features) -> Float[Array, "N N"]:
    """Return ⟨φᵢ, G_ij φⱼ⟩ for all i and j, from differences of coordinates; beside the matrix it
    needs O(n d) memory.
    """
    return sum((_of_term(term, sample, phi) for term in terms), jnp.zeros(()))


def _of_term(term: Summand, sample: Sample, phi: Features) -> Float[Array, "N N"]:
    match term:
        case Free():
            return ByAutodiff(term.kernel, sample.x, sample.real).matrix(phi)
        case Span():
            t = change_features(term, sample, phi).t
            return t @ t.T
    form, phi = reduce_term(term, sample, phi)
    places = (form.points, phi)
    row = lambda one: jax.vmap(lambda other: _value(form, term.profile, one, other))(places)
    return jax.lax.map(row, places)


def _value(form: AbstractForm, kernel: AbstractRadial, one: tuple, other: tuple) -> Scalar:
    """κ t·t′ + 2κ′[(mᵀD)·t′ − t·(m′ᵀD) − ⟨m, m′⟩] − 4κ″ (mᵀD)·(m′ᵀD)."""
    (points, (t, m)), (points_, (t_, m_)) = one, other
    D = jax.tree.map(jnp.subtract, points, points_)
    k, k1, k2 = kernel.profile(jnp.vdot(D["z"], D["z"]))
    along, along_ = form.along(m, D), form.along(m_, D)
    first = jnp.vdot(along, t_) - jnp.vdot(t, along_) - form.overlap(m, m_)
    return k * jnp.vdot(t, t_) + 2 * k1 * first - 4 * k2 * jnp.vdot(along, along_)
