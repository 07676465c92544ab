"""Markov kernels that leave a model invariant. Any function of (model, x, key) also serves."""

from ._transition import AbstractFiniteTransition as AbstractFiniteTransition
from ._transition import AbstractTransition as AbstractTransition
from ._transition import Function as Function
from ._transition import as_transition as as_transition
from ._transition import run as run
from .contract import check as check
from .finite import BlockGibbs as BlockGibbs
from .finite import Gibbs as Gibbs
from .finite import SingleFlip as SingleFlip
from .metropolis import HMC as HMC
from .metropolis import MALA as MALA
from .metropolis import RandomWalk as RandomWalk
