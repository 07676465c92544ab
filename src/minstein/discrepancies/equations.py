"""Equations g(θ) = 0 as a loss, gᵀC⁻¹g."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array, Scalar, Theta
from ..data.sample import Sample
from ..params import theta
from .base import AbstractObjective, Jet, Second
from .score_regression import Regression, Rows, regress


class EquationObjective(AbstractObjective):
    """gᵀC⁻¹g for the equations of `Efficient`. Near a root the Hessian is 2JᵀC⁻¹J with J = ∂g/∂θ."""

    has_zeroth: ClassVar[bool] = False
    model: Any
    sample: Sample
    natural: bool = eqx.field(static=True)
    discrepancy: Any

    def __call__(self, vector):
        found = self._regression(vector)
        return found.mean @ jnp.linalg.solve(found.cov, found.mean)

    def value(self, model):
        return dataclasses.replace(self, model=model, natural=True)(jnp.asarray(theta(model)))

    def _regression(self, vector: Theta) -> Regression:
        return self.discrepancy.regression(self.at, vector, self.sample)

    def around(self, vector: Theta) -> "Around":
        """The equations with their derivatives, one parameter after another."""
        rows = lambda vector: self.discrepancy.rows(self.at, vector, self.sample.x)
        (S, y), push = jax.linearize(rows, vector)
        found = regress(S, y, self.sample.real)
        standardised = Rows.of(found, S, y, self.sample.real)
        slope = lambda direction: standardised.slope(found, *push(direction))
        slopes, bends = jax.lax.map(slope, jnp.eye(vector.size, dtype=vector.dtype))
        return Around(found, S, y, slopes, bends)

    def jet(self, vector):
        around = self.around(vector)
        metric, noise = around.metric(), vector.size / self.sample.size
        return Jet(*around.value_and_gradient(), metric, metric, noise)

    def second(self, vector):
        around = self.around(vector)
        rows = self.sample.zero_padding(around.found.shares(around.S, around.y))
        _, gradient = around.value_and_gradient()
        return Second(2 * around.metric(), gradient, around.pull(rows))

    def shares(self, vector, z):
        """With the fields held: how an observation changes them is known where there are data, and
        means nothing elsewhere.
        """
        around = self.around(vector)
        return around.pull(around.found.held_shares(self.discrepancy.rows(self.at, vector, z)[0]))

    def part(self, rows, vector, key, chains):
        raise TypeError(
            "Fields are learned from the whole sample, not from minibatches. Use ms.SM() or ms.KSD(...) with SGD."
        )


class Around(NamedTuple):
    """The equations g and the derivatives of g and C, the parameter in front; S and y are the rows of
    the regression.
    """

    found: Regression
    S: Float[Array, "N F"]
    y: Float[Array, "N p"]
    slopes: Float[Array, "p p"]
    bends: Float[Array, "p p p"]

    def value_and_gradient(self) -> tuple[Scalar, Theta]:
        """gᵀC⁻¹g, and its gradient 2Jᵀw − wᵀ(∂C)w with w = C⁻¹g."""
        w = jnp.linalg.solve(self.found.cov, self.found.mean)
        bent = jnp.einsum("kab,a,b->k", self.bends, w, w)
        return self.found.mean @ w, 2 * self.slopes @ w - bent

    def metric(self) -> Float[Array, "p p"]:
        """JᵀC⁻¹J."""
        return self.slopes @ jnp.linalg.solve(self.found.cov, self.slopes.T)

    def pull(self, rows: Float[Array, "k p"]) -> Float[Array, "p k"]:
        """What shares in g contribute to the gradient of gᵀC⁻¹g: 2JᵀC⁻¹ times them."""
        return 2 * self.slopes @ jnp.linalg.solve(self.found.cov, rows.T)
