"""G of a sum of exponentials, on points in ascending order, in linear time.

The points are cut into small blocks. Pairs within a block are summed one by one, so the pair of a
point with itself is never added. Between blocks each exponential is carried along the line, from
left to right and from right to left. On a narrow block an exponential is a short Taylor series, so
what a block sends is a combination of its moments Σ (x − centre)^p/p!, and what it receives is a
polynomial. On a wide block, as occurs among outliers, exponentials are evaluated at every point.

In one dimension G needs only k, k′ and k″: with D = xᵢ − xⱼ,

    F = Σ k(|D|) tⱼ − sgn(D) k′(|D|) mⱼ,    J = Σ sgn(D) k′(|D|) tⱼ − k″(|D|) mⱼ.

Arrays have axes s of segments, b of points in a block, B of blocks in a segment, and c of columns,
those of t and then those of m. Blocks come last because XLA computes fastest along the last axis.
What is carried has an axis w for the two directions, to the right and to the left, and an axis l of
exponentials.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Complex, Float, Int

from .._types import Array, Scalar
from ..kernels import AbstractRadial
from .exponentials import Exponentials, Scaled

BLOCK = 64
"""Points in a block: work within blocks grows with it, work between them decreases."""

_SEGMENT = 128
"""The most blocks in a segment. Segments are scanned in parallel, so a scan has at most this number
of steps.
"""

_DEGREE = 12
"""Terms of a Taylor series: on a narrow block |a (x − centre)| ≤ 1/2, and 2⁻¹²/12! = 5e-13."""

_CHUNK = 16
"""Wide blocks that are processed together, which bounds the memory for their exponentials."""

_BEYOND = 4.0
"""A group that ends a sum of exponentials is accurate up to this distance, in units of the inverse
of the smallest pole before it.
"""


def apply(
    kernel: AbstractRadial, sums: Scaled, z: Float[Array, " N"], phi: Float[Array, "c N"]
) -> Float[Array, "c N"]:
    """(F, J) at points z in ascending order, for the columns of t and then those of m."""
    x, sources = _cut(z), jnp.moveaxis(_cut(phi), 0, 1)
    near = lax.map(lambda segment: _within(kernel, *segment), (x, sources))
    fields = near + _between(sums, x, sources)
    return jnp.moveaxis(fields, (0, 1, 2, 3), (1, 0, 3, 2)).reshape(phi.shape)


def _cut(rows: Float[Array, "*c N"]) -> Float[Array, "*c s b B"]:
    """Cut the last axis into segments, points and blocks."""
    block = min(BLOCK, rows.shape[-1])
    blocks = rows.shape[-1] // block
    segment = next(size for size in range(min(blocks, _SEGMENT), 0, -1) if blocks % size == 0)
    return jnp.swapaxes(rows.reshape(*rows.shape[:-1], -1, segment, block), -1, -2)


def _within(
    kernel: AbstractRadial, x: Float[Array, "b B"], sources: Float[Array, "c b B"]
) -> Float[Array, "c b B"]:
    """The fields from the other points of the same block."""
    rows = jnp.arange(len(x))[:, None]
    t, m = jnp.split(sources, 2)

    def source(j: Array, fields: tuple[Array, Array]) -> tuple[Array, Array]:
        F, J = fields
        D = x - x[j]
        k, k1, k2 = (jnp.where(rows != j, part, 0) for part in kernel.profile(D**2))
        slope, curvature = 2 * k1 * D, 2 * k1 + 4 * k2 * D**2
        tj, mj = t[:, j, None], m[:, j, None]
        return F + k * tj - slope * mj, J + slope * tj - curvature * mj

    return jnp.concatenate(lax.fori_loop(0, len(x), source, (jnp.zeros_like(t), jnp.zeros_like(m))))


class _Frame(NamedTuple):
    """The points at which each block receives what comes from the left and sends it on: the centre
    of a narrow block, the edges of a wide one.
    """

    narrow: Bool[Array, "s B"]
    start: Float[Array, "s B"]
    end: Float[Array, "s B"]

    @classmethod
    def of(cls, x: Float[Array, "s b B"], most: Scalar | float) -> "_Frame":
        """The frame for blocks that count as narrow up to the width `most`."""
        low, high = x[:, 0], x[:, -1]
        narrow, centre = high - low <= most, (low + high) / 2
        return cls(narrow, jnp.where(narrow, centre, low), jnp.where(narrow, centre, high))

    def offset(self, x: Float[Array, "s b B"]) -> Float[Array, "s b B"]:
        """The distance of each point from the centre, zero in wide blocks."""
        return jnp.where(self.narrow[:, None], x - self.start[:, None], 0)


def _between(
    sums: Scaled, x: Float[Array, "s b B"], sources: Float[Array, "s c b B"]
) -> Float[Array, "s c b B"]:
    """The fields from the points of other blocks."""
    frame = _Frame.of(x, sums.unit / sums.sum.reach)
    offset, wide = frame.offset(x), _Wide.of(frame, x)
    moments = lax.map(lambda segment: _moments(*segment), (offset, sources))
    groups, at = _poles(sums, x[-1, -1, -1] - x[0, 0, 0])

    def group(g: Array, totals: tuple[Array, Array]) -> tuple[Array, Array]:
        series, singly = totals
        a, weights = at(g)
        sent = wide.send(a, sources, _series(_powers(a), moments))
        arrived = _apply_weights(weights, _carry(a, frame, sent))
        added = _real("wlp,wsclB->spcB", _powers(a)[::-1], arrived)
        series = series + jnp.where(frame.narrow[:, None, None], added, 0)
        return series, wide.receive(a, arrived, singly)

    series, singly = lax.fori_loop(
        0, groups, group, (jnp.zeros_like(moments), jnp.zeros_like(sources))
    )
    return singly + lax.map(lambda segment: _polynomial(*segment), (offset, series))


def _moments(offset: Float[Array, "b B"], sources: Float[Array, "c b B"]) -> Float[Array, "p c B"]:
    """Σ offset^p/p! times the sources, for each p."""

    def point(j: Array, sums: Array) -> Array:
        return sums + _factorials(offset[j])[:, None] * sources[:, j]

    return lax.fori_loop(
        0, len(offset), point, jnp.zeros((_DEGREE, *sources[:, 0].shape), sources.dtype)
    )


def _factorials(x: Float[Array, "*n"]) -> Float[Array, "p *n"]:
    """x^p/p! for each p."""
    terms = [jnp.ones_like(x)]
    for p in range(1, _DEGREE):
        terms.append(terms[-1] * x / p)
    return jnp.stack(terms)


def _polynomial(
    offset: Float[Array, "b B"], series: Float[Array, "p c B"]
) -> Float[Array, "c b B"]:
    """Σ offset^p/p! times the coefficients, by Horner's rule."""
    total = jnp.zeros((series.shape[1], *offset.shape), series.dtype)
    for p in range(_DEGREE, 0, -1):
        total = total * offset / p + series[p - 1, :, None]
    return total


def _poles(scaled: Scaled, extent: Scalar) -> tuple[int | Array, Callable]:
    """Return the number of groups of poles for data of this extent, and a function that gives the
    poles and weights of a group.

    The poles are scaled and not the points, because small differences of large coordinates would
    lose digits.
    """
    factor, unit, sums = scaled
    units = jnp.stack([factor / unit**q for q in range(3)])
    count, at = _unit_poles(sums, extent / unit)
    return count, lambda g: (at(g)[0] / unit, at(g)[1] * units)


def _unit_poles(sums: Exponentials, extent: Scalar) -> tuple[int | Array, Callable]:
    """As `_poles`, for data in units of the kernel."""
    kind = jnp.result_type(extent.dtype, jnp.complex64)
    poles, weights = jnp.asarray(sums.poles, kind), jnp.asarray(sums.weights, kind)
    if not len(sums.end_poles):
        return len(sums.poles), lambda g: (poles[g], weights[g])
    end_poles, end_weights = jnp.asarray(sums.end_poles, kind), jnp.asarray(sums.end_weights, kind)
    least = sums.poles[sums.near, -1].real
    further = jnp.ceil(
        jnp.log(jnp.maximum(extent * least / _BEYOND, 1)) / -jnp.log(sums.ratio)
    ).astype(int)
    tail = jnp.minimum(further, len(sums.end_poles) - 1)
    last = sums.near + tail + 1
    pick = lambda g, inner, end: jnp.where(
        g < last, inner[jnp.minimum(g, len(sums.poles) - 1)], end[tail]
    )
    return last + 1, lambda g: (pick(g, poles, end_poles), pick(g, weights, end_weights))


def _powers(a: Complex[Array, " l"]) -> Complex[Array, "w l p"]:
    """aᵖ and (−a)ᵖ, the Taylor coefficients of exp(−a(end − x)) and exp(−a(x − start)) at the
    centre, times p!.
    """
    signed = jnp.stack([a, -a])
    powers = jnp.cumprod(jnp.broadcast_to(signed, (_DEGREE - 1, *signed.shape)), axis=0)
    return jnp.moveaxis(jnp.concatenate([jnp.ones_like(powers[:1]), powers]), 0, -1)


def _series(
    powers: Complex[Array, "w l p"], moments: Float[Array, "s p c B"]
) -> Complex[Array, "w s c l B"]:
    """What narrow blocks send, from their moments."""
    of = lambda part: jnp.einsum("wlp,spcB->wsclB", part, moments)
    return lax.complex(of(jnp.real(powers)), of(jnp.imag(powers)))


def _real(how: str, a: Complex[Array, "*s"], b: Complex[Array, "*r"]) -> Float[Array, "*o"]:
    """The real part of a product."""
    return jnp.einsum(how, jnp.real(a), jnp.real(b)) - jnp.einsum(how, jnp.imag(a), jnp.imag(b))


def _carry(
    a: Complex[Array, " l"], frame: _Frame, sent: Complex[Array, "w s c l B"]
) -> Complex[Array, "w s c l B"]:
    """Return what arrives at each block from all blocks before it and, with the line mirrored, from
    all blocks after it.

    All segments are scanned at once: first with nothing arriving from outside, then with what
    arrives from the segments before.
    """
    flip = lambda part: part[::-1, ..., ::-1]
    width, (start, end) = frame.end - frame.start, (frame.start.ravel(), frame.end.ravel())
    to_next = lambda gaps: jnp.append(gaps, 0).reshape(width.shape)  # no gap follows the last block
    gaps = start[1:] - end[:-1]
    widths, gaps = jnp.stack([width, flip(width)]), jnp.stack([to_next(gaps), to_next(gaps[::-1])])
    decay = lambda distance: jnp.exp(-a[:, None] * distance[..., None, None, :])
    across = decay(gaps)
    inflow = across * jnp.stack([sent[0], flip(sent[1])])
    steps = tuple(jnp.moveaxis(part, -1, 0) for part in (across * decay(widths), inflow))
    step = lambda state, block: (block[0] * state + block[1], state)
    nothing = jnp.zeros_like(sent[..., 0])
    ends = lax.scan(lambda state, block: (step(state, block)[0], None), nothing, steps)[0]
    whole = decay(jnp.sum(widths + gaps, axis=2, keepdims=True))[..., 0]
    by_segment = lambda part: jnp.moveaxis(part, 1, 0)
    starts = by_segment(lax.scan(step, nothing[:, 0], (by_segment(whole), by_segment(ends)))[1])
    come, back = jnp.moveaxis(lax.scan(step, starts, steps)[1], 0, -1)
    return jnp.stack([come, flip(back)])


def _apply_weights(
    w: Complex[Array, "l 3"], state: Complex[Array, "w s c l B"]
) -> Complex[Array, "w s c l B"]:
    """The contributions to F and J of what arrives; D is positive for what comes from the left."""
    t, m = jnp.split(state, 2, axis=2)
    k, slope, curvature = (w[:, q, None] for q in range(3))
    slope = jnp.stack([slope, -slope])[:, None, None]
    return jnp.concatenate([k * t - slope * m, slope * t - curvature * m], axis=2)


class _Wide(NamedTuple):
    """The wide blocks: their places, and the distances of their points to the end and from the
    start of the block.

    Only the first `count` entries are wide blocks; the others are there to fill the last chunk.
    """

    where: tuple[Int[Array, " n"], Int[Array, " n"]]
    distances: Float[Array, "w n b"]
    count: Int[Array, ""]

    @classmethod
    def of(cls, frame: _Frame, x: Float[Array, "s b B"]) -> "_Wide":
        first = jnp.argsort(frame.narrow.ravel())
        numbers = jnp.resize(first, (-(-len(first) // _CHUNK) * _CHUNK,))
        s, B = where = numbers // x.shape[2], numbers % x.shape[2]
        points = x[s, :, B]
        distances = jnp.stack(
            [frame.end[where][:, None] - points, points - frame.start[where][:, None]]
        )
        return cls(where, distances, jnp.sum(~frame.narrow))

    def _over(self, chunk: Callable, start: Array) -> Array:
        """Carry a total through chunk(total, s, B, distances) for one chunk of wide blocks after
        another; s is out of range for entries that are not wide blocks.
        """

        def step(i: Array, total: Array) -> Array:
            cut = lambda part, axis=0: lax.dynamic_slice_in_dim(part, i * _CHUNK, _CHUNK, axis)
            is_wide = i * _CHUNK + jnp.arange(_CHUNK) < self.count
            s = jnp.where(is_wide, cut(self.where[0]), start.shape[-4])
            return chunk(total, s, cut(self.where[1]), cut(self.distances, 1))

        return lax.fori_loop(0, (self.count + _CHUNK - 1) // _CHUNK, step, start)

    def send(
        self, a: Complex[Array, " l"], sources: Float[Array, "s c b B"], sent: Array
    ) -> Complex[Array, "w s c l B"]:
        """Return what each block sends, given what narrow blocks send."""

        def chunk(total: jax.Array, s: Array, B: Array, distances: Array) -> Array:
            E = jnp.exp(-a * distances[..., None])
            of = lambda part: jnp.einsum("wnjl,ncj->nwcl", part, sources[s, :, :, B])
            return total.at[:, s, :, :, B].set(lax.complex(of(E.real), of(E.imag)), mode="drop")

        return self._over(chunk, sent)

    def receive(
        self, a: Complex[Array, " l"], arrived: Array, singly: Array
    ) -> Float[Array, "s c b B"]:
        """Add Re Σ exp(−a(x − start)) and exp(−a(end − x)) times what arrives, at the points of wide
        blocks.
        """

        def chunk(total: jax.Array, s: Array, B: Array, distances: Array) -> Array:
            E = jnp.exp(-a * distances[::-1, ..., None])
            return total.at[s, :, :, B].add(
                _real("wnjl,nwcl->ncj", E, arrived[:, s, :, :, B]), mode="drop"
            )

        return self._over(chunk, singly)
