"""Fits: a Student-t against SciPy's maximum likelihood and a plain Optax loop, and a large exponential family."""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats

import minstein as ms
from minstein.data.boundary import at_boundary

from ..problems import DF
from ..processes import json_lines
from ..rows import Row, amount, at_least, at_most
from ..samples import heavy_tailed, normal
from ..timing import timing, timings

N = 1000
TERMS, ROWS, D = 20, 10_000, 10
CACHED = {"JAX_ENABLE_COMPILATION_CACHE": "true", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def rows() -> Iterator[Row]:
    yield from _start_up()
    yield from _student_t()
    yield from _stored()
    yield from _exponential_family()


def _start_up() -> Iterator[Row]:
    """A first fit in a new process, without a cache of compilations, and with one that an earlier process filled."""
    imported, fit = _first_fit({})
    yield Row(
        f"first fit, n={N}", None, at_most(5, fit, "CPU s"), note=f"importing took {imported:.2f} CPU s before it"
    )
    with tempfile.TemporaryDirectory() as directory:
        cached = {**CACHED, "JAX_COMPILATION_CACHE_DIR": directory}
        _first_fit(cached)
        total = sum(_first_fit(cached))
    yield Row("import and first fit, compilations cached", None, at_most(3, total, "CPU s"))


def _first_fit(environment: dict[str, str]) -> tuple[float, float]:
    """CPU seconds of the import and of the fit."""
    (line,) = json_lines(sys.executable, "benchmarks.first_fit", environment=environment)
    return line["import"], line["fit"]


def _student_t() -> Iterator[Row]:
    x = 25 + 10 * heavy_tailed(N, 1)
    model = ms.models.StudentT(20.0, 5.0, DF)
    fits: dict[str, Any] = {}
    calls = {
        "ms.fit": lambda: fits.update(ours=ms.fit(model, x, "ksd")),
        "ms.fit, estimates only": lambda: fits.update(bare=ms.fit(model, x, "ksd", covariance=False)),
        "scipy.stats.t.fit": lambda: fits.update(mle=stats.t.fit(x[:, 0], fdf=DF)),
        "a plain Optax loop": lambda: fits.update(adam=_adam(model, x)),
    }
    times = timings(calls, repeats=5)
    ours = fits["ours"]
    yield Row(f"ms.fit, t, n={N}, with standard errors", times["ms.fit"], note=f"{int(ours.steps)} steps, two starts")
    yield Row("the same, estimates only", times["ms.fit, estimates only"])
    step = timing(_compiled(_jet, model, x, True), repeats=9)
    yield Row("one Gauss-Newton step of it", step, amount(1e3 * step.cpu, "ms"))
    for name, opponent in (("scipy.stats.t.fit", "mle"), ("a plain Optax loop", "adam")):
        ratio = times[name].cpu / times["ms.fit"].cpu
        away = "" if opponent == "mle" else f"; θ differs by {np.max(np.abs(fits['adam'] / ours.theta - 1)):.1e}"
        yield Row(name, times[name], amount(ratio, "x ms.fit"), note=f"{name}{away}")


def _adam(model: ms.models.StudentT, x: np.ndarray) -> np.ndarray:
    """Adam on the same loss with a decaying step, as many steps as it takes to agree to about six digits."""
    discrepancy = ms.fit(model, x, covariance=False).discrepancy
    return at_boundary(lambda d, m, sample: _descend(d, m, sample), discrepancy, model, x)


@jax.jit
def _descend(discrepancy: ms.DKSD, model: Any, sample: Any) -> jax.Array:
    target = discrepancy.objective(model, sample)
    optimiser = optax.adam(optax.exponential_decay(0.5, 100, 0.3))

    def step(carry, _):
        eta, state = carry
        updates, state = optimiser.update(jax.grad(target)(eta), state)
        return (optax.apply_updates(eta, updates), state), None

    eta = ms.params.to_real(model)
    (eta, _), _ = jax.lax.scan(step, (eta, optimiser.init(eta)), length=1000)
    return ms.params.theta(ms.params.from_real(model, eta))


def _stored() -> Iterator[Row]:
    """An iteration with the Gram matrix kept against one that computes the pairs anew."""
    for d in (1, 5):
        x, model = heavy_tailed(2000, d), ms.models.StudentT(np.zeros(d), 1.2, DF)
        for what, evaluate, gate in (("value and gradient", jax.value_and_grad, 4), ("Gauss-Newton step", _jet, None)):
            calls = {keep: _compiled(evaluate, model, x, keep == "stored matrix") for keep in ("stored matrix", "anew")}
            times = timings(calls, repeats=9)
            ratio = times["anew"].cpu / times["stored matrix"].cpu
            yield Row(f"{what}, pairs anew, n=2000, d={d}", times["anew"])
            bound = amount(ratio) if gate is None else at_least(gate, ratio)
            yield Row(f"{what}, stored matrix, n=2000, d={d}", times["stored matrix"], bound)


def _jet(target: Any) -> Any:
    return target.jet


def _compiled(evaluate: Any, model: Any, x: np.ndarray, keep: bool) -> Any:
    """A compiled function that evaluates the objective, with its Gram matrix kept or not."""
    kept: list[Any] = []

    def drive(discrepancy, model, sample):
        kept.append((discrepancy.objective(model, sample, keep=keep), ms.params.to_real(model)))
        return 0.0

    at_boundary(drive, ms.KSD(ms.kernels.IMQ(1.0)), model, x)
    (target, eta), compiled = kept[0], jax.jit(lambda target, eta: evaluate(target)(eta))

    def call():
        with jax.enable_x64(True):
            jax.block_until_ready(compiled(target, eta))

    return call


def _exponential_family() -> Iterator[Row]:
    """T = (x₁, …, x_d, −x₁²/2, …, −x_d²/2): the closed form against passes for value and gradient."""
    x = normal(ROWS, D)
    model = ms.models.ExponentialFamily(_moments, np.concatenate([np.zeros(D), np.ones(D)]))
    ksd = ms.KSD(ms.kernels.IMQ(3.0))
    fits: list[ms.Fit] = []
    fit = timing(lambda: fits.append(ms.fit(model, x, ksd, covariance=False)), repeats=2)
    full = timing(lambda: fits.append(ms.fit(model, x, ksd)), repeats=2)
    one = timing(lambda: ms.value_and_grad(ksd, model, x), repeats=2)
    A, v, _ = ms.quadratic(ksd, model, x)
    error = float(np.max(np.abs(fits[0].theta + np.linalg.solve(A, v) / 2)))
    yield Row(f"value and gradient, {TERMS} parameters, n={ROWS}, d={D}", one)
    yield Row("closed form with its verification", fit, amount(fit.cpu / one.cpu, "x value and gradient"), error)
    yield Row("with standard errors", full, amount(full.cpu / one.cpu, "x value and gradient"), error)


def _moments(x: jax.Array) -> jax.Array:
    return jnp.concatenate([x, -(x**2) / 2])
