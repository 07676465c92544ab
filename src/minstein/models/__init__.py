"""Models: log p_θ(x) up to a constant. Any callable of one point also serves as a model."""

from .conway_maxwell_poisson import ConwayMaxwellPoisson as ConwayMaxwellPoisson
from .enumeration import log_normaliser as log_normaliser
from .enumeration import probabilities as probabilities
from .exponential_family import ExponentialFamily as ExponentialFamily
from .functions import from_log_density as from_log_density
from .functions import from_numpyro as from_numpyro
from .gaussian import Gaussian as Gaussian
from .generalised_gamma import GeneralisedGamma as GeneralisedGamma
from .ising import BoltzmannMachine as BoltzmannMachine
from .ising import Ising as Ising
from .ising import grid as grid
from .mcmc import nuts as nuts
from .rbm import RBM as RBM
from .student_t import StudentT as StudentT
from .symmetric_bessel import SymmetricBessel as SymmetricBessel
