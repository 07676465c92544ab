"""How the rows of a padded sample are divided among devices."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxtyping import Bool, Int

from .._types import Array

AXIS = "rows"
"""The axis of the mesh, along which the rows are spread."""


class Blocks(eqx.Module):
    """How many rows of each device's block are observations; the rest of a block is padding."""

    counts: Int[Array, " P"]
    mesh: Mesh = eqx.field(static=True)

    def real(self, rows: int) -> Bool[Array, " N"]:
        """True for observations, False for padding."""
        inside = jnp.arange(rows // self.mesh.size) < self.counts[:, None]
        return self.spread(inside.reshape(-1))

    def numbers(self, rows: int) -> Int[Array, " N"]:
        """The number of the observation in each row."""
        before = jnp.cumsum(self.counts) - self.counts
        return self.spread((before[:, None] + jnp.arange(rows // self.mesh.size)).reshape(-1))

    def beside(self, rows: Array, more: Array) -> Array:
        """Rows with the same further rows at the end of each block."""
        append = lambda rows, more: jnp.concatenate([rows, more])
        return jax.shard_map(
            append, mesh=self.mesh, in_specs=(Spec(AXIS), Spec()), out_specs=Spec(AXIS)
        )(rows, more)

    def spread(self, rows: Array) -> Array:
        """Rows, kept apart on the devices."""
        return lax.with_sharding_constraint(rows, NamedSharding(self.mesh, Spec(AXIS)))
