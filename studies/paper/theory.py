"""What the theorems say, checked on a Gaussian location, where everything is known in closed form."""

import time

import jax
import jax.numpy as jnp
import numpy as np

import minstein as ms

from .claim import Claim, Findings, Picture, Table, verdict
from .figures import BLUE, ORANGE, drawing, legend, lines, ticks
from .lab import Lab, estimate
from .measured import Measured, mean, rmse, share

SIZES, COVERED = (100, 400, 1600), 200
NORMAL = ms.models.Gaussian(0.0, 1.0)
LOCATION = ms.models.Gaussian(0.3, ms.fixed(1.0))
KSD, DSM = ms.KSD(ms.kernels.Gaussian(1.0)), ms.DSM(lambda x: (1 + x @ x) ** -0.5)
EXACT = 3**3 / 8**1.5
"""n·Var of KSD, by algebra: ((u+2)²/((u+1)(u+3)))^(3/2) with u = ℓ²/σ² = 1."""


def run(lab: Lab) -> Findings:
    rates, coverage = _rates(lab), _coverage(lab)
    influence, limit = _influence(lab), _limit()
    convexity, cost = _convexity(lab), _cost(lab)
    return Findings(
        "Gaussian location N(θ, 1) by KSD (Gaussian kernel, ℓ = 1) and by DSM with m² = 1/(1 + x²), unless said "
        "otherwise.",
        (*rates[0], *coverage, *influence[0], *limit[0], *convexity, *cost[0]),
        (rates[1], cost[1]),
        (_picture(lab, rates[2], influence[1], limit[1], cost[2]),),
    )


def _rates(lab: Lab) -> tuple:
    errors = {}
    for name, discrepancy in {"KSD": KSD, "DSM": DSM}.items():
        for n in SIZES:
            one = lambda given, key, n=n: estimate(LOCATION, NORMAL.sample(key, n), given)
            errors[name, n] = lab.replicate(f"rate {name} {n}", one, discrepancy, quick=100, full=1000)[:, 0]
    slopes = {name: _slope([errors[name, n] for n in SIZES]) for name in ("KSD", "DSM")}
    last = errors["KSD", SIZES[-1]]
    variance = mean(SIZES[-1] * last**2)
    claims = (
        Claim(
            "theory: rate",
            "Estimators are consistent at the rate n^(−1/2).",
            "slope of log RMSE on log n: " + ", ".join(f"{name} {slope}" for name, slope in slopes.items()),
            verdict(all(slope.agrees(-0.5) for slope in slopes.values())),
        ),
        Claim(
            "theory: variance of DKSD",
            "√n(θ̂ − θ*) has the covariance g⁻¹Σg⁻¹ (DKSD).",
            f"n·Var {variance} at n = {SIZES[-1]}; by algebra {EXACT:.4f}",
            verdict(variance.agrees(EXACT)),
        ),
    )
    rows = tuple((name, n, len(v), str(mean(v)), str(rmse(v, 0.0))) for (name, n), v in errors.items())
    table = Table("theory-rate", "Error against n", ("method", "n", "samples", "mean", "RMSE"), rows)
    return (
        claims,
        table,
        {name: [rmse(errors[name, n], 0.0).value for n in SIZES] for name in slopes},
    )


def _slope(samples: list[np.ndarray]) -> Measured:
    """The slope of log RMSE on log n by least squares, with the error that the RMSEs carry into it."""
    x = np.log(SIZES) - np.mean(np.log(SIZES))
    points = [rmse(v, 0.0) for v in samples]
    weights = x / (x @ x)
    relative = np.array([p.error / p.value for p in points])
    return Measured(float(weights @ np.log([p.value for p in points])), float(np.sqrt(weights**2 @ relative**2)))


def _coverage(lab: Lab) -> tuple[Claim, ...]:
    def one(discrepancy, key):
        fit = ms.fit(LOCATION, NORMAL.sample(key, COVERED), discrepancy, throw=False)
        return jnp.concatenate([fit.theta, jnp.sqrt(jnp.diagonal(fit.cov_params()))])

    inside = {}
    for name, discrepancy in {"KSD": KSD, "DSM": DSM}.items():
        theta, error = lab.replicate(f"coverage {name}", one, discrepancy, quick=500, full=5000).T
        inside[name] = share(np.abs(theta) < 1.96 * error)
        inside[f"{name} printed"] = share(np.abs(theta) < 2 * 1.96 * error)
    return (
        Claim(
            "theory: coverage of DKSD",
            "Its covariance gives intervals.",
            f"95 % intervals cover {inside['KSD']} at n = {COVERED}",
            verdict(inside["KSD"].agrees(0.95, 4)),
        ),
        Claim(
            "theory: coverage of DSM",
            "DSM has the covariance g⁻¹Σg⁻¹.",
            f"95 % intervals cover {inside['DSM printed']} as printed, {inside['DSM']} with a quarter of it",
            verdict(inside["DSM printed"].agrees(0.95, 4), otherwise=False),
        ),
    )


def _influence(lab: Lab) -> tuple:
    """−H⁻¹∂k⁰ against a fit with one observation more, times n; and against algebra."""
    x = NORMAL.sample(lab.key(), 1000)[:, 0]
    z = np.linspace(-6, 6, 13)
    found, moved = {}, {}
    for name, discrepancy in {"KSD": KSD, "SM": ms.SM()}.items():
        fit = ms.fit(LOCATION, x, discrepancy)
        found[name] = ms.influence(fit, x, z)[:, 0]
        again = [ms.fit(LOCATION, np.append(x, point), discrepancy, covariance=False).theta[0] for point in z]
        moved[name] = len(x) * (np.array(again) - fit.theta[0])
    exact = 1.5**1.5 * z * np.exp(-(z**2) / 4)
    gap = max(np.max(np.abs(found[name] - moved[name])) / np.max(np.abs(moved[name])) for name in found)
    at = int(np.argmin(np.abs(z - 2)))
    claims = (
        Claim(
            "theory: influence function",
            "The influence functions are +g⁻¹∫∇k⁰ and +g⁻¹s.",
            f"at z = 2, an added observation moves KSD by {moved['KSD'][at]:.3f}/n and SM by "
            f"{moved['SM'][at]:.3f}/n; with the minus sign the formulas give {found['KSD'][at]:.3f} and "
            f"{found['SM'][at]:.3f}, as printed the opposite",
            verdict(False, otherwise=gap < 0.05),
        ),
        Claim(
            "theory: KSD is bias-robust, SM is not",
            "In Gaussian location the influence function of KSD is bounded, that of SM is not.",
            f"at z = 6: KSD {found['KSD'][-1]:.4f} (by algebra in the population {exact[-1]:.4f}), SM "
            f"{found['SM'][-1]:.2f}",
            verdict(abs(found["KSD"][-1]) < 0.1 and abs(found["SM"][-1]) > 5),
        ),
    )
    return claims, (z, found, moved)


def _limit() -> tuple:
    """DKSD with the kernel Φ_γ(x−y)/√(q(x)q(y)) by quadrature: q = N(0, 1), p = N(½, 1.2²), m = 1/(1 + x²)."""
    grid = np.linspace(-9, 9, 1801)
    step = grid[1] - grid[0]
    q = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    with jax.enable_x64(True):
        scores = [
            np.asarray(jax.vmap(lambda x, model=model: ms.operator.score(model, x))(jnp.asarray(grid[:, None])))[:, 0]
            for model in (ms.models.Gaussian(0.5, 1.2), NORMAL)
        ]
    delta = (scores[0] - scores[1]) / (1 + grid**2)
    dsm = np.sum(delta**2 * q) * step
    gammas = np.array([0.4, 0.2, 0.1, 0.05])
    v, apart = delta * np.sqrt(q), grid[:, None] - grid
    phi = [np.exp(-(apart**2) / (2 * g**2)) / (g * np.sqrt(2 * np.pi)) for g in gammas]
    gaps = np.array([1 - (v @ p @ v) * step**2 / dsm for p in phi])
    ratios = gaps[:-1] / gaps[1:]
    claim = Claim(
        "theory: DSM is a limit of DKSD",
        "With the kernel Φ_γ(x−y)/√(q(x)q(y)), DKSD tends to DSM as γ → 0.",
        "relative gap at γ = 0.4, 0.2, 0.1, 0.05: " + ", ".join(f"{gap:.5f}" for gap in gaps) + f"; DSM = {dsm:.6f}",
        verdict(bool(gaps[-1] < 0.002 and np.all(ratios > 3))),
    )
    return (claim,), (gammas, gaps)


def _convexity(lab: Lab) -> tuple[Claim, ...]:
    """E11: the share of samples whose quadratic form is not positive semi-definite."""
    p, n = 5, 50
    scales = 1 / np.sqrt(np.cumprod(np.arange(1.0, p + 1)))
    powers = lambda x: scales * jnp.stack([x[0] ** k for k in range(1, p + 1)]) * jnp.exp(-(x[0] ** 2) / 4)
    family = ms.models.ExponentialFamily(powers, np.zeros(p), lambda x: -(x[0] ** 2) / 2)
    samples = [NORMAL.sample(lab.key(i), n) for i in range(lab.effort(20, 200))]

    def saddles(unbiased: bool) -> Measured:
        ksd = ms.KSD(ms.kernels.Gaussian(1.0), unbiased=unbiased)
        return share(np.array([np.linalg.eigvalsh(ms.quadratic(ksd, family, x).A)[0] < -1e-12 for x in samples]))

    u, v = saddles(True), saddles(False)
    return (
        Claim(
            "theory: convex U-statistics",
            "For exponential families the U-statistic of DKSD is a convex quadratic.",
            f"{p} parameters, n = {n}: a negative eigenvalue in {u} of the samples; for the V-statistic in {v}",
            verdict(u.value == 0, otherwise=False),
        ),
    )


def _cost(lab: Lab) -> tuple:
    """Seconds of one evaluation, the least of several, and the exponents of n and d."""
    rng = np.random.default_rng(lab.seed)
    decay = lambda x: 1 / (1 + x**2)
    losses = {"DKSD, diagonal m": ms.DKSD(ms.kernels.IMQ(1.0), decay), "DSM": ms.DSM(decay)}
    sizes, dimensions = lab.effort((1000, 4000, 8000), (1000, 2000, 4000, 8000, 16000)), (4, 16, 64)
    seconds = {}
    for name, loss in losses.items():
        for n, d in [*((n, 4) for n in sizes), *((2000, d) for d in dimensions)]:
            model, x = ms.models.Gaussian(np.zeros(d), 1.0), rng.standard_normal((n, d))
            seconds[name, n, d] = _least(lambda loss=loss, model=model, x=x: loss(model, x), lab.effort(3, 7))
    exponent = lambda over, spent: float(np.polyfit(np.log(over), np.log(spent), 1)[0])
    in_n = {name: exponent(sizes, [seconds[name, n, 4] for n in sizes]) for name in losses}
    in_d = {name: exponent(dimensions, [seconds[name, 2000, d] for d in dimensions]) for name in losses}
    claim = Claim(
        "theory: complexity",
        "DKSD costs O(n²d) with diagonal m and K = kI; DSM O(nd²).",
        "; ".join(f"{name} n^{in_n[name]:.2f}, d^{in_d[name]:.2f}" for name in losses),
        verdict(
            in_n["DKSD, diagonal m"] < 2.4
            and in_n["DSM"] < 1.5
            and in_d["DKSD, diagonal m"] < 1.5
            and in_d["DSM"] < 2.4
        ),
    )
    rows = tuple((name, n, d, f"{t:.2e}") for (name, n, d), t in seconds.items())
    table = Table("theory-cost", "Seconds of one evaluation", ("method", "n", "d", "seconds"), rows)
    return (claim,), table, (sizes, {name: [seconds[name, n, 4] for n in sizes] for name in losses})


def _least(run, times: int) -> float:
    run()
    spent = []
    for _ in range(times):
        began = time.process_time()
        run()
        spent.append(time.process_time() - began)
    return max(min(spent), 1e-6)


def _picture(lab: Lab, rates, influence, limit, cost) -> Picture:
    with drawing(lab.directory, "theory", 4, width=2.4) as axes:
        a, b, c, d = axes[0]
        lines(a, np.array(SIZES), {name: np.array(v) for name, v in rates.items()})
        a.plot(SIZES, np.sqrt(EXACT / np.array(SIZES)), color="0.6", linewidth=0.8, label="theory, KSD")
        a.set(xscale="log", yscale="log", xlabel="n", ylabel="RMSE", title="Consistency")
        ticks(a, np.array(SIZES))
        legend(a)
        z, found, moved = influence
        for name, colour in (("KSD", BLUE), ("SM", ORANGE)):
            b.plot(z, found[name], color=colour, label=f"{name}, formula")
            b.plot(z, moved[name], "o", color=colour, markersize=3, label=f"{name}, refitted")
        b.set(xlabel="position z", ylabel="influence", title="Influence functions")
        legend(b)
        gammas, gaps = limit
        c.loglog(gammas, gaps, "o-", color=BLUE, markersize=3, label="1 − DKSD/DSM")
        c.loglog(gammas, gaps[0] * (gammas / gammas[0]) ** 2, color="0.6", linewidth=0.8, label="γ²")
        c.set(xlabel="γ", ylabel="relative gap", title="DSM as a limit of DKSD")
        ticks(c, gammas)
        legend(c)
        sizes, seconds = cost
        lines(d, np.array(sizes), {name: np.array(v) for name, v in seconds.items()})
        n = np.array(sizes, float)
        for v, power in zip(seconds.values(), (2, 1), strict=True):
            d.plot(n, v[-1] * (n / n[-1]) ** power, color="0.6", linewidth=0.8)
        d.set(xscale="log", yscale="log", xlabel="n", ylabel="seconds", title="Cost (grey: n², n)")
        ticks(d, n)
        legend(d)
    return Picture(
        "theory",
        "Consistency, influence functions, the limit of DKSD, and the cost of one evaluation.",
    )
