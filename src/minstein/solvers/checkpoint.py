"""Checkpoints of a descent: an .npz file of plain arrays, never pickled."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import errors
from .._files import destination, replacing
from .._types import Tree
from ..data.sample import Sample


class Checkpoint(NamedTuple):
    """A file, and a mark that says which data and which solver it belongs to."""

    path: Path
    mark: str

    def save(self, walk: Tree) -> None:
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(walk)]
        with replacing(self.path) as file:
            np.savez(file, np.asarray(self.mark), *leaves)

    def resume(self, walk: Tree) -> Tree:
        """Return the saved walk in the structure of a fresh one, or the fresh one if there is no file."""
        if not destination(self.path).exists():
            return walk
        leaves, treedef = jax.tree.flatten(walk)
        try:
            with open(self.path, "rb") as archive, np.load(archive, allow_pickle=False) as file:
                mark, *saved = (file[f"arr_{i}"] for i in range(len(file.files)))
        except Exception as reason:  # a damaged archive fails in as many ways as it has parts
            raise _bad_checkpoint(self.path, "it cannot be read") from reason
        if str(mark) != self.mark:
            raise _bad_checkpoint(self.path, "it belongs to other data or to another solver")
        kinds = lambda parts: [(np.shape(part), part.dtype.kind) for part in parts]
        if kinds(saved) != kinds([_plain(leaf) for leaf in leaves]):
            raise _bad_checkpoint(
                self.path, "it belongs to another model, optimiser or number of steps"
            )
        return jax.tree.unflatten(
            treedef, [_like(old, new) for old, new in zip(leaves, saved, strict=True)]
        )


def checkpoint(path: str, solver: Any, sample: Sample) -> Checkpoint:
    """The checkpoint of a solver on a sample; its mark names the solver, its settings and the data."""
    x = np.asarray(sample.x)
    digest = hashlib.sha256(x.tobytes()).hexdigest()
    about = {
        "solver": type(solver).__name__,
        "batch": solver.batch,
        "average": solver.average,
        "shape": x.shape,
    }
    return Checkpoint(
        Path(path), json.dumps({**about, "n": int(sample.n), "dtype": str(x.dtype), "data": digest})
    )


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _like(old: Any, new: np.ndarray) -> jax.Array:
    if _is_key(old):
        return jax.random.wrap_key_data(jnp.asarray(new), impl=jax.random.key_impl(old))
    return jnp.asarray(new, old.dtype)


@errors.explained("fitting.md")
def _bad_checkpoint(path: Any, reason: str) -> ValueError:
    return ValueError(
        f"The checkpoint {path} cannot be resumed: {reason}. Delete it, or give another path."
    )
