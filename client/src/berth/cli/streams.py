"""Prepare and flush standard input, output and error, even if they were closed by the caller."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def open_streams() -> None:
    """Open closed standard streams on the null device, so that no socket gets their numbers.

    Characters that the terminal cannot show are escaped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", errors="surrogateescape")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def flush_streams() -> bool:
    """Flush the output. Returns False if a reader is gone."""
    is_taken = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            forget(stream)
            is_taken = False
    return is_taken


def forget(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, or else Python reports an error at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
