"""The intractable model of Liu et al. (2018): five variables, one parameter on tanh(x₄)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import minstein as ms

from .claim import Claim, Findings, Picture, Table, Verdict, verdict
from .figures import bars, drawing
from .lab import Lab, estimate
from .measured import mean, ratio, rmse

D, N, THETA = 5, 200, -1.0
PRECISION = np.eye(D)
PRECISION[0, 1:] = PRECISION[1:, 0] = (-0.6, -0.2, -0.2, -0.2)
COVARIANCE = np.linalg.inv(PRECISION)
SWAPPED = np.eye(D)
SWAPPED[0, 1:] = SWAPPED[1:, 0] = (-0.2, -0.6, -0.6, -0.6)

statistic = lambda x: jnp.tanh(x[3])
base = lambda x: -0.5 * x @ x + 0.6 * x[0] * x[1] + 0.2 * x[0] * (x[2] + x[3] + x[4])
MODEL = ms.models.ExponentialFamily(statistic, 0.0, base)
TRUTH = ms.models.ExponentialFamily(statistic, THETA, base)


class Power(eqx.Module):
    """m(x) = (1 + |x|^a)^(−b), coordinate by coordinate; the identity where b = 0."""

    a: Any = eqx.field(converter=np.asarray)
    b: Any = eqx.field(converter=np.asarray)

    def __call__(self, x):
        return (1 + jnp.abs(x) ** self.a) ** -self.b


IMQ = ms.kernels.IMQ(1.0)
METHODS = {
    "SM": ms.DSM(Power(2.0, 0.0)),
    "KSD": ms.DKSD(IMQ, Power(2.0, 0.0)),
    "DKSD, m = 1/(1 + x), as printed": ms.DKSD(IMQ, lambda x: 1 / (1 + x)),
    "DKSD, m = 1/(1 + |x|)": ms.DKSD(IMQ, Power(1.0, 1.0)),
    "DKSD, m = 1/(1 + x²)": ms.DKSD(IMQ, Power(2.0, 1.0)),
    "DKSD, m = (1 + x²)^(−1/2)": ms.DKSD(IMQ, Power(2.0, 0.5)),
    "DSM, m = (1 + x²)^(1/2)": ms.DSM(Power(2.0, -0.5)),
}


def sample(key, n: int = N):
    """Exact draws: a Gaussian proposal, accepted with probability exp(θ tanh x₄ − |θ|)."""
    normal_key, uniform_key = jax.random.split(key)
    proposals = jax.random.normal(normal_key, (8 * n, D)) @ jnp.linalg.cholesky(jnp.asarray(COVARIANCE)).T
    accepted = jnp.log(jax.random.uniform(uniform_key, (8 * n,))) < THETA * jnp.tanh(proposals[:, 3]) - abs(THETA)
    return proposals[jnp.argsort(~accepted, stable=True)[:n]]


def _mean_tanh() -> tuple:
    """Nodes and weights for x₄ under the Gaussian part, which has mean 0: Z(θ) is a one-dimensional integral."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return np.tanh(np.sqrt(COVARIANCE[3, 3]) * nodes), weights


def likelihood(key):
    """Maximum likelihood: the mean of tanh(x₄) is what the model says it is."""
    t, w = _mean_tanh()
    expected = lambda theta: np.sum(w * t * np.exp(theta * t)) / np.sum(w * np.exp(theta * t))
    observed = np.tanh(np.asarray(sample(key))[:, 3]).mean()
    return np.array([brentq(lambda theta: expected(theta) - observed, -8, 8)])


def fitted(discrepancy, key):
    return estimate(MODEL, sample(key), discrepancy)


def asymptotic(discrepancies, key):
    """n·Var of each estimator in the limit, by the sandwich at the truth on a large sample."""
    x = sample(key, 2000)
    return jnp.stack([2000 * ms.sandwich(discrepancy, TRUTH, x)[0, 0] for discrepancy in discrepancies])


def run(lab: Lab) -> Findings:
    e = {"MLE": lab.replicate_in_python("MLE", likelihood, quick=300, full=2000)[:, 0]}
    for name, discrepancy in METHODS.items():
        e[name] = lab.replicate(name, fitted, discrepancy, quick=300, full=2000)[:, 0]
    rows = tuple(
        (
            name,
            len(v),
            str(mean(v)),
            str(rmse(v, THETA)),
            f"{np.median(np.abs(v - THETA)):.3f}",
            str(ratio(v, e["KSD"], THETA)),
        )
        for name, v in e.items()
    )
    compared = tuple(METHODS[name] for name in ("DKSD, m = (1 + x²)^(−1/2)", "SM", "KSD"))
    variances = lab.replicate("asymptotic variances", asymptotic, compared, quick=25, full=200)
    columns = ("method", "samples", "mean", "RMSE", "median absolute error", "RMSE over KSD's")
    return Findings(
        "Liu et al.'s own slides have x₁x₂ with weight 0.6 and Σᵢ≥₃ x₁xᵢ with 0.2, in five dimensions; the paper "
        "lost an entry of ψ. With the weights the other way round the smallest eigenvalue of the precision is "
        f"{np.linalg.eigvalsh(SWAPPED)[0]:.3f}, and the model is no density; as used here it is "
        f"{np.linalg.eigvalsh(PRECISION)[0]:.3f}. Samples are exact, by rejection. n = {N}, θ* = {THETA:g}, IMQ "
        "kernel, c = 1.",
        _claims(e, variances),
        (Table("liu", "θ on tanh(x₄), true value −1", columns, rows),),
        (_picture(lab, e),),
    )


def _claims(e: dict[str, np.ndarray], variances: np.ndarray) -> tuple[Claim, ...]:
    printed, smooth = e["DKSD, m = 1/(1 + x), as printed"], e["DKSD, m = (1 + x²)^(−1/2)"]
    with jax.enable_x64(True):
        below = float(np.mean(np.asarray(sample(jax.random.key(0), 20_000))[:, 3] < -1))
    gains = {name: ratio(smooth, e[name], THETA) for name in ("SM", "KSD")}
    limits = {name: mean(np.sqrt(variances[:, 0] / variances[:, j])) for j, name in ((1, "SM"), (2, "KSD"))}
    gained = all(limit.below(1) for limit in limits.values())
    absolute = ratio(e["DKSD, m = 1/(1 + |x|)"], e["KSD"], THETA)
    return (
        Claim(
            "liu: DKSD recovers θ",
            "DKSD with m = diag(1/(1+x)) recovers θ* = −1, whereas SM and KSD are less accurate.",
            f"as printed the median absolute error is {np.median(np.abs(printed - THETA)):.3g}, since m has a pole "
            f"at −1 and {100 * below:.1f} % of x₄ lie below it; with m = (1 + x²)^(−1/2) RMSE "
            f"{rmse(smooth, THETA)}, {gains['SM']} of SM's and {gains['KSD']} of KSD's; with 1/(1 + |x|) {absolute} "
            f"of KSD's; maximum likelihood {rmse(e['MLE'], THETA)}",
            verdict(
                bool(np.median(np.abs(printed - THETA)) < np.median(np.abs(e["KSD"] - THETA))),
                otherwise=gained,
            ),
        ),
        Claim(
            "liu: significant gain",
            "A judicious choice of diffusion can significantly improve efficiency.",
            f"with m = (1 + x²)^(−1/2) the RMSE is {gains['SM']} of SM's and {gains['KSD']} of KSD's; in the limit of "
            f"large n, by the sandwich, {limits['SM']} and {limits['KSD']}; maximum likelihood has "
            f"{ratio(e['MLE'], e['KSD'], THETA)} of KSD's",
            verdict(all(limit.below(0.9) for limit in limits.values()), otherwise=gained),
        ),
        Claim(
            "liu: the model",
            "ψ has 2 + d entries and η eight.",
            "d = 6 by the count of entries, d = 5 by the source, where ψ has x₁x₂ too",
            Verdict.UNDECIDABLE,
        ),
    )


def _picture(lab: Lab, e: dict[str, np.ndarray]) -> Picture:
    with drawing(lab.directory, "liu", 2, width=3.6) as axes:
        ax = axes[0][0]
        shown = {name: v for name, v in e.items() if "printed" not in name}
        ax.boxplot(
            list(shown.values()),
            orientation="horizontal",
            tick_labels=list(shown),
            showfliers=False,
            medianprops={"color": "k"},
        )
        ax.invert_yaxis()
        ax.axvline(THETA, color="0.6", linewidth=0.8, linestyle=":")
        ax.set(xlabel="θ̂ (dotted: the truth)", title="Estimates")
        errors = [rmse(v, THETA) for v in e.values()]
        bars(axes[0][1], list(e), [m.value for m in errors], [m.error for m in errors])
        axes[0][1].set(xlabel="RMSE", title="Errors")
    return Picture("liu", "The model of Liu et al., n = 200.")
