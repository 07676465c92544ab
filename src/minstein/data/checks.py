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
    """Raise if the model cannot be a log-density: if it is a class, a name or a number."""
    if isinstance(model, type):
        raise TypeError(
            f"model must be an instance, got the class {model.__name__} itself. Call it with the values from which the "
            f"fit starts: {model.__name__}(...), such as ms.models.Gaussian(0.0, 1.0)."
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
    """Raise if continuous data do not vary, or are too few for standard errors: two observations
    for two parameters or more.
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
            f"x has 2 observations and the model {p} parameters ({', '.join(names(model)[: errors.FEW])}), so "
            "standard errors cannot be estimated. Hold some parameters with ms.fixed(...), or pass covariance=False "
            "for estimates alone."
        )


def warn_of_single_constants(model: LogDensity, x: AbstractRows) -> None:
    """Warn if the data are in double precision, but a constant of the model is not."""
    if x.dtype != np.float64 or is_traced((model, x)):
        return
    with precision(x, model):
        found = next(_single_constants(model, x.shape[1]), None)
    if found is not None:
        warnings.warn(_is_single(found), errors.PrecisionWarning, stacklevel=3)


def _single_constants(model: LogDensity, d: int) -> Iterator[str]:
    """Yield what a message calls each constant of the model that is in single precision."""
    for name, value in held(model).items():
        if any(map(_is_rounded, jax.tree.leaves(value))):
            yield f"the model's {name}"
    for constant in filter(_is_rounded, _constants(model, d)):
        yield f"an array of shape {constant.shape} that the model's function refers to"


def _is_rounded(value: Any) -> bool:
    """Whether numbers are float32 and use its last eight bits, as 0.1 does but 5 and 0.25 do not."""
    if getattr(value, "dtype", None) != np.float32:
        return False
    return bool((np.asarray(value).view(np.uint32) & 0xFF).any())


def _constants(model: LogDensity, d: int) -> Iterator[Any]:
    """Yield the arrays to which log p refers without taking them as arguments, by tracing it."""
    numbers, rest = eqx.partition(unwrap(model), is_floating)
    log_p = lambda numbers, x: eqx.combine(numbers, rest)(x)
    yield from _constants_of(
        jax.make_jaxpr(log_p)(numbers, jax.ShapeDtypeStruct((d,), jnp.float64))
    )


def _constants_of(closed: Any) -> Iterator[Any]:
    """Yield the constants of a jaxpr and of the jaxprs inside it, such as those of jitted functions."""
    yield from closed.consts
    is_closed = lambda part: hasattr(part, "consts")
    for equation in closed.jaxpr.eqns:
        for part in jax.tree.leaves(equation.params, is_leaf=is_closed):
            if is_closed(part):
                yield from _constants_of(part)


@errors.explained("sharp-bits.md")
def _is_single(constant: str) -> str:
    return (
        f"x is float64, but {constant} is float32, so results are exact to about seven digits only. Arrays made by "
        "jnp.array outside 64-bit mode are float32: make them with np.array instead."
    )


@errors.explained("your-own-model.md")
def no_parameters() -> ValueError:
    return ValueError(
        "The model has no free parameters, so there is nothing to estimate. Parameters are floating-point leaves that "
        "are not marked fixed: write 1.0 instead of 1, or remove ms.fixed(...). A plain function of x has no "
        "parameters: ms.models.from_log_density(fn, params) makes a model from fn(params, x)."
    )
