"""Several processes, on one host or on many, that fit one model together."""

import errno
import socket

import jax

from .. import errors

_SILENCE, _END = 20, 600
"""Seconds after which a process that is not heard of counts as lost, and to wait for the others at
the end.
"""


def join(coordinator: str, processes: int, process: int, *, wait: int = 40) -> None:
    """Take part in a fit of several processes; to be called before any other computation with JAX.

    Every process then calls `ms.shard` with its own rows, and `ms.fit` with what that returns, and
    each gets the same fit. A process that ends raises `ms.ProcessLost` in those that are exchanging
    rows with it; one that cannot be heard of for 20 seconds ends all others, with a message of
    JAX's on stderr.

    Args:
        coordinator: 'host:port' of process 0, as the others reach it.
        processes: how many there are.
        process: which one this is, from 0.
        wait: the seconds within which all must have been started.
    """
    if not 0 <= process < processes:
        raise ValueError(
            f"process must be from 0 to {processes - 1}, as there are {processes}, got {process}."
        )
    if ":" not in coordinator:
        raise ValueError(
            f"coordinator must be host:port of process 0, such as 10.0.0.1:7070, got {coordinator!r}."
        )
    if process == 0:
        _check_port(coordinator)
    jax.config.update(
        "jax_cpu_enable_async_dispatch", False
    )  # no computation overtakes another's exchanges
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
        raise _not_joined(coordinator, processes, wait, str(reason)) from reason


def _check_port(coordinator: str) -> None:
    """Refuse a port on which something listens: two coordinators can share one, and each waits for
    processes.
    """
    port = coordinator.rpartition(":")[2]
    if not port.isdigit():
        raise ValueError(
            f"coordinator must end in a port, such as 10.0.0.1:7070, got {coordinator!r}."
        )
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a port that was closed a minute ago will do
        try:
            probe.bind(("", int(port)))
        except OSError as reason:
            if reason.errno == errno.EADDRINUSE:
                raise _port_taken(coordinator, int(port)) from reason


@errors.explained("many-machines.md")
def _port_taken(coordinator: str, port: int) -> errors.ProcessLost:
    return errors.ProcessLost(
        f"Port {port} of {coordinator} is taken on this host: something else listens there, perhaps a fit that is "
        "still running. Give all processes another port."
    )


@errors.explained("many-machines.md")
def _not_joined(coordinator: str, processes: int, wait: int, reason: str) -> errors.ProcessLost:
    return errors.ProcessLost(
        f"The {processes} processes did not all meet at {coordinator} within {wait} seconds. Usual causes: (a) one of "
        "them was not started, or ended at once: see its messages; (b) that address is not one under which the others "
        f"reach process 0, or its port is taken: choose another. ({reason.splitlines()[0][:200]})"
    )
