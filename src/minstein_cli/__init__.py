"""The command line of minstein.

A package of its own, because `import minstein` loads JAX, and `minstein --help` should not have to wait for that.
"""

import signal
import sys


def main() -> None:
    """The command `minstein`."""
    try:
        from .app import app
    except ImportError as reason:
        sys.exit(f"The command line needs more than the library does: pip install 'minstein[cli]'. ({reason})")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end, it cleans up as after Ctrl-C
    if "jax" in sys.modules:  # python -m minstein has loaded it
        from . import cache

        cache.use()
    app(prog_name="minstein")
