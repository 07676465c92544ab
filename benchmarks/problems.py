"""The problems that are timed, and how far a result is from its reference."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import minstein as ms

from . import blocked, closed_form

LOC, SCALE, DF = 0.1, 1.2, 5.0
"""The parameters of the Student-t model, away from those of the data so that the value is not near zero."""


def student_t(d: int) -> ms.models.StudentT:
    return ms.models.StudentT(np.full(d, LOC), SCALE, DF)


def growing(model: ms.models.StudentT, x: Any) -> Any:
    """The diffusion m(x) = 1 + ‖z‖²/ν with z = (x − μ)/σ, which moves with θ."""
    z = (x - model.loc) / model.scale
    return 1 + jnp.vdot(z, z) / model.df


def moving_dksd(c: float = 1.0, *, backend: str | None = None) -> ms.DKSD:
    """DKSD with an inverse multiquadric kernel and the θ-dependent diffusion."""
    return ms.DKSD(ms.kernels.IMQ(c), ms.diffusions.of_model(growing, moving=True), backend=backend)


def student_t_reference(x: np.ndarray, *, c: float = 1.0, block: int = 256) -> tuple[float, np.ndarray]:
    """Value and gradient of `moving_dksd(c)` at `student_t(d)`, in NumPy.

    In units of c the kernel is (1 + r²)^(−1/2)/c, and k⁰ takes two derivatives.
    """
    loc = np.full(x.shape[1], LOC / c)
    value, gradient = closed_form.student_t(x / c, loc, SCALE / c, DF, partial(blocked.fields, block=block))
    return value / c**3, gradient / c**4
