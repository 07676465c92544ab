"""Models made from what a user already has: a function, or a NumPyro distribution."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Tree
from ..constraints import PositiveDefinite, Simplex
from ..params import POSITIVE, REAL, SCALE, Marked, as_float, as_function, check_value, is_floating, is_marked
from ..spaces import REALS, AbstractSpace
from ._family import AbstractFamily, AbstractModel


class FromLogDensity(AbstractModel):
    """The model log p = fn(params, x); made by `from_log_density`."""

    fn: Callable = eqx.field(converter=as_function)
    params: Tree = eqx.field(metadata={"nameless": True})
    space: AbstractSpace = eqx.field(default=REALS, repr=False)

    def log_density(self, x):
        return self.fn(self.params, x)


def from_log_density(fn: Callable, params: Tree, *, space: AbstractSpace = REALS) -> FromLogDensity:
    """A model from a plain function `fn(params, x)`: log p up to a constant at one point x of shape (d,).

    Args:
        fn: the function; it is given `params` without marks.
        params: any pytree of numbers and arrays; its floating-point leaves are θ. Mark them with `ms.positive`,
            `ms.fixed` and their like.
        space: where x lives: the reals, `ms.spaces.SPINS`, `ms.spaces.BINARY`, `ms.spaces.Finite(values)` or
            `ms.spaces.COUNTS`.

    >>> model = ms.models.from_log_density(
    ...     lambda p, x: -((x[0] - p["mu"]) ** 2) / (2 * p["sigma"] ** 2), {"mu": 0.0, "sigma": ms.positive(1.0)}
    ... )
    >>> ms.params.names(model)
    ('mu', 'sigma')
    """
    return FromLogDensity(fn, jax.tree.map(_numbers_to_arrays, params, is_leaf=is_marked), space)


def _numbers_to_arrays(leaf: Any) -> Any:
    return as_float(leaf) if is_floating(leaf) else leaf


class FromNumPyro(AbstractFamily):
    """The model log p = distribution(**params).log_prob(x); made by `from_numpyro`."""

    distribution: Callable = eqx.field(static=True)
    params: dict[str, Any] = eqx.field(metadata={"nameless": True})

    def log_density(self, x):
        distribution = self.distribution(**self.params)
        shape = distribution.batch_shape + distribution.event_shape
        return jnp.sum(distribution.log_prob(x.reshape(shape)))

    def draw(self, key, n):
        return self.distribution(**self.params).sample(key, (n,)).reshape(n, -1)

    def place(self, x):
        """NumPyro does not say where its distributions lie on data, so a fit begins at the parameters given."""
        return self


def from_numpyro(distribution: Callable, params: Mapping[str, Any]) -> FromNumPyro:
    """A model from a continuous NumPyro distribution.

    Parameters that NumPyro declares as positive, a Cholesky factor, positive definite or a simplex are marked so; every
    parameter is free unless marked `ms.fixed`.

    Args:
        distribution: the class, such as `numpyro.distributions.StudentT`.
        params: its arguments by name.

    >>> import numpyro.distributions as dist
    >>> model = ms.models.from_numpyro(dist.StudentT, {"df": ms.fixed(5.0), "loc": 0.0, "scale": 1.0})
    >>> ms.params.names(model)
    ('loc', 'scale')
    """
    values = {name: value.value if is_marked(value) else value for name, value in params.items()}
    instance = distribution(**values)
    if instance.support.is_discrete:
        raise TypeError(
            f"{distribution.__name__} is discrete. Write its log-density yourself: "
            "ms.models.from_log_density(fn, params, space=ms.spaces.COUNTS)."
        )
    return FromNumPyro(
        distribution, {name: _constrained(name, value, instance.arg_constraints) for name, value in params.items()}
    )


def _constrained(name: str, value: Any, declared: Mapping[str, Any]) -> Any:
    """A parameter with the mark that NumPyro's own constraint on it amounts to, unless its user marked it."""
    from numpyro.distributions import constraints

    if is_marked(value) or name not in declared:
        return value
    constraint = getattr(declared[name], "base_constraint", declared[name])
    known = [
        (constraints.positive, POSITIVE),
        (constraints.lower_cholesky, SCALE),
        (constraints.positive_definite, PositiveDefinite()),
        (constraints.simplex, Simplex()),
    ]
    mark = next((ours for theirs, ours in known if theirs is constraint), REAL)
    check_value(f"from_numpyro: {name}", as_float(value), mark)
    return as_float(value) if mark is REAL else Marked(as_float(value), mark)
