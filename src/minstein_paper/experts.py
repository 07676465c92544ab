"""A product of Student-t experts (Welling, Hinton and Osindero, 2003), which the paper's conclusion looks forward to."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import minstein as ms

from .claim import Claim, Findings, Picture, Table, verdict
from .figures import BLUE, ORANGE, bars, drawing
from .lab import Lab, estimate
from .measured import Measured, mean
from .patches import CONTRAST, KEPT, SIDE, Patches, patches, saturated, spread
from .pot import Matched, Radial, amari, likeliest, log_likelihood, model, parts, sample

N, ALPHA = 500, 1.5
W = np.array([[1.0, 0.5, 0.0], [-0.5, 1.0, 0.5], [0.0, -0.5, 1.0]])
IMQ = ms.kernels.IMQ(1.0)

ROWS = 20_000
KINDS = {"clean": 0.0, "saturated": 0.05}
DESCENT = ms.SGD(optimiser=optax.adam(optax.cosine_decay_schedule(3e-2, 3000)), steps=3000, batch=50)

GROWING = "m = (1 + r²)^(1/2)"
DSM = {
    "SM": ms.DSM(Radial(0.0)),
    f"DSM, {GROWING}": ms.DSM(Radial(0.5)),
    "DSM, m = 1/(1 + r²)": ms.DSM(Radial(-1.0)),
}
SM, TAILS, ROBUST = DSM
MATCHED = "DSM, m by expert"
DKSD = {
    "KSD": ms.DKSD(IMQ, Radial(0.0), unbiased=False),
    f"DKSD, {GROWING}": ms.DKSD(IMQ, Radial(0.5), unbiased=False),
}


def simulated(lab: Lab) -> dict[str, np.ndarray]:
    """θ̂ by each method on the same draws from the model; every search begins at the truth."""
    start, many = model(W, ALPHA), {"quick": 100, "full": 1000}
    draws = lambda key: sample(key, N, W, ALPHA)
    fitted = lambda discrepancy, key: estimate(start, draws(key), discrepancy)

    def matched(sm, key):
        pilot = parts(fitted(sm, key))
        return fitted(ms.DSM(Matched(pilot["W"])), key)

    found = {"MLE": lab.replicate("MLE", lambda _, key: likeliest(draws(key), W, ALPHA), None, **many)}
    found |= {name: lab.replicate(name, fitted, discrepancy, **many) for name, discrepancy in DSM.items()}
    found[MATCHED] = lab.replicate(MATCHED, matched, DSM[SM], **many)
    return found | {name: lab.replicate(name, fitted, discrepancy, **many) for name, discrepancy in DKSD.items()}


def photographed(lab: Lab, data: Patches) -> dict[tuple[str, str], np.ndarray]:
    """θ̂ by each method on the same patches, from the same random rotation; clean, and with saturated ones among them."""

    def drawn(given, key):
        fitted, whitening, share = given
        rows, pixels, turn = jax.random.split(key, 3)
        x = fitted[jax.random.choice(rows, fitted.shape[0], (ROWS,), replace=False)]
        x = jnp.where(jnp.arange(ROWS)[:, None] < share * ROWS, saturated(pixels, ROWS, whitening), x)
        return x, 2 * jax.random.orthogonal(turn, KEPT)

    def points(given, key):
        discrepancy, *rest = given
        x, start = drawn(rest, key)
        return estimate(model(start, 1.0), x, discrepancy, solver=DESCENT, key=key)

    likelihood = lambda given, key: likeliest(*drawn(given, key), 1.0)
    found, few = {}, {"quick": 3, "full": 20}
    for kind, share in KINDS.items():
        given = (data.fitted, data.whitening, np.array(share))
        found["MLE", kind] = lab.replicate(f"patches {kind} MLE", likelihood, given, **few)
        for name, discrepancy in DSM.items():
            found[name, kind] = lab.replicate(f"patches {kind} {name}", points, (discrepancy, *given), **few)
    return found


def run(lab: Lab) -> Findings:
    data = patches()
    theta, seen = simulated(lab), photographed(lab, data)
    errors = {name: _errors(parts(v)) for name, v in theta.items()}
    nats = {key: np.array([log_likelihood(v, data.held_out) for v in vs]) for key, vs in seen.items()}
    shapes = {key: np.array([spread(w, data.whitening) for w in parts(vs)["W"]]) for key, vs in seen.items()}
    chance = spread(np.asarray(jax.random.normal(lab.key(), (10_000, KEPT)), float), data.whitening)
    banks = {name: zip(*(parts(seen[name, kind])["W"] for kind in KINDS), strict=True) for name in ("MLE", *DSM)}
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
        "log p = −Σ α_k log(1 + (w_k·x)²/2) + const with α_k > ½, and as many experts as coordinates, so that the "
        "normaliser is known and maximum likelihood is a yardstick that the other methods do without. "
        f"r² = ‖x‖²/d. Simulation: 3 experts, α = {ALPHA:g} (two degrees of freedom), n = {N}, W and α estimated from "
        "a start at the truth, KSD as a V-statistic with an IMQ kernel, c = 1; “m by expert” is W⁻¹ diag(1 + "
        "(w_k·x)²/2)^(1/2) with W by SM. Errors of filters are Amari's index, which disregards order, sign and scale; "
        "those of α are mean |log α̂/α|; compared are geometric means. "
        f"Patches: {SIDE} × {SIDE} pixels, grey, of the photographs china.jpg and flower.jpg that ship with "
        f"scikit-learn; those with a standard deviation below {CONTRAST:g} of white are left out, the mean of each is "
        f"subtracted, contrast is kept; the first {KEPT} principal components, whitened. {ROWS} patches of "
        f"{len(data.fitted)} are fitted and {len(data.held_out)} held out, from other strips of the photographs. "
        f"Saturated: {100 * KINDS['saturated']:g} % of the fitted patches have pixels black or white by chance. The "
        f"searches by (D)SM are {DESCENT.steps} steps of Adam in minibatches of {DESCENT.batch}. Monte-Carlo errors "
        "are over random choices of patches and starts."
    )


def _claims_of_simulation(errors: dict) -> tuple[Claim, ...]:
    of = ("filters", "α")
    cost = {part: times(errors[SM][part], errors["MLE"][part]) for part in of}
    gains = {
        (name, over): {part: times(errors[name][part], errors[over][part]) for part in of}
        for name, over in ((TAILS, SM), (MATCHED, SM), (f"DKSD, {GROWING}", "KSD"))
    }
    better = {pair: all(gain.below(1) for gain in gain_of.values()) for pair, gain_of in gains.items()}
    said = lambda ratios: ", ".join(f"{part} {ratio}" for part, ratio in ratios.items())
    return (
        Claim(
            "experts: heavy tails",
            "The heavy tails of products of Student-t experts render estimation challenging for SM.",
            f"error of SM over that of maximum likelihood: {said(cost)}",
            verdict(all(c.above(1.1) for c in cost.values()), otherwise=any(c.above(1.1) for c in cost.values())),
        ),
        Claim(
            "experts: a diffusion that grows",
            "Progress is foreseen for them with diffusions: DSM improves on SM, and DKSD on KSD, in filters and in α.",
            "; ".join(f"{name} over {over}: {said(ratios)}" for (name, over), ratios in gains.items()),
            verdict(
                better[TAILS, SM] and better[f"DKSD, {GROWING}", "KSD"],
                otherwise=any(better.values()),
            ),
        ),
    )


def _claims_of_patches(shapes: dict, chance: np.ndarray, nats: dict, moved: dict) -> tuple[Claim, ...]:
    concentrated = {
        (name, i): mean(shapes[name, "clean"][:, i]).below(chance[i]) for name in (SM, TAILS) for i in (0, 1)
    }
    shares = lambda name: " and ".join(str(mean(shapes[name, "clean"][:, i])) for i in (0, 1))
    gain = mean(nats[TAILS, "clean"] - nats[SM, "clean"])
    short = {name: mean(nats["MLE", "clean"] - nats[name, "clean"]) for name in (SM, TAILS)}
    lost = {name: nats[name, "clean"] - nats[name, "saturated"] for name in ("MLE", *DSM)}
    return (
        Claim(
            "experts: filters",
            "On patches of images SM and DSM learn filters that are localised and oriented (as Welling et al. found by "
            "contrastive divergence).",
            f"energy over this share of pixels and of frequencies: SM {shares(SM)}; {TAILS}: {shares(TAILS)}; random "
            f"rotations {chance[0]:.3f} and {chance[1]:.3f}",
            verdict(
                all(concentrated.values()),
                otherwise=any(concentrated[SM, i] and concentrated[TAILS, i] for i in (0, 1)),
            ),
        ),
        Claim(
            "experts: held-out patches",
            "DSM with a diffusion that grows predicts patches better than SM.",
            f"held-out log-likelihood above SM's by {gain} nats a patch; maximum likelihood is above SM by {short[SM]}, "
            f"above DSM by {short[TAILS]}",
            verdict(gain.above(0)),
        ),
        Claim(
            "experts: saturated patches",
            "SM is not robust to outliers, which arise for products of experts; DSM with m = 1/(1 + r²) is.",
            "nats a patch lost by 5 % of them: "
            + ", ".join(f"{name} {mean(loss)}" for name, loss in lost.items())
            + "; filters moved (Amari's index): "
            + ", ".join(f"{name} {mean(shift)}" for name, shift in moved.items()),
            verdict(
                mean(lost[SM]).above(0) and mean(lost[ROBUST] - lost[SM] / 2).below(0),
                otherwise=mean(lost[ROBUST] - lost[SM]).below(0),
            ),
        ),
    )


def _table_of_simulation(errors: dict, theta: dict) -> Table:
    rows = tuple(
        (
            name,
            len(theta[name]),
            str(mean(e["filters"])),
            f"{np.median(0.5 + parts(theta[name])['excess']):.3f}",
            str(mean(e["α"])),
            *(str(times(e[part], errors["MLE"][part])) for part in e),
        )
        for name, e in errors.items()
    )
    columns = ("method", "samples", "error of filters", "median α̂", "error of α", "filters over MLE", "α over MLE")
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
    columns = ("method", "patches", "fits", "held-out nats", "median α̂", "pixels", "frequencies", "filters moved")
    return Table("experts-patches", f"{KEPT} experts on patches", columns, (*rows, random))


def _filters(lab: Lab, data: Patches, seen: dict) -> Picture:
    names = ("MLE", *DSM)
    with drawing(lab.directory, "experts-filters", len(names), len(KINDS), width=2.1, height=1.8) as axes:
        for row, kind in zip(axes, KINDS, strict=True):
            for ax, name in zip(row, names, strict=True):
                theta = parts(seen[name, kind][0])
                ax.imshow(_tiles(theta["W"][np.argsort(theta["excess"])] @ data.whitening), cmap="gray", vmin=-1, vmax=1)
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
    framed = np.pad(scaled.reshape(-1, SIDE, SIDE), ((0, 0), (0, 1), (0, 1)), constant_values=1)
    return framed.reshape(-1, columns, SIDE + 1, SIDE + 1).swapaxes(1, 2).reshape(-1, columns * (SIDE + 1))


def _comparison(lab: Lab, errors: dict, nats: dict) -> Picture:
    with drawing(lab.directory, "experts", 3, width=3.2, height=2.4) as axes:
        for ax, (part, title) in zip(axes[0], {"filters": "Filters", "α": "Tails"}.items(), strict=False):
            measured = [mean(e[part]) for e in errors.values()]
            bars(ax, list(errors), [m.value for m in measured], [m.error for m in measured], measured[0].value)
            ax.set(xlabel=f"error of {part}", title=f"{title}, simulated (dashed: MLE)")
        ax, names = axes[0][2], ("MLE", *DSM)
        for kind, colour, marker, up in (("clean", BLUE, "o", 0.1), ("saturated", ORANGE, "s", -0.1)):
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
    return Picture("experts", "Errors on simulated data, n = 500, and log-likelihood of held-out patches (± 2 errors).")
