"""Methods of minimisation, of which a discrepancy names the one that suits it."""

import enum


class Method(enum.Enum):
    """A method of minimisation; `solvers.names` maps it to a solver."""

    CLOSED_FORM = "the minimum of a quadratic"
    GAUSS_NEWTON = "steps with second derivatives"
    QUASI_NEWTON = "few passes over rows that are slow to read"
    LBFGS = "steps with first derivatives only"
    DIRECT_SEARCH = "values only, for a loss with kinks"
    RIEMANNIAN_SGD = "random updates, measured in the metric of the model"
    SGD = "random updates, for many parameters"
