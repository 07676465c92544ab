"""Saving a walk now and then, and going on from it: an .npz file of plain arrays, never pickled."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import errors
from ._types import Tree
from .files import replacing
from .sample import Sample


class Checkpoint(NamedTuple):
    """A file, and what a walk must have in common with the one in it."""

    path: Path
    mark: str

    def save(self, walk: Tree) -> None:
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(walk)]
        with replacing(self.path) as file:
            np.savez(file, np.asarray(self.mark), *leaves)

    def resumed(self, walk: Tree) -> Tree:
        """The saved walk in the structure of a fresh one, or the fresh one if there is no file."""
        if not self.path.exists():
            return walk
        leaves, treedef = jax.tree.flatten(walk)
        try:
            with np.load(self.path, allow_pickle=False) as file:
                mark, *saved = (file[f"arr_{i}"] for i in range(len(file.files)))
        except (OSError, ValueError, KeyError) as reason:
            raise errors.bad_checkpoint(self.path, "it cannot be read") from reason
        if str(mark) != self.mark:
            raise errors.bad_checkpoint(self.path, "it belongs to other data or to another solver")
        if [np.shape(leaf) for leaf in saved] != [np.shape(_plain(leaf)) for leaf in leaves]:
            raise errors.bad_checkpoint(self.path, "it belongs to another model, optimiser or number of steps")
        return jax.tree.unflatten(treedef, [_like(old, new) for old, new in zip(leaves, saved, strict=True)])


def checkpoint(path: str, solver: Any, sample: Sample) -> Checkpoint:
    """The checkpoint of a solver on a sample; its mark names the solver's kind and minibatch, and the data."""
    x = np.asarray(sample.x)
    digest = hashlib.sha256(x.tobytes()).hexdigest()
    about = {"solver": type(solver).__name__, "batch": solver.batch, "average": solver.average, "shape": x.shape}
    return Checkpoint(Path(path), json.dumps({**about, "n": int(sample.n), "dtype": str(x.dtype), "data": digest}))


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _like(old: Any, new: np.ndarray) -> jax.Array:
    if _is_key(old):
        return jax.random.wrap_key_data(jnp.asarray(new), impl=jax.random.key_impl(old))
    return jnp.asarray(new, old.dtype)
