"""G in one dimension in linear time: the points are visited in ascending order, and running sums are
carried along.

Matérn kernels are summed exactly, by `recursion`; kernels that are sums of exponentials by
`blocks`, to ten digits of the largest field.
"""

from functools import reduce

import jax.numpy as jnp
from jaxtyping import Float, Int

from .. import errors
from .._types import Array
from ..kernels import AbstractRadial, Matern
from . import blocks, recursion
from .exponentials import exponentials
from .forms import Features
from .operator import AbstractOperator


class Line(AbstractOperator):
    """G for m a number at each point, as in `Multiple`; `order` sorts the points."""

    z: Float[Array, " n"]
    order: Int[Array, " n"]
    kernel: AbstractRadial

    def apply(self, phis, *, still=False, once=False):
        rows = jnp.concatenate([phis.t[..., 0], phis.m])  # a row for each t, then one for each m
        z, sources = self.z[self.order], rows[:, self.order]
        fields = reduce(
            jnp.add, (w * _apply_profile(p, z, sources) for w, p in self.kernel.components())
        )
        back = jnp.zeros_like(fields).at[:, self.order].set(fields, unique_indices=True)
        t, m = jnp.split(back, 2)
        return Features(t[..., None], m)

    def own(self, phis):
        k, k1, _ = self.kernel.profile(jnp.zeros((), phis.t.dtype))
        return Features(k * phis.t, -2 * k1 * phis.m)


def supports(kernel: AbstractRadial) -> bool:
    """Whether the pairs of a kernel can be summed in linear time."""
    return all(
        isinstance(profile, Matern) or exponentials(profile) is not None
        for _, profile in kernel.components()
    )


def _apply_profile(
    kernel: AbstractRadial, z: Float[Array, " n"], phis: Float[Array, "c n"]
) -> Float[Array, "c n"]:
    """G at points z in ascending order, for a profile that is not a sum."""
    match kernel:
        case Matern():
            return recursion.apply(kernel, z, phis)
    sums = exponentials(kernel)
    if sums is None:
        raise no_lines(f"the kernel {type(kernel).__name__} has no such sum")
    return blocks.apply(kernel, sums, z, phis)


@errors.explained("large-data.md")
def no_lines(why: str) -> ValueError:
    return ValueError(
        f'backend="lines" sums pairs in linear time on the line, but {why}. It needs data of one variable and sums or '
        "multiples of the kernels Gaussian, IMQ, RationalQuadratic (of small exponents) and Matern. "
        'Use backend="tiles", or None to choose.'
    )
