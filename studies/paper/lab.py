"""Where an experiment is carried out: its seed, its effort, and the directory that keeps what is finished."""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import minstein as ms

from ..replacing import replacing

CHUNK = 25
"""Replications that are run, and stored, together, at the most."""


@dataclass(frozen=True)
class Lab:
    """Replication i has the same key for every method, so that methods are compared on the same samples."""

    directory: Path
    seed: int
    full: bool
    say: Callable[[str], None]

    def replicate(self, label: str, one: Callable, given: Any, *, quick: int, full: int) -> np.ndarray:
        """Rows one(given, key), a row for each replication, compiled once for each function and kind of `given`.

        What has been stored is not computed again.
        """
        return self._stored(label, lambda keys: _compiled(one, given, keys), full if self.full else quick)

    def replicate_in_python(self, label: str, one: Callable, *, quick: int, full: int) -> np.ndarray:
        """Rows one(key) of a function that JAX cannot compile."""
        return self._stored(label, lambda keys: np.stack([one(key) for key in keys]), full if self.full else quick)

    def key(self, i: Any = 0) -> Any:
        return jax.random.fold_in(jax.random.key(self.seed), i)

    def effort(self, quick: Any, full: Any) -> Any:
        return full if self.full else quick

    def _stored(self, label: str, run: Callable, wanted: int) -> np.ndarray:
        store = self.directory / "replications" / f"{_slug(label)}.csv"
        rows = np.loadtxt(store, delimiter=",", ndmin=2) if store.exists() else None
        chunk = min(CHUNK, wanted)
        while rows is None or len(rows) < wanted:
            done = 0 if rows is None else len(rows)
            self.say(f"{label}, {done} of {wanted}")
            with jax.enable_x64(True):
                fresh = np.asarray(run(jax.vmap(self.key)(done + jnp.arange(chunk))), np.float64)
            fresh = fresh.reshape(chunk, -1)
            rows = fresh if rows is None else np.vstack([rows, fresh])
            store.parent.mkdir(parents=True, exist_ok=True)
            with replacing(store) as file:
                np.savetxt(file, rows, fmt="%.17g", delimiter=",")
        return rows[:wanted]


def _slug(label: str) -> str:
    """A file's name; what letters cannot tell apart, the checksum can."""
    return f"{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-')}-{zlib.crc32(label.encode()):08x}"


@eqx.filter_jit
def _compiled(one: Callable, given: Any, keys: Any) -> Any:
    return jax.lax.map(lambda key: one(given, key), keys)


def estimate(model: Any, x: Any, discrepancy: Any, **options: Any) -> Any:
    """θ̂ by `ms.fit`, whatever became of the search."""
    return ms.fit(model, x, discrepancy, throw=False, covariance=False, **options).theta


def losses(discrepancy: Any, at: Callable, grid: Any, x: Any) -> Any:
    """The loss at the models at(value), for each value of a grid."""
    return jax.lax.map(lambda value: discrepancy(at(value), x), grid)


def lowest(discrepancy: Any, at: Callable, grid: Any, x: Any) -> Any:
    """The value of the grid where the loss is least: a global minimum, to the step of the grid."""
    values = losses(discrepancy, at, grid, x)
    return grid[jnp.argmin(jnp.where(jnp.isfinite(values), values, jnp.inf))]


@eqx.filter_jit
def _landscape(discrepancy: Any, at: Callable, grid: Any, x: Any) -> Any:
    return losses(discrepancy, at, grid, x)


def landscape(discrepancy: Any, at: Callable, grid: np.ndarray, x: Any) -> np.ndarray:
    """`losses`, compiled, in double precision."""
    with jax.enable_x64(True):
        return np.asarray(_landscape(discrepancy, at, jnp.asarray(grid), jnp.asarray(x)))
