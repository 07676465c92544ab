"""Misprints of the paper, each with what it gives, what the correction gives, and what is observed."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.special import kv

import minstein as ms

from . import liu
from .claim import Erratum, Findings
from .lab import Lab, estimate
from .measured import mean

NORMAL = ms.models.Gaussian(0.0, 1.0)
LOCATION = ms.models.Gaussian(0.3, ms.fixed(1.0))
GAUSSIAN = ms.kernels.Gaussian(1.0)


def run(lab: Lab) -> Findings:
    found = (
        _covariance_of_dsm(lab),
        _hessian(lab),
        _influence(lab),
        _closed_form(lab),
        _rate_of_influence(),
        _bessel(),
        _gamma(),
        _liu(),
        *_transposes(),
        _convexity(lab),
        _delta_method(lab),
        _contrastive_divergence(),
        _probability_flow(),
        _factor(lab),
        _typo(),
        _complexity(),
        _alpha(),
        _moving(lab),
    )
    return Findings(
        "Errors of print and of substance that a number can show; the numbering is that of the errata page of the "
        "documentation.",
        errata=found,
    )


def _covariance_of_dsm(lab: Lab) -> Erratum:
    one = lambda given, key: estimate(LOCATION, NORMAL.sample(key, 200), given)
    v = lab.replicate("covariance of SM", one, ms.SM(), quick=500, full=5000)[:, 0]
    x = NORMAL.sample(lab.key(), 2000)
    right = 2000 * float(ms.sandwich(ms.SM(), NORMAL_LOCATION, x)[0, 0])
    return Erratum(
        "E1",
        "covariance of DSM: g⁻¹Σg⁻¹",
        "a quarter of it, because the Hessian of the loss is 2g",
        f"n·Var = {4 * right:.3f}",
        f"{right:.3f}",
        f"{mean(200 * v**2)} (score matching of N(θ, 1) is the sample mean)",
    )


NORMAL_LOCATION = ms.models.Gaussian(0.0, ms.fixed(1.0))


def _hessian(lab: Lab) -> Erratum:
    x, ksd = NORMAL.sample(lab.key(), 2000), ms.KSD(GAUSSIAN)
    g = float(ms.information(ksd, NORMAL_LOCATION, x)[0, 0])
    h = float(ms.hessian(ksd, NORMAL_LOCATION, x)[0, 0])
    return Erratum(
        "E2",
        "in a proof, Q⊗Q∂∂k⁰ = g",
        "2g; the theorem is right, since the covariance of the gradient is 4Σ",
        f"{g:.4f}",
        f"{2 * g:.4f}",
        f"Hessian {h:.4f}",
    )


def _influence(lab: Lab) -> Erratum:
    x = NORMAL.sample(lab.key(), 1000)[:, 0]
    fit = ms.fit(LOCATION, x, ms.KSD(GAUSSIAN))
    ours = float(ms.influence(fit, x, np.array([1.5]))[0, 0])
    moved = ms.fit(LOCATION, np.append(x, 1.5), ms.KSD(GAUSSIAN), covariance=False).theta[0]
    return Erratum(
        "E3",
        "influence function +g⁻¹∫∇k⁰",
        "with a minus sign",
        f"{-ours:.3f} at z = 1.5",
        f"{ours:.3f}",
        f"n times the change by one more observation there: {len(x) * (moved - fit.theta[0]):.3f}",
    )


def _closed_form(lab: Lab) -> Erratum:
    x = ms.models.Gaussian(3.0, 1.0).sample(lab.key(), 20_000)[:, 0]
    m2, slope = 1 / (1 + x**2), -2 * x / (1 + x**2) ** 2
    printed, right = ((m2 @ x + sign * slope.sum()) / m2.sum() for sign in (1, -1))
    fit = ms.fit(LOCATION, x, ms.DSM(lambda x: (1 + x @ x) ** -0.5), covariance=False)
    return Erratum(
        "E4",
        "DSM of a Gaussian location: (∫m²)⁻¹(∫m²x + ∫∇m²)",
        "minus ∫∇m²; minus half of it for the printed exp(−‖x−θ‖²)",
        f"{printed:.4f}",
        f"{right:.4f}",
        f"the fit {fit.theta[0]:.4f}, the truth 3",
    )


def _rate_of_influence() -> Erratum:
    """σ² = ½, ℓ = 1: the printed model."""
    with jax.enable_x64(True):
        k0 = lambda theta, z, y: ms.stein_kernel(ms.models.Gaussian(theta, np.sqrt(0.5)), None, GAUSSIAN)(z, y)
        nodes, weights = np.polynomial.hermite_e.hermegauss(100)
        y = jnp.asarray(np.sqrt(0.5) * nodes[:, None])
        slope = jax.jit(jax.vmap(jax.grad(k0), (None, None, 0)))
        at = lambda z: np.log(abs(float(weights @ np.asarray(slope(0.0, jnp.array([z]), y))) / z))
        rate = (at(2.0) - at(3.0)) / 5
    return Erratum(
        "E5",
        "influence in Gaussian location falls as exp(−‖z−θ‖²/4)",
        "as exp(−‖z−θ‖²/2(ℓ² + σ²)), ⅓ in the exponent for the printed model with ℓ = 1",
        "0.2500",
        f"{1 / 3:.4f}",
        f"{rate:.4f}",
    )


def _bessel() -> Erratum:
    """s = 2, d = 1: the integral of exp(r^ν K_ν(r)) over [0, R] grows like R; that of r^ν K_ν(r) does not."""
    profile = lambda r: r**1.5 * kv(1.5, r)
    tail = lambda f: quad(f, 20, 40)[0]
    x = np.array([-1.3, 0.2, 0.9])
    flat = [float(ms.SM()(ms.models.SymmetricBessel(loc, 1.0, 1.0), x)) for loc in (-2.01, 0.013)]
    return Erratum(
        "E6",
        "symmetric Bessel: log p ∝ r^ν K_ν(r); SM estimates the location at s = 1",
        "p ∝ r^ν K_ν(r); at s = 1 the loss of SM does not depend on the location",
        f"mass on [20, 40]: {tail(lambda r: np.exp(profile(r))):.3f}",
        f"{tail(profile):.1e}",
        f"SM at two locations, s = 1: {flat[0]:.6f}, {flat[1]:.6f}",
    )


def _gamma() -> Erratum:
    with jax.enable_x64(True):
        ours = float(ms.models.GeneralisedGamma(0.0, 5.0)(jnp.array([-2.0])))
    return Erratum(
        "E7",
        "generalised gamma exp(−(x−θ₁)^θ₂) with θ₂ = 5",
        "exp(−|x−θ₁|^θ₂)",
        f"log p(−2) = {-((-2.0) ** 5):.0f}",
        f"{ours:.0f}",
        "a density must fall",
    )


def _liu() -> Erratum:
    smallest = lambda matrix: np.linalg.eigvalsh(matrix)[0]
    return Erratum(
        "E8",
        "ψ without x₁x₂, and m = 1/(1 + x)",
        "ψ with x₁x₂ (weight 0.6), and a diffusion without a pole, such as (1 + x²)^(−1/2)",
        f"smallest eigenvalue of the precision, weights in the printed order: {smallest(liu.SWAPPED):.3f}",
        f"{smallest(liu.PRECISION):.3f}",
        "negative is no density",
    )


def _rotation(x):
    a = jnp.sin(x[0]) + x[1]
    return jnp.array([[jnp.cos(a), -jnp.sin(a)], [jnp.sin(a), jnp.cos(a)]])


def _transposes() -> tuple[Erratum, ...]:
    """E9 and E10 with K(x, y) = R(x) diag(1, 3) R(y)ᵀ k(x, y), which is not symmetric as a matrix."""
    m = lambda x: jnp.array([[1.0, 0.3 * x[0]], [jnp.sin(x[1]), 2.0]])
    k = lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2) / 2)
    K = lambda x, y: _rotation(x) @ jnp.diag(jnp.array([1.0, 3.0])) @ _rotation(y).T * k(x, y)
    model = ms.models.Gaussian([0.2, -0.1], 1.3)
    score = lambda x: ms.operator.score(model, x)
    div = lambda field, x: jnp.einsum("jrj->r", jax.jacfwd(field)(x))
    with jax.enable_x64(True):
        x, y = jnp.array([0.3, -0.8]), jnp.array([1.1, 0.4])
        exact = float(ms.stein_kernel(model, m, K)(x, y))
        sx, sy = m(x).T @ score(x), m(y).T @ score(y)
        div_x = lambda x, y: div(lambda x: m(x) @ K(x, y), x)

        def expansion(in_y):
            trace = jnp.trace(m(y) @ jax.jacfwd(div_x, 1)(x, y))
            return float(
                sx @ K(x, y) @ sy + div(lambda y: m(y) @ in_y(x, y), y) @ sx + div_x(x, y) @ (sy + div(m, y)) + trace
            )

        A = lambda x, y: m(x) @ K(x, y) @ m(y).T / k(x, y)
        gx, gy = jax.grad(k, 0)(x, y), jax.grad(k, 1)(x, y)
        of_x, of_y = (jnp.einsum(form, jax.jacfwd(A, i)(x, y)) for i, form in enumerate(("ili->l", "ill->i")))
        both = jnp.einsum("ilil->", jax.jacfwd(jax.jacfwd(A, 0), 1)(x, y))
        mixed = jnp.einsum("il,il->", A(x, y), jax.jacfwd(jax.grad(k, 0), 1)(x, y))
        rest = both * k(x, y) + of_x @ (gy + score(y) * k(x, y)) + of_y @ (gx + score(x) * k(x, y)) + mixed
        terms = lambda M: score(y) @ M @ score(x) * k(x, y) + score(y) @ M @ gx + gy @ M @ score(x)
        decomposed = [float(terms(M) + rest) for M in (A(x, y), A(x, y).T)]
        printed, right = expansion(K), expansion(lambda x, y: K(x, y).T)
    definition = f"by the definition {exact:.5f}"
    return (
        Erratum(
            "E9",
            "∇_y·(m(y)K) in k⁰",
            "∇_y·(m(y)Kᵀ)",
            f"k⁰ = {printed:.5f}",
            f"{right:.5f}",
            definition,
        ),
        Erratum(
            "E10",
            "A in the terms with ∇_y log p and ∇_x log p",
            "Aᵀ",
            f"k⁰ = {decomposed[0]:.5f}",
            f"{decomposed[1]:.5f}",
            definition,
        ),
    )


def _convexity(lab: Lab) -> Erratum:
    """Over i < j the matrix of an exponential family is not symmetric."""
    x = NORMAL.sample(lab.key(), 6)
    family = ms.models.ExponentialFamily(lambda x: jnp.array([x[0], -(x[0] ** 2) / 2]), [0.0, 1.0])
    ours = ms.quadratic(ms.KSD(GAUSSIAN), family, x).A
    phi = np.column_stack([np.ones(6), -x[:, 0]])
    printed = phi.T @ np.triu(np.exp(-((x - x.T) ** 2) / 2), 1) @ phi / 15
    return Erratum(
        "E11",
        "A_n, summed over i < j, is symmetric and positive semi-definite",
        "summed over i ≠ j it is symmetric; definite only as a V-statistic (see the theory)",
        f"A₁₂ − A₂₁ = {printed[0, 1] - printed[1, 0]:.4f}",
        f"{ours[0, 1] - ours[1, 0]:.4f}",
        "a quadratic form has a symmetric matrix",
    )


def _delta_method(lab: Lab) -> Erratum:
    """DSM of natural parameters (μ/σ², 1/σ²), μ = 0.7, σ² = 1.5, m = 1."""
    natural = ms.models.ExponentialFamily(lambda x: jnp.array([x[0], -(x[0] ** 2) / 2]), [0.7 / 1.5, 1 / 1.5])
    true = ms.models.Gaussian(0.7, np.sqrt(1.5))
    one = lambda given, key: estimate(natural, true.sample(key, 400), given)
    v = lab.replicate("delta method", one, ms.SM(), quick=500, full=5000)[:, 1]
    right = 4000 * float(ms.sandwich(ms.SM(), natural, true.sample(lab.key(), 4000))[1, 1])
    return Erratum(
        "E12",
        "delta method for DSM: 4∇gΓ∇gᵀ",
        "without the 4, which belongs to U-statistics",
        f"n·Var = {4 * right:.3f}",
        f"{right:.3f}",
        str(mean(400 * (v - 1 / 1.5) ** 2)),
    )


def _contrastive_divergence() -> Erratum:
    """Three states, one Metropolis step."""
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    P = np.minimum(1, p[None] / p[:, None]) / 3
    P += np.diag(1 - P.sum(1))
    after = q @ P
    printed = float(q @ (np.log(p) - P @ np.log(p)))
    divergence = lambda a: float(a @ np.log(a / p))
    entropy = lambda a: float(-a @ np.log(a))
    return Erratum(
        "E13",
        "CD = ∫(log p − Pⁿ log p)dQ = KL(Q‖P) − KL(Qⁿ‖P)",
        "KL(Q‖P) − KL(Qⁿ‖P) = −∫(log p − Pⁿ log p)dQ + H(Qⁿ) − H(Q)",
        f"{printed:.5f}",
        f"{-printed + entropy(after) - entropy(q):.5f}",
        f"KL − KL = {divergence(q) - divergence(after):.5f}, three states",
    )


def _probability_flow() -> Erratum:
    """The L₁ norm of the flow is twice the flow out of the data only where no data state gains."""
    energy, data = np.array([2.0, 0.0, 0.3, 0.8]), np.array([0.9, 0.1, 0.0, 0.0])
    gamma = np.exp((energy[None] - energy[:, None]) / 2)
    np.fill_diagonal(gamma, 0)
    gamma -= np.diag(gamma.sum(0))
    epsilon = 1e-3
    flow = epsilon * gamma @ data
    leaving = epsilon * float((gamma[2:, :2] @ data[:2]).sum())
    return Erratum(
        "E14",
        "minimum probability flow is the L₁ norm of the initial flow",
        "Sohl-Dickstein et al. minimise K, the flow from data to other states; L₁ = 2K only where no data state gains",
        f"L₁ = {np.abs(flow).sum():.4e}",
        f"2K = {2 * leaving:.4e}",
        f"net flow into the data states {flow[0]:.1e} and {flow[1]:.1e}",
    )


def _factor(lab: Lab) -> Erratum:
    x = NORMAL.sample(lab.key(), 100)[:, 0]
    sm = np.mean(-1 + x**2 / 2)
    return Erratum(
        "E15",
        "SM-hat is DSM-hat with m = 1",
        "half of it, by the printed formulas",
        f"SM-hat {sm:.5f}",
        f"doubled {2 * sm:.5f}",
        f"DSM-hat {float(ms.SM()(NORMAL, x)):.5f}",
    )


def _typo() -> Erratum:
    """The norm of an RKHS with kernel diag(λᵢ k), for f = λ₁k(·, x)e₁ + λ₂k(·, x)e₂, whose norm² is λ₁ + λ₂."""
    weights = np.array([2.0, 5.0])
    norms = weights**2
    return Erratum(
        "E16",
        "‖f‖² = (1/λᵢ) Σᵢ ‖fᵢ‖²",
        "Σᵢ ‖fᵢ‖²/λᵢ",
        "with λ = (2, 5): " + ", ".join(f"{norms.sum() / w:.1f}" for w in weights),
        f"{(norms / weights).sum():.1f}",
        "by the reproducing property λ₁ + λ₂ = 7",
    )


def _complexity() -> Erratum:
    """Entries of ∂_l∂_i K_rs for a pair, against what a radial kernel needs."""
    d = 16
    with jax.enable_x64(True):
        general = jax.eval_shape(jax.jacfwd(jax.jacfwd(lambda x, y: _outer(x, y), 0), 1), jnp.zeros(d), jnp.zeros(d))
    return Erratum(
        "E17",
        "DKSD costs O(n²d²) for any matrix kernel",
        "the mixed derivatives of a general K have d⁴ entries for each pair; O(n²d²) needs K = kB with a radial k",
        f"d² = {d**2} at d = {d}",
        f"d⁴ = {d**4}",
        f"entries of ∂ₓ∂ᵧK: {np.prod(general.shape)}",
    )


def _outer(x, y):
    return jnp.outer(jnp.sin(x), jnp.cos(y)) + jnp.outer(y, x)


def _alpha() -> Erratum:
    """The gradient of the DSM loss in θ₁ far out, θ₂ = 5."""
    with jax.enable_x64(True):

        def growth(alpha: float) -> float:
            def loss(loc, z):
                s = lambda x: -5 * (x - loc) ** 4
                m2 = lambda x: 1 / (1 + x**alpha) ** 2
                return m2(z) * s(z) ** 2 + 2 * jax.grad(lambda x: m2(x) * s(x))(z)

            slope = jax.grad(loss)
            return float(abs(slope(0.0, 1e4) / slope(0.0, 1e3)))

        grown = {alpha: growth(alpha) for alpha in (3.0, 3.5, 4.0)}
    return Erratum(
        "E18",
        "the influence function is bounded where α ≥ θ₂ − 1",
        "true, but for DSM it is bounded exactly where α ≥ θ₂ − 3/2",
        "θ₂ = 5: α ≥ 4",
        "α ≥ 3.5",
        "growth from z = 10³ to 10⁴ at α = 3, 3.5, 4: " + ", ".join(f"{v:.3g}" for v in grown.values()),
    )


def _moving(lab: Lab) -> Erratum:
    x = ms.models.StudentT(25.0, 10.0, 5.0).sample(lab.key(), 300)
    u = lambda model, x: (x[0] - model.loc) / model.scale
    m = ms.diffusions.of_model(lambda model, x: u(model, x) * (1 + u(model, x) ** 2 / model.df), moving=True)
    dksd = ms.DKSD(ms.kernels.IMQ(1.0), m, unbiased=False)
    losses = [float(dksd(ms.models.StudentT(25.0, scale, 5.0), x)) for scale in (10.0, 1000.0)]
    held = ms.DKSD(ms.kernels.IMQ(1.0), ms.diffusions.of_model(m.fn))
    fit = ms.fit(ms.models.StudentT(ms.fixed(25.0), 8.0, 5.0), x, held, covariance=False)
    return Erratum(
        "E19",
        "minimise over θ while m_θ moves with it (Student-t scale)",
        "hold m at a pilot fit",
        f"loss {losses[0]:.2e} at the true scale 10, {losses[1]:.1e} at 1000",
        f"scale {fit.theta[0]:.3f}",
        "the truth is 10",
    )
