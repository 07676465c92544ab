"""The exit statuses of the command."""

CONVERGED = 0
NOT_CONVERGED = 1
BAD_INPUT = 2
"""Bad usage or input, or a file that cannot be written."""

LOST = 3
"""One of the processes of a fit was lost."""

INTERRUPTED = 130
"""The command was interrupted, by Ctrl-C or another signal."""

CLOSED = 141
"""The reader of the output has gone, as in `| head -1`: the status that shells report for SIGPIPE."""
