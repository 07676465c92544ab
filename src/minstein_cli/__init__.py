"""The command line of minstein.

It is a separate package because `import minstein` loads JAX, for which `minstein --help` should not
have to wait.
"""

import signal
import sys

from .exit_status import BAD_INPUT, INTERRUPTED


def main() -> None:
    """The command `minstein`."""
    # A request to terminate cleans up as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from .app import app
    except ImportError as reason:
        _run_without_click(sys.argv[1:], reason)
        return
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: nothing was written.\n")
        sys.exit(INTERRUPTED)
    if "jax" in sys.modules:  # python -m minstein has loaded it
        from . import cache
        from .complaint import complain

        if doubt := cache.use():
            complain("Warning", doubt)
    app(prog_name="minstein")


def _run_without_click(arguments: list[str], reason: ImportError) -> None:
    """Run `minstein help`, which needs only the library, and refuse every other command."""
    from . import pages
    from .problem import Problem

    match arguments:
        case ["help", *names] if len(names) <= 1:
            try:
                pages.show(*names or [None])
            except Problem as problem:
                sys.stderr.write(f"Error: {problem}\n")
                sys.exit(BAD_INPUT)
        case _:
            sys.exit(
                "The command line needs more packages than the library does: "
                f"pip install 'minstein[cli]'. ({reason})"
            )
