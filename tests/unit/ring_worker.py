"""One of several processes, or one with several devices, that fits and says what it found: python worker.py JOB.

JOB is JSON: where the data and the answer are, which process this is of how many, and what to do.
"""

import json
import os
import re
import resource
import signal
import sys

import equinox as eqx
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import minstein as ms
from minstein.data.boundary import in_precision
from minstein.data.in_memory import as_rows
from minstein.params import theta


def gaussian():
    return ms.models.Gaussian(np.zeros(2), ms.fixed(1.5))


PROBLEMS = {
    "by name": lambda: (ms.models.StudentT(np.zeros(2), 1.0, 5.0), "ksd"),
    "scalar": lambda: (gaussian(), ms.KSD(ms.kernels.IMQ(1.0))),
    "diagonal": lambda: (gaussian(), ms.DKSD(ms.kernels.IMQ(2.0), np.array([1.0, 2.0]))),
    "full": lambda: (gaussian(), ms.DKSD(ms.kernels.Gaussian(2.0), np.array([[1.0, 0.2], [0.0, 0.5]]))),
    "points": lambda: (gaussian(), ms.SM()),
}
"""A model and a discrepancy: as `fit` has them by name, for each form of G, and without pairs."""


def found(problem: str, x, *, fitted: bool) -> dict:
    """What must not depend on where the rows are."""
    model, discrepancy = PROBLEMS[problem]()
    if not fitted:
        value, gradient = ms.value_and_grad(discrepancy, model, x)
        return {"value": float(value), "gradient": gradient.tolist()}
    fit = ms.fit(model, x, discrepancy)
    moved = ms.influence(fit, x)
    return {
        "loss": float(fit.loss),
        "theta": fit.theta.tolist(),
        "cov": fit.cov.tolist(),
        "influence": (moved.on_host() if isinstance(moved, ms.Sharded) else moved).tolist(),
    }


def as_array(rows: np.ndarray) -> jax.Array:
    """Rows as users of JAX have them, on a mesh of their own."""
    mesh = jax.make_mesh((2, len(jax.devices()) // 2), ("a", "b"))
    with jax.enable_x64(True):
        return jax.device_put(rows, NamedSharding(mesh, PartitionSpec(("a", "b"))))


def gathered(x: ms.Sharded) -> list[str]:
    """What the compiled program for Hessian and sandwich brings together on one device."""
    model, discrepancy = PROBLEMS["scalar"]()
    with jax.enable_x64(True):
        discrepancy, model = in_precision((discrepancy, model), x.dtype)
        target, vector = discrepancy.objective(model, as_rows(x).sample(), natural=True), theta(model)
        arrays, rest = eqx.partition(target, eqx.is_array)
        second = jax.jit(lambda arrays: eqx.combine(arrays, rest).second(vector)).lower(arrays).compile()
    assert "collective-permute" in second.as_text()
    return re.findall(r"= (\S+) all-gather", second.as_text())


def answer(job: dict) -> None:
    rows = np.load(job["data"])
    if job["processes"] > 1:
        ms.join(job["coordinator"], job["processes"], job["process"], wait=250)
        rows = rows[job["from"] : job["to"]]
    x = ms.shard(rows)
    answers = {problem: found(problem, x, fitted=fitted) for problem, fitted in job["problems"].items()}
    if job.get("array"):
        answers["scalar of an array"] = found("scalar", as_array(rows[: job["array"]]), fitted=False)
    if job.get("gathers"):
        answers["gathered"] = gathered(x)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    answers["cpu"] = usage.ru_utime + usage.ru_stime
    with open(job["answer"], "w") as file:
        json.dump(answers, file)


def fit_until_lost(job: dict) -> None:
    """Fit again and again; the process that is to die does so after the first."""
    ms.join(job["coordinator"], job["processes"], job["process"], wait=250)
    x = ms.shard(np.load(job["data"]))
    try:
        for _ in range(100_000):
            ms.fit(gaussian(), x, ms.SM(), covariance=False)
            if job["process"] == job["dies"]:
                os.kill(os.getpid(), signal.SIGKILL)
    except ms.ProcessLost as lost:
        print(f"ProcessLost: {lost}", flush=True)
        os._exit(3)


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    (fit_until_lost if "dies" in job else answer)(job)
