"""What a discrepancy is, and the objective that solvers and inference see of it."""

from .discrepancy import AbstractDiscrepancy as AbstractDiscrepancy
from .discrepancy import AbstractRandom as AbstractRandom
from .discrepancy import Rejection as Rejection
from .discrepancy import check_together as check_together
from .objective import AbstractObjective as AbstractObjective
from .objective import Jet as Jet
from .objective import Second as Second
from .objective import Zeroth as Zeroth
from .pairs import AbstractPairwise as AbstractPairwise
from .pairs import PairObjective as PairObjective
from .pairs import too_few as too_few
from .points import AbstractPointwise as AbstractPointwise
from .points import PointObjective as PointObjective
from .points import looks_up as looks_up
