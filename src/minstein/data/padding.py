"""Sizes to which samples are padded, few enough that data of similar size share one compilation."""

TILE = 256
"""Rows of a tile of the pair sum; samples are padded to multiples of it."""


def bucket(n: int) -> int:
    """The padded size for n rows: few distinct sizes, each at most a quarter above n (or a whole
    tile).
    """
    if n <= TILE:
        return max(16, 1 << (n - 1).bit_length())
    step = max(TILE, 1 << ((n - 1).bit_length() - 3))
    return -(-n // step) * step
