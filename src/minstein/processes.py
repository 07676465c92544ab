"""Several processes, on one host or on many, that fit one model together."""

import jax

from . import errors

_SILENCE, _END = 20, 600
"""Seconds after which a process that is not heard of counts as lost, and to wait for the others at the end."""


def join(coordinator: str, processes: int, process: int, *, wait: int = 40) -> None:
    """Take part in a fit of several processes; to be called before any other computation with JAX.

    Every process then calls `ms.shard` with its own rows, and `ms.fit` with what that returns, and each gets the same
    fit. A process that ends raises `ms.ProcessLost` in those that are exchanging rows with it; one that cannot be heard
    of for 20 seconds ends all others, with a message of JAX's on stderr.

    Args:
        coordinator: 'host:port' of process 0, as the others reach it.
        processes: how many there are.
        process: which one this is, from 0.
        wait: the seconds within which all must have been started.
    """
    if not 0 <= process < processes:
        raise ValueError(f"process must be from 0 to {processes - 1}, as there are {processes}, got {process}.")
    if ":" not in coordinator:
        raise ValueError(f"coordinator must be host:port of process 0, such as 10.0.0.1:7070, got {coordinator!r}.")
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # no computation overtakes another's exchanges
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            cluster_detection_method="deactivate",
            initialization_timeout=wait,
            heartbeat_timeout_seconds=_SILENCE,
            shutdown_timeout_seconds=_END,
        )
    except Exception as reason:
        raise errors.not_joined(coordinator, processes, wait, str(reason)) from reason
