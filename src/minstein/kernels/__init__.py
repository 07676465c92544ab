"""Kernels: radial profiles κ(r²) and combinations of them. Any function K(x, y) also serves."""

from ._kernel import AbstractKernel as AbstractKernel
from ._kernel import AbstractRadial as AbstractRadial
from ._kernel import Function as Function
from ._kernel import Span as Span
from ._kernel import Term as Term
from ._kernel import as_kernel as as_kernel
from .algebra import Product as Product
from .algebra import Scaled as Scaled
from .algebra import Sum as Sum
from .algebra import Tilted as Tilted
from .coordinates import Elliptical as Elliptical
from .coordinates import Whitened as Whitened
from .finite_rank import Designed as Designed
from .finite_rank import FiniteRank as FiniteRank
from .hamming import Hamming as Hamming
from .heuristic import median_heuristic as median_heuristic
from .matrix_kernels import Diagonal as Diagonal
from .matrix_kernels import Separable as Separable
from .radial import IMQ as IMQ
from .radial import Gaussian as Gaussian
from .radial import Matern as Matern
from .radial import RationalQuadratic as RationalQuadratic
