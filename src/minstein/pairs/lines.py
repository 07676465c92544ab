"""G in one dimension, in linear time: the points are taken in ascending order, and sums over them
are carried along.

Matérn kernels are summed exactly, by `recursion`; kernels that are sums of exponentials, to ten
digits of the largest field, by `blocks`.
"""

from functools import reduce

import jax.numpy as jnp
from jaxtyping import Float, Int

from .. import errors
from .._types import Array
from ..data.sample import Sample
from ..kernels import AbstractRadial, Matern
from ..kernels.algebra import RadialMultiple, RadialSum
from . import blocks, recursion
from .exponentials import exponentials
from .forms import Features, Multiple
from .operator import AbstractOperator


class Line(AbstractOperator):
    """m one number a point, on the line: as `Multiple`, with the order of the points."""

    z: Float[Array, " n"]
    order: Int[Array, " n"]
    kernel: AbstractRadial

    @classmethod
    def of(cls, form: Multiple, sample: Sample, kernel: AbstractRadial) -> "Line":
        z = form.z[:, 0]
        return cls(z, jnp.argsort(z) if sample.order is None else sample.order, kernel)

    def apply(self, phis, *, still=False, once=False):
        rows = jnp.concatenate([phis.t[..., 0], phis.m])  # a row for each t, then one for each m
        fields = _in_order(self.kernel, self.z[self.order], rows[:, self.order])
        back = jnp.zeros_like(fields).at[:, self.order].set(fields, unique_indices=True)
        t, m = jnp.split(back, 2)
        return Features(t[..., None], m)

    def own(self, phis):
        k, k1, _ = self.kernel.profile(jnp.zeros((), phis.t.dtype))
        return Features(k * phis.t, -2 * k1 * phis.m)


def supports(kernel: AbstractRadial) -> bool:
    """Whether a kernel has sums in linear time."""
    match kernel:
        case RadialSum():
            return all(map(supports, kernel.profiles))
        case RadialMultiple():
            return supports(kernel.of)
        case _:
            return isinstance(kernel, Matern) or exponentials(kernel) is not None


def _in_order(
    kernel: AbstractRadial, z: Float[Array, " n"], phis: Float[Array, "c n"]
) -> Float[Array, "c n"]:
    match kernel:
        case RadialSum():
            return reduce(jnp.add, (_in_order(profile, z, phis) for profile in kernel.profiles))
        case RadialMultiple():
            return kernel.factor * _in_order(kernel.of, z, phis)
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
