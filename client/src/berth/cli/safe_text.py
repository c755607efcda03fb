"""Neutralise control sequences in text from the portal before it reaches a terminal.

Names, messages and logs are written by other users; hidden sequences could change the title, the
clipboard or the cursor, or type input. In names every control character is spelled out. Logs keep
colours and the cursor moves of progress bars.
"""

import re
from typing import Any

# Control characters, and characters that change the direction of writing.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
JSON_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_MOVES = rb"\x1b\[[0-9;:]{0,40}[ABCDEFGHJKSTfm]"
_CONTROLS = rb"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]"
_LOG = re.compile(rb"(" + _MOVES + rb")|" + _CONTROLS)
_UNFINISHED = re.compile(rb"(?:\x1b(?:\[[0-9;:]{0,40})?|\xc2)\Z")


def clean(value: object) -> str:
    """Return `value` as one printable line, with control characters escaped: "a\\x1b[31mb"."""
    return UNSAFE.sub(_spelled, str(value))


def clean_json(text: str) -> str:
    """Escape control characters in JSON text; its meaning stays the same."""
    return JSON_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _spelled(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


class LogFilter:
    """Filter for a log that arrives in pieces; holds back a sequence cut by the end of a piece."""

    def __init__(self) -> None:
        self._held = b""

    def __call__(self, piece: bytes) -> bytes:
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._held = text[end:]
        return _LOG.sub(_kept, text[:end])

    def rest(self) -> bytes:
        """Return the output held back at the end of the log."""
        held, self._held = self._held, b""
        return _LOG.sub(_kept, held)


def _kept(found: re.Match[bytes]) -> bytes:
    return found[1] or b"".join(b"\\x%02x" % byte for byte in found[0])


def first_line(value: Any) -> str:
    """Return the first line of a message, as one printable line."""
    return clean(str(value).strip().splitlines()[0] if str(value).strip() else "")
