"""Natural exponential families with an arbitrary statistic and base measure."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._types import Array
from ..data.reading import read
from ..params import as_function, parameter, unwrap
from ._family import AbstractModel, with_values
from .mcmc import nuts


class ExponentialFamily(AbstractModel):
    """log p = ⟨θ, T(x)⟩ + b(x).

    Its KSD and score-matching losses are quadratic in θ if the kernel and the diffusion do not
    depend on θ: `ms.quadratic` returns the coefficients.

    Args:
        statistic: T, a function of one point x of shape (d,) that returns a vector of shape (p,),
            or a scalar.
        theta: θ, of the same shape as T(x).
        base: b, a function of one point that returns a scalar; zero by default.

    >>> model = ms.models.ExponentialFamily(lambda x: jnp.array([x[0], x[0] ** 2]), [0.4, -0.6])
    >>> round(float(model(jnp.array([2.0]))), 3)
    -1.6
    """

    statistic: Callable = eqx.field(converter=as_function)
    theta: Any = parameter()
    base: Callable | None = eqx.field(
        converter=lambda b: None if b is None else as_function(b), default=None
    )

    def log_density(self, x):
        statistic = jnp.asarray(self.statistic(x))
        if statistic.shape != jnp.shape(self.theta):
            raise ValueError(
                f"ExponentialFamily: statistic(x) has shape {statistic.shape}, but theta has shape "
                f"{jnp.shape(self.theta)}. Each entry of theta multiplies one entry of the statistic."
            )
        return jnp.vdot(self.theta, statistic) + (0.0 if self.base is None else self.base(x))

    def sample(
        self, key: PRNGKeyArray, n: int, *, init: Any, thin: int = 10
    ) -> Float[Array, "n d"]:
        """Return n approximate draws by the No-U-Turn sampler, started at `init`; needs NumPyro."""
        return nuts(self, key, n, init=init, thin=thin)

    def start(self, x: Any) -> "ExponentialFamily":
        """Return the family at its score-matching estimate.

        This is −A⁻¹v with A = mean ∇T∇Tᵀ and v = mean(∇T∇b + ΔT).
        """
        family = unwrap(self)

        def moments(x):
            statistic = lambda x: jnp.ravel(jnp.asarray(family.statistic(x)))
            gradient = jax.jacfwd(statistic)(x)
            laplacian = jnp.trace(jax.jacfwd(jax.jacrev(statistic))(x), axis1=1, axis2=2)
            base = 0.0 if family.base is None else gradient @ jax.grad(family.base)(x)
            return gradient @ gradient.T, laplacian + base

        with jax.enable_x64(True):
            A, v = jax.vmap(moments)(jnp.asarray(np.asarray(read(x), np.float64)))
            theta = np.linalg.lstsq(np.asarray(A.mean(0)), -np.asarray(v.mean(0)), rcond=None)[0]
        return with_values(self, theta=theta)
