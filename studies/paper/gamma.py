"""Generalised gamma location under corruption: 80 of 300 observations moved to 8."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

import minstein as ms

from .claim import Claim, Findings, Picture, Table, verdict
from .figures import BLUE, ORANGE, drawing, legend, lines, truth, unit
from .lab import Lab, estimate, landscape
from .measured import mean, rmse

N, CORRUPTED, AT = 300, 80, 8.0
POWERS, ALPHAS = (2.0, 5.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
IMQ = ms.kernels.IMQ(1.0)
METHODS = {
    "SM": ms.SM(),
    "KSD": ms.KSD(IMQ),
    **{f"DSM, α = {a:g}": ms.DSM(ms.diffusions.decay(a)) for a in ALPHAS},
    **{f"DKSD, α = {a:g}": ms.DKSD(IMQ, ms.diffusions.decay(a)) for a in ALPHAS},
}


def sample(power: float, key, corrupted):
    """n draws, the first of them moved to 8; how many is not known when this is compiled."""
    x = ms.models.GeneralisedGamma(0.0, power).sample(key, N)
    return jnp.where(jnp.arange(N)[:, None] < corrupted, AT, x)


def fitted(power: float):
    model = ms.models.GeneralisedGamma(0.01, power)

    def one(given, key):
        discrepancy, corrupted = given
        return estimate(model, sample(power, key, corrupted), discrepancy)

    return one


def run(lab: Lab) -> Findings:
    errors, rows = {}, []
    for power in POWERS:
        one = fitted(power)
        for corrupted, kind in ((np.array(0), "clean"), (np.array(CORRUPTED), "corrupted")):
            for name, discrepancy in METHODS.items():
                v = lab.replicate(f"{power:g} {kind} {name}", one, (discrepancy, corrupted), quick=50, full=1000)[:, 0]
                errors[power, kind, name] = np.abs(v)
                rows.append((f"{power:g}", kind, name, len(v), str(mean(v)), str(rmse(v, 0.0))))
    table = Table(
        "gamma",
        "Location, true value 0",
        ("θ₂", "data", "method", "samples", "mean", "RMSE"),
        tuple(rows),
    )
    return Findings(
        f"p ∝ exp(−|x−θ₁|^θ₂), with the absolute value that θ₂ = 5 needs; n = {N}, {CORRUPTED} of them set to "
        f"{AT:g}; m = 1/(1 + |x|^α); IMQ kernel, c = 1 (the paper names none).",
        _claims(errors),
        (table,),
        (_picture(lab, errors),),
    )


def _claims(errors: dict) -> tuple[Claim, ...]:
    e = {key: mean(values) for key, values in errors.items()}
    bad = lambda power, name: e[power, "corrupted", name]
    clean = lambda power, name: e[power, "clean", name]
    robust = lambda power, name: bad(power, name).below(0.1 * bad(power, "SM").value)
    rising = [bad(5.0, "SM"), *(bad(5.0, f"DSM, α = {a:g}") for a in ALPHAS[:5])]
    falls = all(b.value + 2 * b.error < a.value for a, b in pairwise(rising))
    return (
        Claim(
            "gamma: SM is not robust",
            "SM is not robust for the Gaussian model (θ₂ = 2).",
            f"mean absolute error {bad(2.0, 'SM')}, and {clean(2.0, 'SM')} on clean data",
            verdict(bad(2.0, "SM").above(10 * clean(2.0, "SM").value)),
        ),
        Claim(
            "gamma: DSM is robust",
            "DSM with m = 1/(1 + ‖x‖²) is.",
            f"mean absolute error {bad(2.0, 'DSM, α = 2')}; clean {clean(2.0, 'DSM, α = 2')}, SM clean "
            f"{clean(2.0, 'SM')}",
            verdict(robust(2.0, "DSM, α = 2")),
        ),
        Claim(
            "gamma: DKSD is robust",
            "DKSD with the same m is too.",
            f"mean absolute error {bad(2.0, 'DKSD, α = 2')}; plain KSD, whose influence function is bounded, "
            f"{bad(2.0, 'KSD')}",
            verdict(robust(2.0, "DKSD, α = 2")),
        ),
        Claim(
            "gamma: α by θ₂",
            "At θ₂ = 5, α can be chosen as a function of θ₂ to guarantee robustness: α ≥ θ₂ − 1.",
            "mean absolute error of SM and of DSM with α = 1, …, 5: " + ", ".join(map(str, rising)),
            verdict(falls and robust(5.0, "DSM, α = 4") and not robust(5.0, "DSM, α = 2")),
        ),
    )


def _picture(lab: Lab, errors: dict) -> Picture:
    grid = np.linspace(-1.0, 6.0, 141) + 1e-3
    panels = {
        2.0: (("SM", "DSM, α = 2"), ("KSD", "DKSD, α = 2")),
        5.0: (("SM", "DSM, α = 2", "DSM, α = 4"),),
    }
    with drawing(lab.directory, "gamma", 4, width=2.4) as axes:
        shown = [(power, names) for power, groups in panels.items() for names in groups]
        for ax, (power, names) in zip(axes[0], shown, strict=False):
            at = lambda loc, power=power: ms.models.GeneralisedGamma(loc, power)
            with jax.enable_x64(True):
                x = np.asarray(sample(power, lab.key(), CORRUPTED))
            curves = {name: unit(landscape(METHODS[name], at, grid, x)) for name in names}
            lines(ax, grid, {name: np.maximum(curve, 1e-8) for name, curve in curves.items()})
            truth(ax, 0.0)
            ax.set(xlabel="location θ₁", ylabel="loss, from 0 to 1", title=f"Loss, θ₂ = {power:g}")
            ax.set(
                yscale="log" if power > 2 else "linear",
                ylim=(1e-8, 1) if power > 2 else (-0.02, 0.45),
            )
            legend(ax)
        ax = axes[0][3]
        for power, marker, colour in ((2.0, "o", BLUE), (5.0, "s", ORANGE)):
            for kind, style, first in (("DSM", "-", "SM"), ("DKSD", "--", "KSD")):
                names = [first, *(f"{kind}, α = {a:g}" for a in ALPHAS)]
                values = [errors[power, "corrupted", name].mean() for name in names]
                ax.semilogy(
                    (0, *ALPHAS),
                    values,
                    style,
                    marker=marker,
                    markersize=3,
                    color=colour,
                    label=f"{kind}, θ₂ = {power:g}",
                )
        ax.set(
            xlabel="α (0: no diffusion)",
            ylabel="mean absolute error",
            title="80 of 300 points at 8",
        )
        legend(ax)
    return Picture(
        "gamma",
        "Generalised gamma, n = 300, 80 observations at 8. Losses of one sample, and errors over many.",
    )
