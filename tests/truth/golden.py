"""Exact values of every quantity, from 30-digit arithmetic, and the functions of x and θ that they belong to.

Expressions in the file are SymPy's; here they become plain functions on JAX arrays. Nothing of the package is used.
"""

import json
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax.scipy.special import gammaln

CASES = json.loads((Path(__file__).parent / "golden.json").read_text())["cases"]


def with_dsm() -> list:
    """The cases that have values for DSM, for a parametrised test; Bessel functions take long to compile."""
    found = [case for case in CASES if "dsm" in case["outputs"]]
    return [pytest.param(c, marks=pytest.mark.slow) if c["id"].startswith("bessel") else c for c in found]


def number(text: str | float) -> float:
    return float(sympy.Rational(str(text)))


def _besselk(order: float, z):
    """K_ν for half-integer ν, a finite sum."""
    n = round(float(order) - 0.5)
    terms = (
        jnp.exp(gammaln(n + k + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)) / (2 * z) ** k for k in range(n + 1)
    )
    return jnp.sqrt(jnp.pi / (2 * z)) * jnp.exp(-z) * sum(terms)


_NAMES = {"sqrt": jnp.sqrt, "log": jnp.log, "exp": jnp.exp, "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh}


def function(expression: str, d: int, p: int) -> Callable:
    """The expression in x0, x1, … and t0, t1, … as a function (x, θ) ↦ value."""
    symbols = [*sympy.symbols(f"x0:{d}"), *sympy.symbols(f"t0:{p}")]
    parsed = sympy.sympify(expression, rational=True)
    compiled = sympy.lambdify(symbols, parsed, modules=[{**_NAMES, "besselk": _besselk}, jnp])
    return lambda x, theta: jnp.asarray(compiled(*x, *theta), x.dtype)


def field(entries: str | list, d: int, p: int) -> Callable:
    """A scalar expression, or a nested list of them as a matrix."""
    if isinstance(entries, str):
        return function(entries, d, p)
    rows = [[function(entry, d, p) for entry in row] for row in entries]
    return lambda x, theta: jnp.stack([jnp.stack([entry(x, theta) for entry in row]) for row in rows])


def agree(actual, exact, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(actual, exact, rtol=rtol, atol=1e-11)
