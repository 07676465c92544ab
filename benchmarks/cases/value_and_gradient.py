"""What a gradient costs: value and gradient against the value alone."""

from collections.abc import Iterator

import minstein as ms

from ..errors import difference
from ..problems import moving_dksd, student_t, student_t_reference
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import timings

N, DIMENSIONS = 2000, (1, 5, 50)


def rows() -> Iterator[Row]:
    for d in DIMENSIONS:
        x, model, dksd = heavy_tailed(N, d), student_t(d), moving_dksd()
        both = lambda dksd=dksd, model=model, x=x: ms.value_and_grad(dksd, model, x)
        value = lambda dksd=dksd, model=model, x=x: dksd(model, x)
        times = timings({"value": value, "both": both}, repeats=20)
        reference = student_t_reference(x)
        where = f"n={N}, d={d}"
        yield Row(f"value, {where}", times["value"], error=difference((value(), 1), (reference[0], 1)))
        ratio = times["both"].cpu / times["value"].cpu
        yield Row(f"value and gradient, {where}", times["both"], at_most(1.25, ratio), difference(both(), reference))
