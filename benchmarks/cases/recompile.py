"""That other data of the same or of similar size, and another lengthscale, compile nothing."""

from collections.abc import Iterator
from typing import Any

import jax.monitoring
import jax.numpy as jnp
import numpy as np

import minstein as ms

from ..errors import difference
from ..problems import DF, LOC, SCALE, student_t_reference
from ..rows import Row, at_most
from ..samples import heavy_tailed
from ..timing import once

N, FEWER, D = 2000, 1900, 5
COMPILED = "/jax/core/compile/backend_compile_duration"
"""JAX's name for the event of a compilation."""


class Counter:
    """How often JAX compiled anything, and how often it traced the model."""

    def __init__(self) -> None:
        self.compiled = self.traced = 0
        jax.monitoring.register_event_duration_secs_listener(self._notice)

    def _notice(self, event: str, duration: float, **_: Any) -> None:
        self.compiled += event == COMPILED

    def log_density(self, params: dict[str, Any], x: Any) -> Any:
        """Student's t, as a user's function that counts its own traces."""
        self.traced += 1
        return -0.5 * (DF + x.shape[0]) * jnp.log(_growing(params, x))


def rows() -> Iterator[Row]:
    counter = Counter()
    model = ms.models.from_log_density(counter.log_density, {"loc": np.full(D, LOC), "scale": ms.positive(SCALE)})
    diffusion = ms.diffusions.of_model(lambda model, x: _growing(model.params, x), moving=True)
    x = heavy_tailed(2 * N, D)
    calls = {
        f"first call, n={N}": (x[:N], 1.0),
        f"other data, n={N}": (x[N:], 1.0),
        f"another lengthscale, n={N}": (x[:N], 1.3),
        f"fewer data, n={FEWER}": (x[:FEWER], 1.0),
    }
    for what, (data, c) in calls.items():
        dksd = ms.DKSD(ms.kernels.IMQ(c), diffusion)
        before = counter.compiled + counter.traced
        result, time = once(lambda dksd=dksd, data=data: ms.value_and_grad(dksd, model, data))
        new = counter.compiled + counter.traced - before
        error = difference(result, student_t_reference(data, c=c))
        if what.startswith("first"):
            note = f"the first call traced the model {counter.traced} times and compiled {counter.compiled} programs"
            yield Row(what, time, error=error, note=note)
        else:
            yield Row(what, time, at_most(0, new, "compiled"), error)


def _growing(params: dict[str, Any], x: Any) -> Any:
    """1 + ‖x − μ‖²/νσ²."""
    z = (x - params["loc"]) / params["scale"]
    return 1 + jnp.vdot(z, z) / DF
