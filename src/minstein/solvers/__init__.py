"""Solvers: how the loss is minimised."""

from ._solver import AbstractIterative as AbstractIterative
from ._solver import AbstractSolver as AbstractSolver
from ._solver import Candidates as Candidates
from ._solver import Chains as Chains
from .closed_form import ClosedForm as ClosedForm
from .direct_search import DirectSearch as DirectSearch
from .gauss_newton import GaussNewton as GaussNewton
from .lbfgs import LBFGS as LBFGS
from .quasi_newton import QuasiNewton as QuasiNewton
from .riemannian_sgd import RiemannianSGD as RiemannianSGD
from .sgd import SGD as SGD
from .stochastic import AbstractStochastic as AbstractStochastic
