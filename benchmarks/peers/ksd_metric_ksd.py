"""ksd-metric's KSD, compiled: the square root of the V-statistic, from the whole matrix of pairs by autodiff."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from ksd_metric.kernel import KernelJax
from ksd_metric.stein import KernelSteinDiscrepancyJax
from ksd_metric.target import TargetDistributionJax
from ksd_metric.utils import JaxKernelFunction

jax.config.update("jax_enable_x64", True)


def calls(x: np.ndarray) -> dict[str, Callable]:
    kernel = KernelJax(partial(JaxKernelFunction.imq, linv=jnp.eye(x.shape[1])))  # (1 + r²)^(−1/2)
    ksd = KernelSteinDiscrepancyJax(TargetDistributionJax(lambda x: -jnp.vdot(x, x) / 2), kernel)
    rows = jnp.asarray(x)
    return {"": lambda: (ksd.kernel_stein_discrepancy(rows) ** 2, None)}
