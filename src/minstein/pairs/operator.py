"""A sum over pairs as a symmetric operator G on per-point features φ, which does not depend on θ.

Σ_{i≠j} k⁰(xᵢ, xⱼ) = ⟨φ, G φ⟩, so one application of G gives value and gradient, and applications to
the tangents of φ give second derivatives. Pairs are never differentiated.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Float

from .. import errors
from .._types import Array, Scalar, Tree, is_symbolic_zero
from .forms import Features


class AbstractOperator(eqx.Module):
    """G on the points of a sample, for batches of features (the leading axis), zero in padding.

    Every way of summing over pairs is one class with these two methods.
    """

    @abc.abstractmethod
    def apply(self, phis: Features, *, still: bool = False, once: bool = False) -> Features:
        """Return Σ_{j≠i} G_ij φⱼ at every point.

        Args:
            phis: the batch.
            still: whether all members except the first have m = 0, which saves work.
            once: whether the sum is computed only once, so that fast compilation matters more than
                fast execution.
        """

    @abc.abstractmethod
    def own(self, phis: Features) -> Features:
        """Return G_ii φᵢ at every point."""


class Fields(NamedTuple):
    """G φ_a for a batch of features: from other points, and from each point itself."""

    off: Features
    on: Features

    def together(self, diagonal: Any) -> Features:
        """Return the fields from other points, with `diagonal` times each point's own.

        If `diagonal` is zero, own fields are left out even if they are not finite: a kernel that a
        user wrote may not be differentiable at x = y, and the U-statistic does not need it to be.
        """
        return jax.tree.map(
            lambda a, b: a + jnp.where(diagonal > 0, diagonal * b, 0), self.off, self.on
        )


class Products(NamedTuple):
    """⟨φ_a, G φ_b⟩ for a batch of features: over pairs of different points, and over each point
    with itself."""

    off: Float[Array, "q q"]
    on: Float[Array, "q q"]


def fields(
    operator: AbstractOperator, phis: Features, *, still: bool = False, once: bool = False
) -> Fields:
    """Return G applied to a batch of features in one pass over the pairs.

    It is linear in φ for every transformation of JAX: its derivative and its transpose are G again.
    With `still` it cannot be differentiated.
    """
    operator = _hold(operator)
    if still:
        return Fields(operator.apply(phis, still=True, once=once), operator.own(phis))
    return Fields(_linear(partial(operator.apply, once=once), phis), _linear(operator.own, phis))


def products(phis: Features, fields: Fields) -> Products:
    """Return ⟨φ_a, G φ_b⟩ from a batch of features and their fields."""
    return Products(_gram(phis, fields.off), _gram(phis, fields.on))


def inner(phi: Features, psi: Features) -> Scalar:
    """⟨φ, ψ⟩."""
    return jnp.vdot(phi.t, psi.t) + jnp.vdot(phi.m, psi.m)


@eqx.filter_custom_jvp
def pair_sum(operator: AbstractOperator, phi: Features, diagonal: Any) -> Scalar:
    """Return ⟨φ, G φ⟩ over pairs of different points, plus `diagonal` times that of each point with
    itself, which False leaves out. Value and gradient take one application of G."""
    return inner(phi, _field(operator, phi, diagonal))


@pair_sum.def_jvp
def _pair_sum_jvp(primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    operator, phi, diagonal = primals
    of_operator, of_phi, of_diagonal = tangents
    if jax.tree.leaves((of_operator, of_diagonal)):
        raise _no_gradient_in_data()
    psi = _field(operator, phi, diagonal)
    moving = ((psi.t, of_phi.t), (psi.m, of_phi.m))
    terms = (jnp.vdot(field, along) for field, along in moving if along is not None)
    return inner(phi, psi), 2 * sum(terms, jnp.zeros((), phi.t.dtype))


def _field(operator: AbstractOperator, phi: Features, diagonal: Any) -> Features:
    """G φ for features without a batch."""
    batch, operator = phi.as_batch(), _hold(operator)
    found = _linear(operator.apply, batch)
    if diagonal is not False:
        found = Fields(found, _linear(operator.own, batch)).together(jnp.asarray(diagonal))
    return found.first()


def _gram(a: Features, b: Features) -> Float[Array, "q q"]:
    q = a.t.shape[0]
    return a.t.reshape(q, -1) @ b.t.reshape(q, -1).T + a.m.reshape(q, -1) @ b.m.reshape(q, -1).T


def _linear(apply: Callable[[Features], Features], phis: Features) -> Features:
    """Apply an operator in such a way that JAX knows that it is linear and symmetric.

    `custom_linear_solve` is the transformation that declares this and can be batched; nothing
    is solved here. It takes one array.
    """
    a, rows, r = phis.t.shape
    pack = lambda phis: jnp.concatenate([phis.t, phis.m.reshape(a, rows, -1)], axis=2)
    unpack = lambda flat: Features(flat[..., :r], flat[..., r:].reshape(phis.m.shape))
    solve = lambda _, flat: pack(apply(unpack(flat)))
    return unpack(lax.custom_linear_solve(lambda psi: psi, pack(phis), solve, symmetric=True))


def _hold(tree: Tree) -> Tree:
    """Return the tree, but raise if it is differentiated: `custom_linear_solve` would silently drop
    its derivatives."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(_hold_arrays(arrays), rest)


@jax.custom_jvp
def _hold_arrays(arrays: Tree) -> Tree:
    return arrays


@partial(_hold_arrays.defjvp, symbolic_zeros=True)
def _hold_arrays_jvp(primals, tangents):
    leaves = jax.tree.leaves(tangents, is_leaf=is_symbolic_zero)
    if not all(map(is_symbolic_zero, leaves)):
        raise _no_gradient_in_data()
    return primals[0], tangents[0]


@errors.explained("architecture.md")
def _no_gradient_in_data() -> TypeError:
    return TypeError(
        "A discrepancy is differentiable in the model, not in x or in the kernel's parameters. "
        "For those, differentiate ms.stein_kernel(model, m, kernel), which is plain JAX."
    )
