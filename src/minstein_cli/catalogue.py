"""The names that the command line knows, each with an entry. Nothing here loads JAX.

To make a family, a kernel or a discrepancy available here, add its entry; a test compares the
entries with the library.
"""

import math
from typing import Literal, NamedTuple

Shape = Literal["location", "scale", "number", "rate", "site", "pair"]
Values = Literal["real", "binary", "spin", "count"]

REAL: tuple[Values, ...] = ("real",)
FINITE: tuple[Values, ...] = ("binary", "spin")
DISCRETE: tuple[Values, ...] = (*FINITE, "count")

MEANT = {
    "real": "real numbers",
    "binary": "zeros and ones",
    "spin": "−1 and 1",
    "count": "counts 0, 1, 2, …",
}


class Formula(NamedTuple):
    """A number that is linear in the number of variables d, and how it is printed."""

    text: str
    constant: float
    slope: float

    def at(self, d: int) -> float:
        return self.constant + self.slope * d

    def __str__(self) -> str:
        return self.text


class Parameter(NamedTuple):
    """One argument of an entry.

    Attributes:
        shape: the form of a model's parameter if the data have d columns. A location has d entries;
            a scale is a number, a vector or a matrix; a number is always one number; a rate has d
            positive entries; a model on a graph has an entry for each site and each pair of sites.
        default: a number, a word, a formula, or None.
        option: the option of `minstein fit` that sets the parameter, if it has its own.
        held: whether the parameter is held at its default unless the user asks for it to be fitted.
    """

    name: str
    meaning: str
    default: float | str | Formula | None = None
    shape: Shape = "number"
    held: bool = False
    option: str = ""

    @property
    def required(self) -> bool:
        """Whether the argument must be given."""
        return self.default is None and not self.option


class Entry(NamedTuple):
    """Something with a name: `path` is its place in the library, `on` the values of its data."""

    name: str
    path: str
    line: str
    parameters: tuple[Parameter, ...] = ()
    on: tuple[Values, ...] = REAL

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


LOC = Parameter("loc", "location μ", "from the data", "location")
SCALE = Parameter(
    "scale", "scale L, the covariance being a multiple of LLᵀ", "from the data", "scale"
)

GRAPH = (
    Parameter("field", "h, one for each variable", "from the data", "site"),
    Parameter("coupling", "J, one for each pair of variables", "from the data", "pair"),
)

_SMOOTHNESS = Formula("(d+3)/2", constant=1.5, slope=0.5)

MODELS = (
    Entry("gaussian", "models:Gaussian", "Normal, log p = −‖L⁻¹(x − μ)‖²/2", (LOC, SCALE)),
    Entry(
        "student-t",
        "models:StudentT",
        "Student's t: heavy tails",
        (LOC, SCALE, Parameter("df", "degrees of freedom ν", 5.0, held=True)),
    ),
    Entry(
        "symmetric-bessel",
        "models:SymmetricBessel",
        "Symmetric Bessel; Laplace's at smoothness (d+1)/2",
        (LOC, SCALE, Parameter("smoothness", "smoothness s ≥ d/2", _SMOOTHNESS, held=True)),
    ),
    Entry(
        "generalised-gamma",
        "models:GeneralisedGamma",
        "Exponential power, p ∝ exp(−‖x − μ‖^θ)",
        (LOC, Parameter("power", "power θ > 0", 2.0, held=True)),
    ),
    Entry(
        "boltzmann-machine",
        "models:BoltzmannMachine",
        "For zeros and ones, log p = Σ hᵢxᵢ + Σ Jᵢⱼxᵢxⱼ over all pairs",
        GRAPH,
        ("binary",),
    ),
    Entry("ising", "models:Ising", "The same for values −1 and 1", GRAPH, ("spin",)),
    Entry(
        "conway-maxwell-poisson",
        "models:ConwayMaxwellPoisson",
        "For counts, more or less dispersed than Poisson's",
        (
            Parameter("rate", "rate λ > 0; λ^(1/ν) is about the mean", "from the data", "rate"),
            Parameter(
                "dispersion",
                "ν > 0, which is 1 for Poisson's distribution",
                "from the data",
                "rate",
            ),
        ),
        ("count",),
    ),
)

LENGTHSCALE = "--lengthscale"

KERNELS = (
    Entry(
        "imq",
        "kernels:IMQ",
        "Inverse multiquadric, k = (c² + r²)^β: the usual choice",
        (Parameter("c", "scale c > 0", option=LENGTHSCALE), Parameter("beta", "power β < 0", -0.5)),
    ),
    Entry(
        "gaussian",
        "kernels:Gaussian",
        "Gaussian, k = exp(−r²/2ℓ²)",
        (Parameter("lengthscale", "ℓ > 0", option=LENGTHSCALE),),
    ),
    Entry(
        "matern",
        "kernels:Matern",
        "Matérn with smoothness 5/2 or 7/2",
        (
            Parameter("lengthscale", "ℓ > 0", option=LENGTHSCALE),
            Parameter("smoothness", "2.5 or 3.5", 2.5),
        ),
    ),
    Entry(
        "rational-quadratic",
        "kernels:RationalQuadratic",
        "Rational quadratic, k = (1 + r²/2αℓ²)^(−α)",
        (Parameter("lengthscale", "ℓ > 0", option=LENGTHSCALE), Parameter("alpha", "α > 0", 1.0)),
    ),
)

CENTRE = Parameter("centre", "where r = ‖(x − centre)/scale‖ is zero", "median")
UNIT = Parameter("scale", "unit of r; mad is the median absolute deviation times 1.4826", "mad")

DIFFUSIONS = (
    Entry("identity", "diffusions:identity", "m = 1: DKSD is KSD, and DSM is SM"),
    Entry(
        "decay",
        "diffusions:decay",
        "m = 1/(1 + r^α): distant observations count less",
        (
            Parameter("alpha", "α > 0"),
            CENTRE,
            UNIT,
        ),
    ),
    Entry(
        "redescending",
        "diffusions:redescending",
        "m = exp(−r²/2a²): distant observations do not count",
        (
            Parameter("a", "a > 0", 2.5),
            CENTRE,
            UNIT,
        ),
    ),
    Entry(
        "bounded",
        "diffusions:bounded",
        "m = 0 at the edges of a box: for data on a half-line or in an interval",
        (
            Parameter("low", "lower edge", -math.inf),
            Parameter("high", "upper edge", math.inf),
        ),
    ),
)

UNBIASED = Parameter("unbiased", "the U- or the V-statistic", option="--statistic")

DISCREPANCIES = (
    Entry(
        "ksd",
        "KSD",
        "Kernel Stein discrepancy",
        (Parameter("kernel", "see minstein kernels", "imq"), UNBIASED),
    ),
    Entry(
        "dksd",
        "DKSD",
        "Diffusion KSD: weights observations by m(x)",
        (
            Parameter("kernel", "see minstein kernels", "imq"),
            Parameter("diffusion", "see minstein diffusions"),
            UNBIASED,
        ),
    ),
    Entry(
        "efficient",
        "Efficient",
        "The likelihood equations without the normaliser: the default for real numbers",
    ),
    Entry("sm", "SM", "Score matching: no kernel, cost linear in n; for smooth densities"),
    Entry(
        "dsm",
        "DSM",
        "Diffusion score matching: weights observations by m(x)",
        (Parameter("diffusion", "see minstein diffusions"),),
    ),
    Entry("mpf", "MPF", "Minimum probability flow: the default for discrete data", (), DISCRETE),
    Entry("dfd", "DFD", "Discrete Fisher divergence, for counts and two values", (), DISCRETE),
    Entry(
        "pseudo-likelihood",
        "PseudoLikelihood",
        "Besag's pseudo-likelihood, for two values",
        (),
        FINITE,
    ),
    Entry(
        "discrete-ksd",
        "DiscreteKSD",
        "Discrete kernel Stein discrepancy, for two values; cost quadratic in n",
        (Parameter("kernel", "Hamming's, with --lengthscale", "hamming"), UNBIASED),
        FINITE,
    ),
    Entry(
        "cd",
        "CD",
        "Contrastive divergence by a step of Gibbs sampling, for two values; draws at random",
        (),
        FINITE,
    ),
)

SOLVERS = (
    Entry("gauss-newton", "GaussNewton", "Damped Gauss-Newton in the metric of the discrepancy"),
    Entry("lbfgs", "LBFGS", "Limited-memory BFGS, for many parameters"),
    Entry(
        "direct-search",
        "DirectSearch",
        "Without derivatives, for a loss with jumps, such as that of a Laplace location",
    ),
)


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.name for entry in entries]


def find(entries: tuple[Entry, ...], name: str) -> Entry | None:
    """Return the entry of that name, whatever its capitals, and with _ allowed for -."""
    return next((entry for entry in entries if entry.name == name.lower().replace("_", "-")), None)
