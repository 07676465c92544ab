"""Joining several processes, on one host or on many, that fit one model together."""

import errno
import socket

import jax

from .. import errors

_SILENCE, _END = 20, 600
"""Seconds without a sign of life after which a process counts as lost, and seconds to wait for the
other processes at the end.
"""


def join(coordinator: str, processes: int, process: int, *, wait: int = 40) -> None:
    """Take part in a fit by several processes. Call this before any other computation with JAX.

    Every process then calls `ms.shard` with its own rows and passes the result to `ms.fit`, and
    each gets the same fit. If a process ends, those that are exchanging rows with it raise
    `ms.ProcessLost`. If a process gives no sign of life for 20 seconds, JAX ends all others with a
    message on stderr.

    Args:
        coordinator: the address 'host:port' at which the others reach process 0.
        processes: the number of processes.
        process: the number of this process, from 0.
        wait: the number of seconds within which all processes must have started.
    """
    if not 0 <= process < processes:
        raise ValueError(
            f"process must be from 0 to {processes - 1}, because there are {processes}, got {process}."
        )
    if ":" not in coordinator:
        raise ValueError(
            f"coordinator must be host:port of process 0, such as 10.0.0.1:7070, got {coordinator!r}."
        )
    if process == 0:
        _check_port(coordinator)
    # Otherwise one computation could overtake the exchanges of another.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
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
    """Raise if something listens on the port: two coordinators could share it, and both would wait."""
    port = coordinator.rpartition(":")[2]
    if not port.isdigit():
        raise ValueError(
            f"coordinator must end in a port, such as 10.0.0.1:7070, got {coordinator!r}."
        )
    with socket.socket() as probe:
        # A port that was closed a minute ago may be used.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
        "them was not started, or ended at once: see its messages; (b) the others cannot reach process 0 at that "
        f"address, or its port is taken: choose another. ({reason.splitlines()[0][:200]})"
    )
