"""Text from files, names and paths, made fit for a terminal."""

import re

_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Characters that a terminal obeys, and those that turn the direction of writing: the library's,
which needs JAX.
"""


def plain(text: str) -> str:
    """Text on one line, with a replacement sign for each character that a terminal would obey."""
    return _UNSEEN.sub("\ufffd", " ".join(text.splitlines()))


def plain_lines(text: str) -> str:
    """The same, but lines stay lines."""
    return "\n".join(map(plain, text.split("\n")))


def escape_json(text: str) -> str:
    """JSON that means the same, with those characters escaped."""
    return "\n".join(
        _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")
    )
