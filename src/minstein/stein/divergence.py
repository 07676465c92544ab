"""The divergence ∇·v of a vector field: exact, or estimated along random directions."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from .._text import as_call
from .._types import Array, Point, Scalar
from ..data.keys import as_key


class AbstractDivergence(eqx.Module):
    """A rule for ‖g‖² + 2∇·v in diffusion score matching, with g = mᵀ∇log p and v = m g."""

    def __repr__(self) -> str:
        return as_call(self)

    @abc.abstractmethod
    def entries(self, d: int) -> int:
        """The number of derivatives in memory at once for each observation."""

    @abc.abstractmethod
    def contribution(self, g: Point, v: Callable[[Point], Point], x: Point, row: Array) -> Scalar:
        """‖g‖² + 2∇·v at the point x; `row` is its index in the data."""


class Exact(AbstractDivergence):
    """Every ∂ᵢvᵢ, by d derivatives along the coordinates."""

    def entries(self, d):
        return d**2

    def contribution(self, g, v, x, row):
        return jnp.vdot(g, g) + 2 * jnp.trace(jax.jacfwd(v)(x))


class Hutchinson(AbstractDivergence):
    """∇·v estimated by the mean of εᵀ(∂v)ε over random signs ε: unbiased, one derivative per probe.

    Args:
        key: the source of randomness, an integer or a JAX key; the same key gives the same loss.
        probes: the number of directions for each observation.

    >>> sm = ms.SM(divergence=ms.Hutchinson(jax.random.key(0)))
    >>> x = np.array([[0.1, -0.4], [0.7, 1.5]])
    >>> bool(np.isclose(sm(ms.models.Gaussian([0.0, 0.0], 1.0), x), ms.SM()(ms.models.Gaussian([0.0, 0.0], 1.0), x)))
    True
    """

    key: PRNGKeyArray = eqx.field(converter=as_key)
    probes: int = eqx.field(static=True, default=1)

    def entries(self, d):
        return self.probes * d

    def contribution(self, g, v, x, row):
        slope = lambda e: jnp.vdot(e, jax.jvp(v, (x,), (e,))[1])
        slopes = jax.vmap(slope)(_signs(self.key, row, self.probes, x))
        return jnp.vdot(g, g) + 2 * jnp.mean(slopes)


class Sliced(AbstractDivergence):
    """Sliced score matching: the mean of (εᵀg)² + 2εᵀ(∂v)ε over random signs ε.

    It is unbiased, but noisier than `Hutchinson`.

    Args:
        key: the source of randomness, an integer or a JAX key; the same key gives the same loss.
        slices: the number of directions for each observation.

    >>> sm = ms.SM(divergence=ms.Sliced(jax.random.key(0)))
    >>> bool(np.isfinite(sm(ms.models.Gaussian([0.0, 0.0], 1.0), np.array([[0.1, -0.4], [0.7, 1.5]]))))
    True
    """

    key: PRNGKeyArray = eqx.field(converter=as_key)
    slices: int = eqx.field(static=True, default=1)

    def entries(self, d):
        return self.slices * d

    def contribution(self, g, v, x, row):
        along = lambda e: jnp.vdot(e, g) ** 2 + 2 * jnp.vdot(e, jax.jvp(v, (x,), (e,))[1])
        return jnp.mean(jax.vmap(along)(_signs(self.key, row, self.slices, x)))


def _signs(key: PRNGKeyArray, row: Array, count: int, x: Point) -> Float[Array, "count d"]:
    """Random directions of signs, the same for an observation whenever they are drawn."""
    return jax.random.rademacher(jax.random.fold_in(key, row), (count, x.shape[0]), x.dtype)
