"""One of several processes, or one with several devices, that fits and says what it found: python worker.py JOB.

JOB is JSON: where the data and the answer are, the join, the share of the rows of each process, and what to do.
"""

import json
import os
import signal
import sys
import time

import numpy as np

import minstein as ms

PROBLEMS = {
    "default": (lambda: ms.models.StudentT(np.zeros(2), np.ones(2), 5.0), lambda: None),
    "u-statistic": (lambda: ms.models.Gaussian(np.zeros(2), ms.fixed(1.5)), lambda: ms.KSD(ms.kernels.IMQ(1.0))),
    "full": (
        lambda: ms.models.Gaussian(np.zeros(2), ms.fixed(1.5)),
        lambda: ms.DKSD(ms.kernels.Gaussian(2.0), np.array([[1.0, 0.2], [0.0, 0.5]])),
    ),
    "columns": (
        lambda: ms.models.Gaussian(np.zeros(2), ms.fixed(1.5)),
        lambda: ms.DKSD(ms.kernels.Matern(2.0), [1.0, 2.0]),
    ),
    "score matching": (lambda: ms.models.Gaussian(np.zeros(2), np.ones(2)), lambda: ms.SM()),
}
"""A model and a discrepancy for each form of G, and one without pairs."""


def found(problem: str, x) -> dict:
    """Everything that must not depend on where the rows are."""
    model, discrepancy = (make() for make in PROBLEMS[problem])
    fit = ms.fit(model, x, discrepancy)
    value, gradient = ms.value_and_grad(fit.discrepancy, model, x)
    moved = ms.influence(fit, x)
    return {
        "value": float(value),
        "gradient": np.asarray(gradient).tolist(),
        "loss": float(fit.loss),
        "theta": fit.theta.tolist(),
        "cov": fit.cov.tolist(),
        "steps": int(fit.steps),
        "influence": (moved.on_host() if isinstance(moved, ms.Sharded) else moved).tolist(),
    }


def main(job: dict) -> None:
    rows = np.load(job["data"])
    if job["processes"] > 1:
        ms.join(job["coordinator"], job["processes"], job["process"])
        ends = np.round(np.cumsum([0, *job["shares"]]) / sum(job["shares"]) * len(rows)).astype(int)
        rows = rows[ends[job["process"]] : ends[job["process"] + 1]]
    x = ms.shard(rows)
    answers = {problem: found(problem, x) for problem in job["problems"]}
    with open(job["answer"], "w") as file:
        json.dump(answers, file)


def fit_for_ever(job: dict) -> None:
    """Fit again and again; the process that is to die does so after the first."""
    ms.join(job["coordinator"], job["processes"], job["process"])
    x = ms.shard(np.load(job["data"]))
    model = ms.models.Gaussian(np.zeros(2), ms.fixed(1.5))
    began = None
    try:
        while began is None or time.time() < began + 120:
            ms.fit(model, x, ms.SM())
            if began is None:
                print("fitted", flush=True)
                began = time.time()
                if job["process"] == job["dies"]:
                    os.kill(os.getpid(), signal.SIGKILL)
    except ms.ProcessLost as lost:
        print(f"ProcessLost: {lost}", flush=True)
        os._exit(3)


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    (fit_for_ever if "dies" in job else main)(job)
