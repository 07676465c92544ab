"""Against NumPy: the blocked implementation of `blocked`, one thread on one core for each."""

from collections.abc import Iterator
from functools import partial

import minstein as ms

from ..blocked import BLOCKS
from ..errors import difference
from ..problems import moving_dksd, student_t, student_t_reference
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timings

N, D = 2000, 50


def rows() -> Iterator[Row]:
    x, model, dksd = heavy_tailed(N, D), student_t(D), moving_dksd()
    ours = lambda: ms.value_and_grad(dksd, model, x)
    tiles = {f"tiles of {block}": partial(student_t_reference, x, block=block) for block in BLOCKS}
    times = timings({"ours": ours, **tiles}, repeats=20)
    best = min(tiles, key=lambda name: times[name].cpu)
    where = f"n={N}, d={D}, one thread"
    yield Row(f"NumPy, {best}, {where}", times[best])
    ratio = times["ours"].cpu / times[best].cpu
    yield Row(f"minstein, {where}", times["ours"], at_most(1.0, ratio), difference(ours(), tiles[best]()))
