"""minstein: minimum Stein discrepancy estimation, for statistical models known only up to a constant."""

from . import diffusions as diffusions
from . import kernels as kernels
from . import models as models
from . import operator as operator
from . import params as params
from . import special as special
from .discrepancies import DKSD as DKSD
from .discrepancies import DSM as DSM
from .discrepancies import KSD as KSD
from .discrepancies import SM as SM
from .divergence import Hutchinson as Hutchinson
from .divergence import Sliced as Sliced
from .errors import PrecisionWarning as PrecisionWarning
from .expansion import Quadratic as Quadratic
from .expansion import hessian as hessian
from .expansion import information as information
from .expansion import quadratic as quadratic
from .expansion import stein_matrix as stein_matrix
from .expansion import value_and_grad as value_and_grad
from .operator import features as features
from .operator import stein as stein
from .operator import stein_kernel as stein_kernel
from .params import fixed as fixed
from .params import positive as positive
from .params import positive_definite as positive_definite
from .params import simplex as simplex

__version__ = "0.1.0"
