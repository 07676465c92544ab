"""The statuses with which the command ends."""

CONVERGED = 0
NOT_CONVERGED = 1
BAD_INPUT = 2
"""Bad usage or input, or a file that cannot be written."""

LOST = 3
"""One of the processes of a fit was lost."""

INTERRUPTED = 130
"""The command was told to end, by Ctrl-C or otherwise."""

CLOSED = 141
"""Nobody reads the output any more, as in `| head -1`: what a shell reports for SIGPIPE."""
