"""Products of Student-t experts (Welling, Hinton and Osindero, 2003), to which the paper's conclusion looks forward."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import minstein as ms

from .claim import Claim, Findings, Picture, Table, verdict
from .figures import BLUE, ORANGE, bars, drawing, ticks
from .lab import Lab
from .measured import Measured, mean, share
from .patches import CONTRAST, KEPT, NOISE, SIDE, Patches, patches, saturated, spread
from .pot import Tails, amari, likeliest, log_likelihood, model, parts, sample

N, ALPHA = 500, 1.5
W = np.array([[1.0, 0.5, 0.0], [-0.5, 1.0, 0.5], [0.0, -0.5, 1.0]])
IMQ = ms.kernels.IMQ(1.0)
SM, DSM, ROBUST = ms.DSM(Tails()), ms.DSM(Tails(b=0.5)), ms.DSM(Tails(c=-1.0))
KSD, DKSD = ms.DKSD(IMQ, Tails(), unbiased=False), ms.DKSD(IMQ, Tails(b=0.5), unbiased=False)
GROWS, DECAYS = "DSM, m grows", "DSM, m decays"
SIMULATED = ("MLE", "SM", GROWS, "KSD", "DKSD, m grows")

ROWS = 10_000
KINDS = {"clean": 0.0, "saturated": 0.05}
DESCENT = ms.SGD(optimiser=optax.adam(optax.cosine_decay_schedule(3e-2, 1500)), steps=1500, batch=50)
SEEN = ("MLE", "SM", GROWS, DECAYS)


@eqx.filter_jit
def fitted(x, filters, alpha, discrepancy, solver, key):
    """θ̂ from a start at these filters and α, and the status of the search after it, 0 where it converged."""
    fit = ms.fit(model(filters, alpha), x, discrepancy, solver=solver, key=key, covariance=False, throw=False)
    return jnp.append(fit.theta, fit.status)


_rng = lambda key: np.random.default_rng(np.asarray(jax.random.key_data(key)))


def seen_by(pilot, theta):
    """θ of x, from that of the outputs W₀x of the experts of a pilot fit."""
    theta, pilot = np.array(theta), parts(np.asarray(pilot)[:-1])["W"]
    theta[: pilot.size] = np.ravel(parts(theta[:-1])["W"] @ pilot)
    return theta


def simulated(key):
    """θ̂ by each method on the same draws, from a start at the truth."""
    x = sample(_rng(key), N, W, ALPHA)
    ksd = fitted(x, W, ALPHA, KSD, ms.GaussNewton(), None)
    sm = fitted(x, W, ALPHA, SM, ms.LBFGS(), None)
    pilot = parts(np.asarray(ksd)[:-1])["W"]
    outputs, start = x @ pilot.T, W @ np.linalg.inv(pilot)
    dsm = fitted(outputs, start, ALPHA, DSM, ms.LBFGS(), None)
    dksd = fitted(outputs, start, ALPHA, DKSD, ms.GaussNewton(), None)
    return np.stack([likeliest(x, W, ALPHA), sm, seen_by(ksd, dsm), ksd, seen_by(ksd, dksd)])


def photographed(data: Patches, bad: int, key):
    """θ̂ by each method on the same patches, from the same random rotation."""
    rng = _rng(key)
    x = data.fitted[rng.choice(len(data.fitted), ROWS, replace=False)]
    start = 2 * np.linalg.qr(rng.standard_normal((KEPT, KEPT)))[0].astype(x.dtype)
    x[:bad] = saturated(rng, bad, data.whitening)
    by = lambda discrepancy, x=x, filters=start: fitted(x, filters, 1.0, discrepancy, DESCENT, key)
    sm, robust = by(SM), by(ROBUST)
    outputs = x @ parts(np.asarray(sm)[:-1])["W"].T
    return np.stack(
        [
            likeliest(x, start, 1.0),
            sm,
            seen_by(sm, by(DSM, outputs, np.eye(KEPT, dtype=x.dtype))),
            robust,
        ]
    )


def run(lab: Lab) -> Findings:
    data = patches()
    found = lab.replicate_in_python("simulated", simulated, quick=25, full=500)
    theta = dict(zip(SIMULATED, np.moveaxis(found.reshape(len(found), len(SIMULATED), -1), 1, 0), strict=True))
    seen = {}
    for kind, bad in KINDS.items():
        one = lambda key, bad=bad: photographed(data, round(bad * ROWS), key)
        found = lab.replicate_in_python(f"patches, {kind}", one, quick=3, full=20)
        found = np.moveaxis(found.reshape(len(found), len(SEEN), -1)[..., :-1], 1, 0)
        seen |= {(name, kind): v for name, v in zip(SEEN, found, strict=True)}
    return _findings(lab, data, theta, seen)


def _findings(lab: Lab, data: Patches, theta: dict, seen: dict) -> Findings:
    errors = {name: _errors(parts(v[:, :-1])) for name, v in theta.items()}
    nats = {key: np.array([log_likelihood(v, data.held_out) for v in vs]) for key, vs in seen.items()}
    shapes = {key: np.array([spread(w, data.whitening) for w in parts(vs)["W"]]) for key, vs in seen.items()}
    chance = spread(_rng(lab.key()).standard_normal((10_000, KEPT)), data.whitening)
    banks = {name: zip(*(parts(seen[name, kind])["W"] for kind in KINDS), strict=True) for name in SEEN}
    moved = {name: np.array([amari(dirty, clean) for clean, dirty in pairs]) for name, pairs in banks.items()}
    return Findings(
        _text(data),
        (*_claims_of_simulation(errors), *_claims_of_patches(shapes, chance, nats, moved)),
        (_table_of_simulation(errors, theta), _table_of_patches(seen, shapes, chance, nats, moved)),
        (_filters(lab, data, seen), _comparison(lab, errors, nats)),
    )


def _errors(theta: dict) -> dict[str, np.ndarray]:
    """Amari's index for the filters; the mean of |log α̂ − log α| over experts for the tails."""
    filters = np.array([amari(w, W) for w in theta["W"]])
    return {"filters": filters, "α": np.abs(np.log((0.5 + theta["excess"]) / ALPHA)).mean(axis=1)}


def times(errors: np.ndarray, others: np.ndarray) -> Measured:
    """How many times others of the same samples errors are: the ratio of their geometric means."""
    logarithm = mean(np.log(errors) - np.log(others))
    value = float(np.exp(logarithm.value))
    return Measured(value, value * logarithm.error)


def _text(data: Patches) -> str:
    return (
        "The paper has no such experiment: all claims but the first are ours. "
        "log p = −Σ α_k log(1 + (w_k·x)²/2) + const with α_k > ½, and as many experts as coordinates, so that the "
        "normaliser is known, and maximum likelihood is a yardstick; the other methods do without it. “m grows”: "
        "diag(1 + u_k²/2)^(1/2) in the outputs u = W₀x of the experts of a pilot fit, by KSD in the simulation and by "
        "SM on patches; a growing m that mixes experts makes the loss infinite where their tails are so heavy. “m "
        "decays”: 1/(1 + ‖x‖²/d). "
        f"Simulation: 3 experts, α = {ALPHA:g} (two degrees of freedom), n = {N}; W and α are estimated from a start "
        "at the truth; KSD is a V-statistic with an IMQ kernel, c = 1. The error of filters is Amari's index, which "
        "disregards order, sign and scale, that of α mean |log α̂/α|; ratios are of geometric means. "
        f"Patches: {SIDE} × {SIDE} pixels, grey, of china.jpg and flower.jpg, which ship with scikit-learn; those "
        f"whose standard deviation is below {CONTRAST:g} of white are left out; noise of {NOISE:g} is added, without "
        "which whole numbers and blocks of JPEG leave spikes in the density that score matching fits alone; the mean "
        f"of each is subtracted, its contrast kept; {KEPT} principal components, whitened. {ROWS} of "
        f"{len(data.fitted)} are fitted; {len(data.held_out)} from other strips of the photographs are held out. "
        "Saturated: 5 % of the fitted patches have pixels that are black or white by chance. Searches by (D)SM are "
        f"{DESCENT.steps} steps of Adam from a random rotation, or from the pilot fit, in minibatches of "
        f"{DESCENT.batch}. Monte-Carlo errors are over random choices of patches and starts."
    )


def _claims_of_simulation(errors: dict) -> tuple[Claim, ...]:
    over = lambda name, other: {part: times(errors[name][part], errors[other][part]) for part in ("filters", "α")}
    cost, gains = (
        over("SM", "MLE"),
        {"DSM over SM": over(GROWS, "SM"), "DKSD over KSD": over("DKSD, m grows", "KSD")},
    )
    better = [all(ratio.below(1) for ratio in ratios.values()) for ratios in gains.values()]
    said = lambda ratios: ", ".join(f"{part} {ratio}" for part, ratio in ratios.items())
    return (
        Claim(
            "experts: heavy tails",
            "The heavy tails of products of Student-t experts render estimation challenging for SM.",
            f"error of SM over that of maximum likelihood: {said(cost)}",
            verdict(
                all(c.above(1.1) for c in cost.values()),
                otherwise=any(c.above(1.1) for c in cost.values()),
            ),
        ),
        Claim(
            "experts: a diffusion that grows",
            "Progress is foreseen with diffusions: DSM improves on SM, and DKSD on KSD, in filters and in α.",
            "; ".join(f"{name}: {said(ratios)}" for name, ratios in gains.items()),
            verdict(all(better), otherwise=any(better)),
        ),
    )


def _claims_of_patches(shapes: dict, chance: np.ndarray, nats: dict, moved: dict) -> tuple[Claim, ...]:
    spread_of = lambda name, i: mean(shapes[name, "clean"][:, i])
    concentrated = {(name, i): spread_of(name, i).below(chance[i]) for name in ("SM", GROWS) for i in (0, 1)}
    shares = lambda name: f"{name} {spread_of(name, 0)} and {spread_of(name, 1)}"
    gain = mean(nats[GROWS, "clean"] - nats["SM", "clean"])
    short = {name: mean(nats["MLE", "clean"] - nats[name, "clean"]) for name in ("SM", GROWS)}
    lost = {name: nats[name, "clean"] - nats[name, "saturated"] for name in SEEN}
    said = lambda values: ", ".join(f"{name} {mean(value)}" for name, value in values.items())
    return (
        Claim(
            "experts: filters",
            "On patches of images, SM and DSM learn filters that are localised and oriented, as Welling et al. did.",
            f"energy spread over these shares of pixels and of frequencies: {shares('SM')}; {shares(GROWS)}; random "
            f"filters {chance[0]:.3f} and {chance[1]:.3f}",
            verdict(
                all(concentrated.values()),
                otherwise=any(concentrated["SM", i] and concentrated[GROWS, i] for i in (0, 1)),
            ),
        ),
        Claim(
            "experts: held-out patches",
            "DSM with a diffusion that grows predicts patches better than SM.",
            f"held-out log-likelihood above SM's by {gain} nats a patch; that of maximum likelihood is above SM's by "
            f"{short['SM']}, above DSM's by {short[GROWS]}",
            verdict(gain.above(0)),
        ),
        Claim(
            "experts: saturated patches",
            "SM is not robust to outliers, also in products of experts; DSM with a diffusion that decays is.",
            f"nats a patch lost by 5 % of them: {said(lost)}; filters moved (Amari's index): {said(moved)}",
            verdict(
                mean(lost["SM"]).above(0) and mean(lost[DECAYS] - lost["SM"] / 2).below(0),
                otherwise=mean(lost[DECAYS] - lost["SM"]).below(0),
                contrary=mean(lost["SM"]).below(0) or mean(lost[DECAYS] - lost["SM"]).above(0),
            ),
        ),
    )


def _table_of_simulation(errors: dict, theta: dict) -> Table:
    rows = tuple(
        (
            name,
            len(theta[name]),
            str(share(theta[name][:, -1] == 0)),
            str(mean(e["filters"])),
            f"{np.median(0.5 + parts(theta[name][:, :-1])['excess']):.3f}",
            str(mean(e["α"])),
            *(str(times(e[part], errors["MLE"][part])) for part in e),
        )
        for name, e in errors.items()
    )
    columns = (
        "method",
        "samples",
        "converged",
        "error of filters",
        "median α̂",
        "error of α",
        "filters over MLE",
        "α over MLE",
    )
    return Table("experts", f"Three experts, α = {ALPHA:g}", columns, rows)


def _table_of_patches(seen: dict, shapes: dict, chance: np.ndarray, nats: dict, moved: dict) -> Table:
    rows = tuple(
        (
            name,
            kind,
            len(vs),
            str(mean(nats[name, kind])),
            f"{np.median(0.5 + parts(vs)['excess']):.3f}",
            *(str(mean(shapes[name, kind][:, i])) for i in (0, 1)),
            str(mean(moved[name])) if kind == "saturated" else "–",
        )
        for (name, kind), vs in seen.items()
    )
    random = ("random rotations", "–", "–", "–", "–", *(f"{share:.4f}" for share in chance), "–")
    columns = (
        "method",
        "patches",
        "fits",
        "held-out nats",
        "median α̂",
        "pixels",
        "frequencies",
        "filters moved",
    )
    return Table("experts-patches", f"{KEPT} experts on patches", columns, (*rows, random))


def _filters(lab: Lab, data: Patches, seen: dict) -> Picture:
    names = SEEN
    with drawing(lab.directory, "experts-filters", len(names), len(KINDS), width=2.1, height=1.8) as axes:
        for row, kind in zip(axes, KINDS, strict=True):
            for ax, name in zip(row, names, strict=True):
                theta = parts(seen[name, kind][0])
                ax.imshow(
                    _tiles(theta["W"][np.argsort(theta["excess"])] @ data.whitening),
                    cmap="gray",
                    vmin=-1,
                    vmax=1,
                )
                ax.set(xticks=[], yticks=[], title=f"{name}\n{kind}")
                ax.spines[:].set_visible(False)
    return Picture(
        "experts-filters",
        f"The {KEPT} filters of one fit each on pixels, those of the smallest α first, each scaled to its largest "
        "weight (grey is zero).",
    )


def _tiles(filters: np.ndarray, columns: int = 4) -> np.ndarray:
    """Filters side by side, with a white line between."""
    scaled = filters / np.abs(filters).max(axis=1, keepdims=True)
    framed = np.pad(scaled.reshape(-1, SIDE, SIDE), ((0, 0), (0, 1), (0, 1)), constant_values=1.25)
    return framed.reshape(-1, columns, SIDE + 1, SIDE + 1).swapaxes(1, 2).reshape(-1, columns * (SIDE + 1))


def _comparison(lab: Lab, errors: dict, nats: dict) -> Picture:
    with drawing(lab.directory, "experts", 3, width=3.2, height=2.4) as axes:
        panels = (("filters", "Filters", [0.02, 0.04, 0.08]), ("α", "Tails", [0.05, 0.1, 0.2, 0.4]))
        for ax, (part, title, marks) in zip(axes[0], panels, strict=False):
            measured = [mean(e[part]) for e in errors.values()]
            bars(
                ax,
                list(errors),
                [m.value for m in measured],
                [m.error for m in measured],
                measured[0].value,
            )
            ticks(ax, np.array(marks))
            ax.set(xlabel=f"error of {part}", title=f"{title}, simulated (dashed: MLE)")
        ax, names = axes[0][2], SEEN
        for kind, colour, marker, up in (
            ("clean", BLUE, "o", 0.1),
            ("saturated", ORANGE, "s", -0.1),
        ):
            measured = [mean(nats[name, kind]) for name in names]
            ax.errorbar(
                [m.value for m in measured],
                np.arange(len(names))[::-1] + up,
                xerr=[2 * m.error for m in measured],
                fmt=marker,
                color=colour,
                markersize=3.5,
                elinewidth=1,
                label=kind,
            )
        ax.set_yticks(np.arange(len(names))[::-1], names)
        ax.set(xlabel="nats a patch", title="Held-out log-likelihood of patches")
        ax.legend()
    return Picture(
        "experts",
        "Errors on simulated data, n = 500, and log-likelihood of held-out patches (± 2 errors).",
    )
