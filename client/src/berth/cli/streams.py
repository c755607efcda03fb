"""Standard input, output and errors, whatever state they are handed over in."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def open_streams() -> None:
    """Lead what is closed to nowhere, so that no socket takes its number; spell out what a terminal of ASCII cannot show."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", errors="surrogateescape")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def flush_streams() -> bool:
    """Write what is left of the output; false where nobody takes it."""
    is_taken = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            forget(stream)
            is_taken = False
    return is_taken


def forget(stream: TextIO) -> None:
    """Lead a stream that cannot be written to nowhere: else Python complains of it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
