"""How a fit can end: a number inside compiled code, a sentence for people."""

from typing import Any

import numpy as np

from ..errors import NotConverged, SingularInformation, explained

(
    CONVERGED,
    LIMIT,
    NOT_FINITE,
    RUNAWAY,
    SINGULAR,
    SADDLE,
    STALLED,
    FINISHED,
    DIVERGED,
    NOT_QUADRATIC,
    REJECTED,
    OUTSIDE,
) = range(12)

MEANING = {
    CONVERGED: "The fit converged.",
    LIMIT: "The iteration limit was reached before the loss stopped falling.",
    NOT_FINITE: "The loss is not finite at the start.",
    RUNAWAY: "The loss keeps falling as the parameters run away or to an edge of their range; it has no minimum there.",
    SINGULAR: "The information tensor is singular: the loss does not change along some direction of the parameters.",
    SADDLE: "The gradient vanishes, but the point is a saddle of the loss, not a minimum.",
    STALLED: "No step lowers the loss, although its gradient is not zero.",
    FINISHED: "All steps were taken; the result has not been shown to be a minimum.",
    NOT_QUADRATIC: "The loss is not quadratic in θ, so its minimum has no closed form.",
    DIVERGED: "The loss stopped being finite on the way.",
    REJECTED: "The Markov chain rejected every step (acceptance rate 0), so that there was nothing to learn from.",
    OUTSIDE: "Under the model that was found, some observations are impossible: log p is not finite there.",
}

ADVICE = {
    LIMIT: (
        "(a) more iterations: solver=ms.GaussNewton(max_steps=1000); "
        "(b) other starts: solver=ms.GaussNewton(starts=10), key=jax.random.key(0); "
        "(c) for continuous data, a lengthscale far from their spread: ms.kernels.median_heuristic(x)"
    ),
    NOT_FINITE: "start the model where its score, or the ratios p(y)/p(x) of a discrete model, are finite at the data",
    RUNAWAY: (
        "(a) a diffusion that moves with θ: drop moving=True, and it is held at a pilot fit; "
        "(b) a loss without a minimum for this model, such as score matching of a density with a kink: use KSD; "
        "(c) a parameter the data say nothing about, or whose best value is a limit, such as infinitely many degrees "
        "of freedom for tails as light as the normal's: hold it with ms.fixed(...); "
        "(d) a U-statistic, which can fall without bound: unbiased=False; "
        "(e) a discrete model whose sample lacks states that it needs, such as spins that always agree, or as many "
        "parameters as states under DFD: fewer free parameters, ms.PseudoLikelihood() or ms.MPF(), or more data"
    ),
    SINGULAR: (
        "(a) two parameters that the data cannot separate, or one that does not change the score: hold it with "
        "ms.fixed(...); (b) a density whose score is piecewise constant, such as Laplace's, under score matching: "
        "use KSD, with solver=ms.DirectSearch(); (c) fewer observations than parameters"
    ),
    SADDLE: (
        "(a) a U-statistic, which is not convex: unbiased=False; "
        "(b) a start between two solutions: solver=ms.GaussNewton(starts=10), key=jax.random.key(0)"
    ),
    NOT_QUADRATIC: "ClosedForm() where it does not apply: leave out solver=...",
    REJECTED: (
        "(a) too large a step of the kernel: ms.markov.RandomWalk(step) with a smaller step; "
        "(b) a start far from the data: let the model begin nearer to them"
    ),
    OUTSIDE: (
        "(a) a support that moves with a parameter, whose edge a discrepancy cannot estimate: hold the parameter with "
        "ms.fixed(...); (b) a parameter out of its range: mark it with ms.positive(...)"
    ),
    DIVERGED: "(a) too large a step; (b) a model whose score overflows: standardise x, or bound the parameters",
    STALLED: (
        "(a) a loss with jumps or kinks, such as that of a Laplace location: solver=ms.DirectSearch(); "
        "(b) a parameter that the data say little about: hold it with ms.fixed(...)"
    ),
}


@explained("fitting.md")
def failure(fit: Any) -> NotConverged:
    """The error for a fit without a minimum; it carries the fit."""
    code = int(fit.status)
    kind = SingularInformation if code == SINGULAR else NotConverged
    where = ", ".join(f"{name} = {value:.6g}" for name, value in list(fit.params.items())[:8])
    rounded = code in (STALLED, LIMIT) and np.asarray(fit.theta).dtype == np.float32
    single = (
        " The computation was in single precision, which may be the cause: pass x as float64."
        if rounded
        else ""
    )
    return kind(
        f"{MEANING[code]} After {int(fit.steps)} steps: {where}, loss {float(fit.loss):.6g}. "
        f"Usual causes: {ADVICE[code]}. With throw=False you get this fit, without standard errors."
        + single
        + "".join(f" {note}" for note in fit.notes),
        fit,
    )
