"""Coordinates in which the edges of a box are at infinity."""

from jaxtyping import Float

from .._types import Array, namespace


def unfolded(
    x: Float[Array, "*n d"], low: Float[Array, " d"], high: Float[Array, " d"]
) -> Float[Array, "*n d"]:
    """A half-line or an interval taken to the whole line: log(x − low), −log(high − x), or their
    sum.
    """
    xp = namespace(x)
    has_low, has_high = xp.isfinite(low), xp.isfinite(high)
    below = xp.log(xp.where(has_low, x - xp.where(has_low, low, 0), 1))
    above = xp.log(xp.where(has_high, xp.where(has_high, high, 0) - x, 1))
    return xp.where(has_low | has_high, below - above, x)


def folded(
    u: Float[Array, "*n d"], low: Float[Array, " d"], high: Float[Array, " d"]
) -> Float[Array, "*n d"]:
    """The inverse of `unfolded`: low + e^u, high − e^(−u), or between the two by the logistic
    function.
    """
    xp = namespace(u)
    has_low, has_high = xp.isfinite(low), xp.isfinite(high)
    low, high = xp.where(has_low, low, 0), xp.where(has_high, high, 0)
    below, above = xp.exp(-abs(u)), 1 / (1 + xp.exp(-abs(u)))
    between = low + (high - low) * xp.where(u < 0, below * above, above)
    rising, falling = (
        low + xp.exp(xp.where(has_low, u, 0)),
        high - xp.exp(xp.where(has_high, -u, 0)),
    )
    return xp.where(
        has_low & has_high, between, xp.where(has_low, rising, xp.where(has_high, falling, u))
    )
