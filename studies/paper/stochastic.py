"""Riemannian against ordinary stochastic gradient descent on the KSD of a Student-t."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import minstein as ms

from .claim import Claim, Findings, Picture, Table, verdict
from .figures import LINES, drawing
from .lab import Lab
from .measured import share

N, BATCH, DF, TRUTH = 1000, 50, 5.0, np.array([25.0, 10.0])
STARTS = {"(15, 5)": np.array([15.0, 5.0]), "(10, 20)": np.array([10.0, 20.0])}
STEPS = {"RSGD": (0.05, 0.1, 0.25), "SGD": (1.0, 10.0, 100.0, 1000.0)}
RECORDS = {"RSGD": (20, 5), "SGD": (20, 50)}
"""How many iterates are recorded, and the steps from one to the next."""

KSD = ms.KSD(ms.kernels.IMQ(1.0))
log_density = lambda theta, x: -(DF + 1) / 2 * jnp.log1p(((x[0] - theta[0]) / theta[1]) ** 2 / DF)
SOLVERS = {
    "RSGD": lambda step, steps: ms.RiemannianSGD(step=step, steps=steps, batch=BATCH),
    "SGD": lambda step, steps: ms.SGD(optimiser=optax.sgd(step), steps=steps, batch=BATCH),
}


def walk(kind: str):
    """Iterates of a descent: fits of a few steps each, every one from where the last has ended."""
    count, steps = RECORDS[kind]

    def one(given, key):
        step, start = given
        data_key, walk_key = jax.random.split(key)
        x = ms.models.StudentT(TRUTH[0], TRUTH[1], DF).sample(data_key, N)

        def further(theta, key):
            model = ms.models.from_log_density(log_density, theta)
            theta = ms.fit(
                model,
                x,
                KSD,
                solver=SOLVERS[kind](step, steps),
                key=key,
                covariance=False,
                throw=False,
            ).theta
            return theta, theta

        return jnp.ravel(jax.lax.scan(further, start, jax.random.split(walk_key, count))[1])

    return one


def run(lab: Lab) -> Findings:
    walks, rows = {}, []
    for kind, steps in STEPS.items():
        one = walk(kind)
        for start, theta in STARTS.items():
            for step in steps:
                found = lab.replicate(
                    f"{kind} {step:g} from {start}",
                    one,
                    (np.array(step), theta),
                    quick=10,
                    full=100,
                )
                walks[kind, step, start] = found.reshape(len(found), -1, 2)
    reached = {key: _reached(key[0], iterates) for key, iterates in walks.items()}
    for (kind, step, start), steps in reached.items():
        median = np.median(steps)
        rows.append(
            (
                kind,
                f"{step:g}",
                start,
                str(share(np.isfinite(steps))),
                f"{median:g}" if np.isfinite(median) else "–",
            )
        )
    columns = ("method", "step", "start", "arrived", "median iterations")
    return Findings(
        f"KSD, IMQ kernel with c = 1, n = {N}, minibatches of {BATCH}, both parameters at once, constant steps. "
        "Arrived: within 2 (a fifth of the scale) of the truth in both; looked at every 5 iterations of 100 "
        "(Riemannian) or every 50 of 1000.",
        _claims(reached),
        (Table("stochastic", "Iterations until the truth is near", columns, tuple(rows)),),
        (_picture(lab, walks),),
    )


def _reached(kind: str, iterates: np.ndarray) -> np.ndarray:
    """The iteration at which each walk is near the truth first; infinite where it never is."""
    near = np.all(np.abs(iterates - TRUTH) < 0.2 * TRUTH[1], axis=2)
    first = (np.argmax(near, axis=1) + 1) * float(RECORDS[kind][1])
    return np.where(near.any(axis=1), first, np.inf)


def _claims(reached: dict) -> tuple[Claim, ...]:
    quick = [np.median(reached["RSGD", step, start]) for step in (0.05, 0.1) for start in STARTS]
    modest = np.concatenate([reached["SGD", step, start] for step in (1.0, 10.0) for start in STARTS])
    tuned = [np.median(reached["SGD", 1000.0, start]) for start in STARTS]
    return (
        Claim(
            "stochastic: Riemannian in a few dozen",
            "Riemannian SGD converges in a few dozen iterations.",
            "median iterations with steps 0.05 and 0.1: " + ", ".join(f"{q:g}" for q in quick),
            verdict(max(quick) <= 48),
        ),
        Claim(
            "stochastic: SGD has not converged",
            "SGD has not converged after 1000 iterations.",
            f"steps 1 and 10: {share(np.isfinite(modest))} arrived; step 1000: median iterations "
            + ", ".join(f"{t:g}" for t in tuned)
            + ". The advantage is a step that scales itself: g is nearly a multiple of the identity, about 10⁻⁵",
            verdict(
                not np.isfinite(modest).any() and not np.isfinite(tuned).any(),
                otherwise=np.isfinite(modest).mean() < 0.1,
            ),
        ),
    )


def _picture(lab: Lab, walks: dict) -> Picture:
    start = "(15, 5)"
    shown = [("RSGD", 0.1), ("RSGD", 0.05), ("SGD", 10.0), ("SGD", 100.0), ("SGD", 1000.0)]
    with drawing(lab.directory, "stochastic", 2, width=3.4, height=2.6) as axes:
        for k, (ax, name) in enumerate(zip(axes[0], ("location θ₁", "scale θ₂"), strict=True)):
            for (kind, step), (colour, style) in zip(shown, LINES, strict=False):
                path = np.median(walks[kind, step, start], axis=0)[:, k]
                count, steps = RECORDS[kind]
                iterations = np.concatenate([[1], steps * np.arange(1, count + 1)])
                values = np.concatenate([[STARTS[start][k]], path])
                ax.plot(
                    iterations,
                    values,
                    color=colour,
                    linestyle=style,
                    label=f"{kind}, step {step:g}",
                )
            ax.axhline(TRUTH[k], color="0.6", linewidth=0.8, linestyle=":")
            ax.set(xscale="log", xlabel="iteration", ylabel=name)
        axes[0][1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(
        "stochastic",
        "Medians of walks from (15, 5), n = 1000, minibatches of 50; dotted: the truth.",
    )
