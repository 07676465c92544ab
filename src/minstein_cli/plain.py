"""Making text from files, names and paths safe for a terminal."""

import re

_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, and those that change the direction of writing; a copy of the library's, which
would load JAX.
"""


def plain(text: str) -> str:
    """Return the text on one line, with a replacement sign for each control character."""
    return _UNSEEN.sub("\ufffd", " ".join(text.splitlines()))


def plain_lines(text: str) -> str:
    """Return what `plain` returns, but with the line breaks kept."""
    return "\n".join(map(plain, text.split("\n")))


def escape_json(text: str) -> str:
    """Return equivalent JSON with those characters escaped."""
    return "\n".join(
        _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")
    )
