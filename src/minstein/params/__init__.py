"""The parameters of a model: θ as a flat vector, its names, and the constraints on it.

A model is a pytree, and its free floating-point leaves are θ. Users mark a leaf with `positive`,
`fixed`, `simplex` or `positive_definite`; the families of the package declare the constraint of
each field with `parameter` instead.
"""

from .marks import HELD as HELD
from .marks import POSITIVE as POSITIVE
from .marks import REAL as REAL
from .marks import SCALE as SCALE
from .marks import Marked as Marked
from .marks import as_float as as_float
from .marks import as_function as as_function
from .marks import check_value as check_value
from .marks import constant as constant
from .marks import fixed as fixed
from .marks import is_floating as is_floating
from .marks import is_marked as is_marked
from .marks import parameter as parameter
from .marks import plain as plain
from .marks import positive as positive
from .marks import positive_definite as positive_definite
from .marks import simplex as simplex
from .marks import unwrap as unwrap
from .tree import held as held
from .tree import leaves as leaves
from .tree import names as names
from .tree import with_leaf as with_leaf
from .vector import from_real as from_real
from .vector import links as links
from .vector import reach as reach
from .vector import theta as theta
from .vector import to_real as to_real
from .vector import unconstrained as unconstrained
from .vector import with_theta as with_theta

__all__ = ["from_real", "leaves", "names", "theta", "to_real", "unwrap", "with_leaf", "with_theta"]
