"""G of a sum of exponentials, on points in ascending order, in linear time.

The points are cut into blocks of a few. Pairs within a block are summed one by one, so the pair of a point with itself
is never added. Between blocks each exponential is carried along the line, from left to right and from right to left.
On a narrow block an exponential is a short Taylor series, so what a block sends out is a combination of its moments
Σ (x − centre)^p/p!, and what it receives a polynomial. On a wide block, as there are among outliers, every point has
exponentials of its own.

In one dimension G needs k, k′ and k″ alone: with D = xᵢ − xⱼ,

    F = Σ k(|D|) tⱼ − sgn(D) k′(|D|) mⱼ,    J = Σ sgn(D) k′(|D|) tⱼ − k″(|D|) mⱼ.

Arrays have axes s of segments, b of points in a block, B of blocks in a segment, c of columns: those of t and then
those of m. Blocks come last because XLA computes fastest along the last axis.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Complex, Float, Int

from .._types import Array, Scalar
from ..kernels import AbstractRadial
from .exponentials import Exponentials, Scaled

BLOCK = 64
"""Points of a block."""

_SEGMENT = 128
"""The most blocks of a segment."""

_DEGREE = 12
"""Terms of a Taylor series."""

_CHUNK = 16
"""Wide blocks that are worked on together."""

_BEYOND = 4.0
"""A group that ends a sum of exponentials is accurate up to this distance, over the smallest pole before it."""


def apply(kernel: AbstractRadial, sums: Scaled, z: Float[Array, " N"], phi: Float[Array, "c N"]) -> Float[Array, "c N"]:
    """(F, J) at points z in ascending order, for the columns of t and then those of m."""
    x, sources = _cut(z), jnp.moveaxis(_cut(phi), 0, 1)
    near = lax.map(lambda segment: _within(kernel, *segment), (x, sources))
    in_units = jnp.where(jnp.arange(len(phi)) < len(phi) // 2, 1, 1 / sums.unit)[:, None, None]
    far = sums.factor * in_units * _between(sums.sum, x / sums.unit, in_units * sources)
    return jnp.moveaxis(near + far, (0, 1, 2, 3), (1, 0, 3, 2)).reshape(phi.shape)


def _cut(rows: Float[Array, "*c N"]) -> Float[Array, "*c s b B"]:
    block = min(BLOCK, rows.shape[-1])
    blocks = rows.shape[-1] // block
    segment = next(size for size in range(min(blocks, _SEGMENT), 0, -1) if blocks % size == 0)
    return jnp.swapaxes(rows.reshape(*rows.shape[:-1], -1, segment, block), -1, -2)


def _within(kernel: AbstractRadial, x: Float[Array, "b B"], sources: Float[Array, "c b B"]) -> Float[Array, "c b B"]:
    """The pairs of different points in the same block."""
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
    """Where each block receives what comes from the left, and where it sends it on: the centre of a narrow block, the
    edges of a wide one.
    """

    narrow: Bool[Array, "s B"]
    start: Float[Array, "s B"]
    end: Float[Array, "s B"]

    @classmethod
    def of(cls, x: Float[Array, "s b B"], reach: float) -> "_Frame":
        low, high = x[:, 0], x[:, -1]
        narrow, centre = (high - low) * reach <= 1, (low + high) / 2
        return cls(narrow, jnp.where(narrow, centre, low), jnp.where(narrow, centre, high))

    def offset(self, x: Float[Array, "s b B"]) -> Float[Array, "s b B"]:
        """The distance of each point from the centre, zero in wide blocks."""
        return jnp.where(self.narrow[:, None], x - self.start[:, None], 0)

    @property
    def wide(self) -> tuple[Int[Array, " n"], Scalar]:
        """The numbers of the wide blocks, after them a number that no block has, and how many there are."""
        blocks = self.narrow.size
        return jnp.nonzero(~self.narrow.ravel(), size=blocks, fill_value=blocks)[0], jnp.sum(~self.narrow)


def _between(sums: Exponentials, x: Float[Array, "s b B"], sources: Float[Array, "s c b B"]) -> Float[Array, "s c b B"]:
    """The pairs of points in different blocks."""
    frame = _Frame.of(x, sums.reach)
    offset = frame.offset(x)
    moments = lax.map(lambda segment: _moments(*segment), (offset, sources))
    groups, at = _poles(sums, x[-1, -1, -1] - x[0, 0, 0])
    wide = _Wide(frame, x, sources)

    def group(g: Array, totals: tuple[Array, Array]) -> tuple[Array, Array]:
        series, singly = totals
        a, w = at(g)
        right, left = wide.sent(a, _series(_powers(a), moments), _series(_powers(-a), moments))
        come, back = _carried_both_ways(a, frame, right, left)
        come, back = _weighted(w, come, 1), _weighted(w, back, -1)
        added = _real("lp,sclB->spcB", _powers(-a), come) + _real("lp,sclB->spcB", _powers(a), back)
        return series + jnp.where(frame.narrow[:, None, None], added, 0), wide.received(a, come, back, singly)

    series, singly = lax.fori_loop(0, groups, group, (jnp.zeros_like(moments), jnp.zeros_like(sources)))
    return singly + lax.map(lambda segment: _polynomial(*segment), (offset, series))


def _moments(offset: Float[Array, "b B"], sources: Float[Array, "c b B"]) -> Float[Array, "p c B"]:
    """Σ offset^p/p! times the sources."""

    def point(j: Array, sums: Array) -> Array:
        return sums + _factorials(offset[j])[:, None] * sources[:, j]

    return lax.fori_loop(0, len(offset), point, jnp.zeros((_DEGREE, *sources[:, 0].shape), sources.dtype))


def _factorials(x: Float[Array, "*n"]) -> Float[Array, "p *n"]:
    """x^p/p!."""
    terms = [jnp.ones_like(x)]
    for p in range(1, _DEGREE):
        terms.append(terms[-1] * x / p)
    return jnp.stack(terms)


def _polynomial(offset: Float[Array, "b B"], series: Float[Array, "p c B"]) -> Float[Array, "c b B"]:
    """Σ offset^p/p! times the coefficients, by Horner's rule."""
    total = jnp.zeros((series.shape[1], *offset.shape), series.dtype)
    for p in range(_DEGREE, 0, -1):
        total = total * offset / p + series[p - 1, :, None]
    return total


def _poles(sums: Exponentials, extent: Scalar) -> tuple[int | Array, Callable]:
    """How many groups of poles there are for data of this extent, and a function that gives those of each."""
    kind = jnp.result_type(extent.dtype, jnp.complex64)
    poles, weights = jnp.asarray(sums.poles, kind), jnp.asarray(sums.weights, kind)
    if not len(sums.end_poles):
        return len(sums.poles), lambda g: (poles[g], weights[g])
    end_poles, end_weights = jnp.asarray(sums.end_poles, kind), jnp.asarray(sums.end_weights, kind)
    least = sums.poles[sums.near, -1].real
    further = jnp.ceil(jnp.log(jnp.maximum(extent * least / _BEYOND, 1)) / -jnp.log(sums.ratio)).astype(int)
    tail = jnp.minimum(further, len(sums.end_poles) - 1)
    last = sums.near + tail + 1
    pick = lambda g, inner, end: jnp.where(g < last, inner[jnp.minimum(g, len(sums.poles) - 1)], end[tail])
    return last + 1, lambda g: (pick(g, poles, end_poles), pick(g, weights, end_weights))


def _powers(a: Complex[Array, " l"]) -> Complex[Array, "l p"]:
    return jnp.stack([a**0, *jnp.cumprod(jnp.broadcast_to(a, (_DEGREE - 1, *a.shape)), axis=0)], axis=1)


def _series(powers: Complex[Array, "l p"], moments: Float[Array, "s p c B"]) -> Complex[Array, "s c l B"]:
    of = lambda part: jnp.einsum("lp,spcB->sclB", part, moments)
    return lax.complex(of(powers.real), of(powers.imag))


def _real(how: str, a: Complex[Array, "*s"], b: Complex[Array, "*r"]) -> Float[Array, "*o"]:
    """The real part of a product."""
    return jnp.einsum(how, a.real, b.real) - jnp.einsum(how, a.imag, b.imag)


def _carried_both_ways(
    a: Complex[Array, " l"], frame: _Frame, right: Complex[Array, "s c l B"], left: Complex[Array, "s c l B"]
) -> tuple[Complex[Array, "s c l B"], Complex[Array, "s c l B"]]:
    """What arrives at each block from all blocks before it, and from all after it, by mirroring the line."""
    flip = lambda part: part[::-1, ..., ::-1]
    widths, (start, end) = frame.end - frame.start, (frame.start.ravel(), frame.end.ravel())
    gaps = start[1:] - end[:-1]
    after = lambda gaps: jnp.append(gaps, 0).reshape(widths.shape)  # to the next block; there is none after the last
    distances = jnp.stack([widths, flip(widths)]), jnp.stack([after(gaps), after(gaps[::-1])])
    come, back = _carried(a, *distances, jnp.stack([right, flip(left)]))
    return come, flip(back)


def _carried(
    a: Complex[Array, " l"],
    widths: Float[Array, "w s B"],
    gaps: Float[Array, "w s B"],
    sent: Complex[Array, "w s c l B"],
) -> Complex[Array, "w s c l B"]:
    """What arrives at each block from all blocks before it, for each way w.

    All segments are gone through at once, first from nothing and then from what the segments before them send.
    """
    decay = lambda distance: jnp.exp(-a[:, None] * distance[..., None, None, :])
    across = decay(gaps)
    steps = tuple(jnp.moveaxis(part, -1, 0) for part in (across * decay(widths), across * sent))
    step = lambda state, block: (block[0] * state + block[1], state)
    nothing = jnp.zeros_like(sent[..., 0])
    ends = lax.scan(lambda state, block: (step(state, block)[0], None), nothing, steps)[0]
    whole = decay(jnp.sum(widths + gaps, axis=2, keepdims=True))[..., 0]
    by_segment = lambda part: jnp.moveaxis(part, 1, 0)
    starts = by_segment(lax.scan(step, nothing[:, 0], (by_segment(whole), by_segment(ends)))[1])
    return jnp.moveaxis(lax.scan(step, starts, steps)[1], 0, -1)


def _weighted(w: Complex[Array, "l 3"], state: Complex[Array, "s c l B"], sign: int) -> Complex[Array, "s c l B"]:
    """What F and J take from sources on one side; `sign` is that of D."""
    t, m = jnp.split(state, 2, axis=1)
    k, slope, curvature = (w[:, q, None] for q in range(3))
    return jnp.concatenate([k * t - sign * slope * m, sign * slope * t - curvature * m], axis=1)


class _Wide:
    """The wide blocks, point by point, some blocks at a time."""

    def __init__(self, frame: _Frame, x: Float[Array, "s b B"], sources: Float[Array, "s c b B"]):
        self.ids, count = frame.wide
        self.chunks = (count + _CHUNK - 1) // _CHUNK
        self.shape = frame.narrow.shape
        self.frame, self.x, self.sources = frame, x, sources

    def _chunk(self, i: Array) -> tuple[tuple[Array, Array], Float[Array, "n b"], Float[Array, "n b"]]:
        """Where some blocks are, and the distances of their points from the start and to the end."""
        numbers = lax.dynamic_slice_in_dim(self.ids, jnp.minimum(i * _CHUNK, len(self.ids)), min(_CHUNK, len(self.ids)))
        where = numbers // self.shape[1], numbers % self.shape[1]
        x = self.x[where[0], :, where[1]]
        return where, x - self.frame.start[where][:, None], self.frame.end[where][:, None] - x

    def sent(self, a: Complex[Array, " l"], right: Array, left: Array) -> tuple[Array, Array]:
        """What each block sends out, with that of wide blocks put in."""

        def chunk(i: Array, sent: tuple[Array, Array]) -> tuple[Array, Array]:
            (s, B), from_start, to_end = self._chunk(i)
            sources = self.sources[s, :, :, B].astype(a.dtype)
            out = lambda distance: jnp.einsum("njl,ncj->ncl", jnp.exp(-a * distance[..., None]), sources)
            put = lambda whole, distance: whole.at[s, :, :, B].set(out(distance), mode="drop")
            return put(sent[0], to_end), put(sent[1], from_start)

        return lax.fori_loop(0, self.chunks, chunk, (right, left))

    def received(self, a: Complex[Array, " l"], come: Array, back: Array, singly: Array) -> Float[Array, "s c b B"]:
        """Re Σ exp(−a(x − start)) come + exp(−a(end − x)) back, added at the points of wide blocks."""

        def chunk(i: Array, singly: Array) -> Array:
            (s, B), from_start, to_end = self._chunk(i)
            at = lambda state, distance: _real("njl,ncl->ncj", jnp.exp(-a * distance[..., None]), state[s, :, :, B])
            return singly.at[s, :, :, B].add(at(come, from_start) + at(back, to_end), mode="drop")

        return lax.fori_loop(0, self.chunks, chunk, singly)
