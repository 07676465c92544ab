"""Messages on stderr, wrapped to the width of the terminal."""

import shutil
import sys
import textwrap

import click

from .plain import plain_lines

_COLOURS = {"Error": "red", "Interrupted": "red", "Not converged": "red", "Warning": "yellow"}


def complain(kind: str, text: str) -> None:
    """Print 'Error: …', or another kind of message, on stderr."""
    message = f"{kind}: {plain_lines(text)}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        paragraphs = message.splitlines()
        message = "\n".join(
            textwrap.fill(p, width, break_on_hyphens=False, break_long_words=False)
            for p in paragraphs
        )
        message = click.style(f"{kind}:", fg=_COLOURS.get(kind), bold=True) + message.removeprefix(
            f"{kind}:"
        )
    click.echo(message, err=True)
