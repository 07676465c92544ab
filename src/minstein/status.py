"""How a fit can end: a number inside compiled code, a sentence for people."""

CONVERGED, LIMIT, NOT_FINITE, RUNAWAY, SINGULAR, SADDLE, STALLED, FINISHED, DIVERGED, NOT_QUADRATIC, REJECTED = range(
    11
)

MEANING = {
    CONVERGED: "The fit converged.",
    LIMIT: "The iteration limit was reached before the loss stopped falling.",
    NOT_FINITE: "The loss is not finite at the start.",
    RUNAWAY: "The loss keeps falling as the parameters run to the edge of what is allowed; it has no minimum there.",
    SINGULAR: "The information tensor is singular: the loss does not change along some direction of the parameters.",
    SADDLE: "The gradient vanishes, but the point is a saddle of the loss, not a minimum.",
    STALLED: "No step lowers the loss, although its gradient is not zero.",
    FINISHED: "All steps were taken; the result has not been shown to be a minimum.",
    NOT_QUADRATIC: "The loss is not quadratic in θ, so its minimum has no closed form.",
    DIVERGED: "The loss stopped being finite on the way.",
    REJECTED: "The Markov chain rejected every step (acceptance rate 0), so that there was nothing to learn from.",
}

ADVICE = {
    LIMIT: (
        "(a) more iterations: solver=ms.GaussNewton(max_steps=1000); "
        "(b) other starts: solver=ms.GaussNewton(starts=10), key=jax.random.key(0); "
        "(c) a lengthscale far from the spread of the data: ms.kernels.median_heuristic(x)"
    ),
    NOT_FINITE: "start the model where its score is finite at every observation",
    RUNAWAY: (
        "(a) a diffusion that moves with θ: drop moving=True, and it is held at a pilot fit; "
        "(b) a loss without a minimum for this model, such as score matching of a density with a kink: use KSD; "
        "(c) a parameter the data say nothing about: hold it with ms.fixed(...); "
        "(d) a U-statistic, which can fall without bound: unbiased=False"
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
    DIVERGED: "(a) too large a step; (b) a model whose score overflows: standardise x, or bound the parameters",
    STALLED: (
        "(a) a loss with jumps or kinks, such as that of a Laplace location: solver=ms.DirectSearch(); "
        "(b) single precision: pass x as float64"
    ),
}
