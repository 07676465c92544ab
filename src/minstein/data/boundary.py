"""Running a computation on data in their own precision: the only boundary between users and the
mathematics.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._types import Tree, is_traced
from ..params import is_floating
from .compiling import compiled
from .in_memory import as_rows
from .rows import AbstractRows, Data
from .sample import AnySample


def in_precision(tree: Tree, dtype: Any) -> Tree:
    """Return the tree with every floating-point leaf, Python floats included, cast to this type."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if is_floating(leaf) else leaf, tree)


def precision(x: Data, tree: Tree) -> AbstractContextManager:
    """Return a context that turns on 64-bit mode for float64 data, whatever the user's settings."""
    if x.dtype != np.float64 or jax.config.read("jax_enable_x64"):
        return nullcontext()
    if is_traced((x, tree)):
        warnings.warn(_model_is_traced(), errors.PrecisionWarning, stacklevel=5)
        return nullcontext()
    return jax.enable_x64(True)


def _call(compute: Callable, discrepancy: Tree, model: Tree, sample: AnySample) -> Tree:
    return compute(discrepancy, model, sample)


_compiled = {often: compiled(_call, often=often) for often in (False, True)}


def run(
    compute: Callable,
    discrepancy: Tree,
    model: Tree,
    x: Data,
    *,
    by_rows: bool = False,
    often: bool = False,
) -> Tree:
    """Return compute(discrepancy, model, sample), compiled, in the precision of x.

    The result consists of NumPy arrays if x is one. `x` must have been `read`. If `by_rows`, the
    result has a row for each row of the sample and stays on the same devices. `often` is passed to
    `compiled`.
    """
    drive = lambda *arguments: _compiled[often](compute, *arguments)
    return at_boundary(drive, discrepancy, model, x, by_rows=by_rows)


@contextmanager
def _enough_memory(x: AbstractRows) -> Iterator[None]:
    """Raise a MemoryError for XLA's error, of which only the first word tells that memory ran out."""
    try:
        yield
    except jax.errors.JaxRuntimeError as reason:
        if not str(reason).startswith("RESOURCE_EXHAUSTED"):
            raise
        raise _out_of_memory(x.shape, str(reason)) from reason


def at_boundary(
    drive: Callable, discrepancy: Tree, model: Tree, x: Data, *, by_rows: bool = False
) -> Tree:
    """Return drive(discrepancy, model, sample), as `run` does, but without compiling `drive`.

    It is for a computation in several steps that compiles its own parts.
    """
    rows, traced = as_rows(x), is_traced((discrepancy, model))
    if traced:
        rows.check_traced()
    with precision(rows, (discrepancy, model)), _enough_memory(rows), rows.computing():
        sample = rows.sample()
        discrepancy, model = in_precision((discrepancy, model), sample.x.dtype)
        result = drive(discrepancy, model, sample)
        return result if traced or is_traced(result) else rows.bring(result, by_rows)


@errors.explained("large-data.md")
def _out_of_memory(shape: tuple[int, ...], reason: str) -> MemoryError:
    return MemoryError(
        f"There was not enough memory for a computation on data of shape {shape}. Use fewer rows; use ms.SM() or "
        "ms.DSM(...), which are means over observations; leave the rows on disk with ms.OnDisk; or spread them over "
        f"machines with ms.shard. ({reason.splitlines()[0][:200]})"
    )


@errors.explained("sharp-bits.md")
def _model_is_traced() -> str:
    return (
        "x is float64, but the model is being traced by JAX with 64-bit mode off, so the computation falls back to "
        "float32. Use ms.value_and_grad(discrepancy, model, x), which needs no configuration, or put your "
        "transformation inside `with jax.enable_x64(True):`."
    )
