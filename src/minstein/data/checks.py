"""Checks before a fit: that the model is a log-density, and that the data can identify it."""

import warnings
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import LogDensity, is_traced
from ..params import held, is_floating, names, unwrap
from .boundary import precision
from .rows import AbstractRows
from .spaces import AbstractSpace


def check_model(model: Any) -> None:
    """Refuse what cannot be a log-density: a class instead of an instance, a name, a number."""
    if isinstance(model, type):
        raise TypeError(
            f"model must be an instance, got the class {model.__name__} itself. Its arguments are where a fit starts: "
            f"{model.__name__}(...), such as ms.models.Gaussian(0.0, 1.0)."
        )
    if not callable(model):
        raise TypeError(
            "model must be a family such as ms.models.Gaussian(0.0, 1.0), a function with its parameters, "
            "ms.models.from_log_density(fn, params), or another callable pytree that returns log p(x) for one point; "
            f"got {model!r}."
        )
    if not names(model):
        raise no_parameters()


def check_data(model: LogDensity, x: AbstractRows, space: AbstractSpace, covariance: bool) -> None:
    """Refuse continuous data that do not vary, and standard errors from two observations for two
    parameters.
    """
    n, p = x.shape[0], len(names(model))
    if space.discrete or is_traced(x):
        return
    low, high = np.asarray(x.min(axis=0)), np.asarray(x.max(axis=0))
    constant = np.flatnonzero(low == high)
    if constant.size:
        where = ", ".join(f"column {j} is {low[j]:g}" for j in constant[: errors.FEW])
        do = " Leave such columns out." if constant.size < x.shape[1] else ""
        raise ValueError(
            f"x does not vary: {where} in {'the only row' if n == 1 else f'all {n} rows'}. A continuous distribution "
            f"does not give such data, and its scale would be zero.{do}"
        )
    if covariance and n == 2 <= p:
        raise ValueError(
            f"x has 2 observations and the model {p} parameters ({', '.join(names(model)[: errors.FEW])}), so that "
            "nothing is left to tell the errors from. Hold some with ms.fixed(...), or pass covariance=False "
            "for estimates alone."
        )


def warn_of_single_constants(model: LogDensity, x: AbstractRows) -> None:
    """Warn if data are in double precision, but a constant of the model is not."""
    if x.dtype != np.float64 or is_traced((model, x)):
        return
    for name, value in held(model).items():
        if any(_is_rounded(leaf) for leaf in jax.tree.leaves(value)):
            warnings.warn(
                _single_constants(f"the model's {name}"),
                errors.PrecisionWarning,
                stacklevel=3,
            )
            return
    with precision(x, model):
        found = [constant for constant in _constants(model, x.shape[1]) if _is_rounded(constant)]
    if found:
        where = f"an array of shape {found[0].shape} that the model's function refers to"
        warnings.warn(_single_constants(where), errors.PrecisionWarning, stacklevel=3)


def _is_rounded(value: Any) -> bool:
    """Whether numbers are float32 and use its last eight bits, as 0.1 does, and 5 or 0.25 do not."""
    if getattr(value, "dtype", None) != np.float32:
        return False
    return bool((np.asarray(value).view(np.uint32) & 0xFF).any())


def _constants(model: LogDensity, d: int) -> Iterator[Any]:
    """The arrays that log p refers to without being given them, found by tracing it."""
    numbers, rest = eqx.partition(unwrap(model), is_floating)
    log_p = lambda numbers, x: eqx.combine(numbers, rest)(x)
    yield from _constants_of(
        jax.make_jaxpr(log_p)(numbers, jax.ShapeDtypeStruct((d,), jnp.float64))
    )


def _constants_of(closed: Any) -> Iterator[Any]:
    """The constants of a jaxpr and of those inside it, as functions that are jitted have them."""
    yield from closed.consts
    is_closed = lambda part: hasattr(part, "consts")
    for equation in closed.jaxpr.eqns:
        for part in jax.tree.leaves(equation.params, is_leaf=is_closed):
            if is_closed(part):
                yield from _constants_of(part)


@errors.explained("sharp-bits.md")
def _single_constants(where: str) -> str:
    return (
        f"x is float64, but {where} is float32, so results are exact to about seven digits only. Arrays made by "
        "jnp.array outside 64-bit mode are float32: make them with np.array instead."
    )


@errors.explained("your-own-model.md")
def no_parameters() -> ValueError:
    return ValueError(
        "The model has no free parameters, so there is nothing to differentiate in. Parameters are floating-point "
        "leaves that are not marked fixed: write 1.0 instead of 1, or take off ms.fixed(...). A plain function of x "
        "has none: ms.models.from_log_density(fn, params) makes a model of fn(params, x)."
    )
