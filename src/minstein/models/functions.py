"""Models made from a function or from a NumPyro distribution."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Tree
from ..data.spaces import REALS, AbstractSpace, Box, as_space
from ..params import (
    POSITIVE,
    REAL,
    SCALE,
    Marked,
    as_float,
    as_function,
    check_value,
    is_floating,
    is_marked,
    names,
    plain,
)
from ..params.constraints import PositiveDefinite, Simplex
from ._family import AbstractFamily, AbstractModel


class FromLogDensity(AbstractModel):
    """The model log p = fn(params, x); made by `from_log_density`."""

    fn: Callable = eqx.field(converter=as_function)
    params: Tree = eqx.field(metadata={"nameless": True})
    space: AbstractSpace = eqx.field(default=REALS, repr=False)

    def log_density(self, x):
        return self.fn(self.params, x)


def from_log_density(
    fn: Callable, params: Tree, *, space: AbstractSpace = REALS, support: Any = None
) -> FromLogDensity:
    """Make a model from a function `fn(params, x)` that returns log p(x) up to a constant.

    Args:
        fn: the function; it receives `params` without marks and one point x of shape (d,).
        params: any pytree of numbers and arrays, whose floating-point leaves are θ. Mark them with
            `ms.positive`, `ms.fixed` and so on.
        space: the space of x: the reals, `ms.spaces.Box(low, high)`, `ms.spaces.SPINS`,
            `ms.spaces.BINARY`, `ms.spaces.Finite(values)` or `ms.spaces.COUNTS`.
        support: (low, high), short for `space=ms.spaces.Box(low, high)`: numbers, or arrays of
            shape (d,); infinite if there is no edge.

    >>> model = ms.models.from_log_density(
    ...     lambda p, x: -((x[0] - p["mu"]) ** 2) / (2 * p["sigma"] ** 2), {"mu": 0.0, "sigma": ms.positive(1.0)}
    ... )
    >>> ms.params.names(model)
    ('mu', 'sigma')
    """
    space = space if support is None else as_space(support)
    as_leaf = lambda leaf: as_float(leaf) if is_floating(leaf) else leaf
    return FromLogDensity(fn, jax.tree.map(as_leaf, params, is_leaf=is_marked), space)


class FromNumPyro(AbstractFamily):
    """The model log p = distribution(**params).log_prob(x); made by `from_numpyro`."""

    distribution: Callable = eqx.field(static=True)
    params: dict[str, Any] = eqx.field(metadata={"nameless": True})
    space: AbstractSpace = eqx.field(default=REALS, repr=False)

    def log_density(self, x):
        distribution = self.distribution(**self.params)
        shape = distribution.batch_shape + distribution.event_shape
        return jnp.sum(distribution.log_prob(x.reshape(shape)))

    def draw(self, key, n):
        return self.distribution(**self.params).sample(key, (n,)).reshape(n, -1)

    def place(self, x):
        """Return self: NumPyro provides no rough estimates, so a fit starts from the user's values."""
        return self


def from_numpyro(distribution: Callable, params: Mapping[str, Any]) -> FromNumPyro:
    """Make a model from a continuous NumPyro distribution.

    Parameters that NumPyro declares to be positive, a Cholesky factor, positive definite or a
    simplex are marked accordingly; every parameter is free unless marked `ms.fixed`. If NumPyro
    declares a half-line or a box as the support, it becomes the support of the model.

    Args:
        distribution: the class, such as `numpyro.distributions.StudentT`.
        params: its arguments by name.

    >>> import numpyro.distributions as dist
    >>> model = ms.models.from_numpyro(dist.StudentT, {"df": ms.fixed(5.0), "loc": 0.0, "scale": 1.0})
    >>> ms.params.names(model)
    ('loc', 'scale')
    """
    instance = distribution(**{name: plain(value) for name, value in params.items()})
    if instance.support.is_discrete:
        raise TypeError(
            f"{distribution.__name__} is discrete. Write its log-density yourself: "
            "ms.models.from_log_density(fn, params, space=ms.spaces.COUNTS)."
        )
    marked = {
        name: _mark_as_declared(name, value, instance.arg_constraints)
        for name, value in params.items()
    }
    with jax.enable_x64(True):
        return FromNumPyro(distribution, marked, _space(distribution, marked))


def _space(distribution: Callable, params: Mapping[str, Any]) -> AbstractSpace:
    """Return the support that NumPyro declares, or raise if it depends on a free parameter."""
    values = {name: plain(value) for name, value in params.items()}
    space = _declared_box(distribution(**values))
    for name in names(dict(params)):
        leaf = name.partition("[")[0]
        value = np.asarray(values[leaf])
        moved = {**values, leaf: value * _NUDGE if value.any() else value + 1 - _NUDGE}
        if _declared_box(distribution(**moved)) != space:
            raise ValueError(
                f"The support of {distribution.__name__} depends on {leaf}, which is to be fitted. A discrepancy "
                f"cannot estimate the edges of the support: fix {leaf} with ms.fixed(...)."
            )
    return space


_NUDGE = 0.999
"""The factor that perturbs a parameter to see whether the support moves with it. It is close to one
so that the parameter stays within its range.
"""


class Elsewhere(AbstractSpace):
    """A support that is not a box: a model on it can be made, but no discrepancy can fit it."""

    what: str = eqx.field(static=True)

    def check(self, x):
        raise TypeError(
            f"{self.what}, which is not a box, so the estimates would be wrong. Write the density in coordinates on a "
            "box: ms.models.from_log_density(fn, params, support=(low, high))."
        )


def _declared_box(instance: Any) -> AbstractSpace:
    from numpyro.distributions import constraints

    declared = getattr(instance.support, "base_constraint", instance.support)
    low, high = (getattr(declared, f"{end}_bound", None) for end in ("lower", "upper"))
    if low is None and high is None:
        if declared is constraints.real:
            return REALS
        return Elsewhere(f"{type(instance).__name__} lives on {instance.support}")
    size = int(np.prod(instance.batch_shape + instance.event_shape))
    ends = [
        np.broadcast_to(-sign * np.inf if end is None else end, size)
        for end, sign in ((low, 1), (high, -1))
    ]
    return REALS if np.isinf(ends).all() else Box(*ends)


def _mark_as_declared(name: str, value: Any, declared: Mapping[str, Any]) -> Any:
    """Mark a parameter with the constraint that NumPyro declares, unless the user has marked it."""
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
