"""Console output of bin/up: one line per event, prefixed by the name of its process."""

import os
import sys
from collections.abc import Callable

Say = Callable[[str], None]

NAME_WIDTH = 9
COLOURS = {
    "up": 36,
    "web": 32,
    "worker": 33,
    "ends": 33,
    "tick": 35,
    "beat": 34,
    "postgres": 90,
    "redis": 90,
    "image": 33,
}


def speaker(name: str) -> Say:
    """Return a function that prints lines under this name."""
    prefix = f"{name:<{NAME_WIDTH}} | "
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        prefix = f"\033[{COLOURS.get(name, 37)}m{prefix}\033[0m"

    def say(text: str) -> None:
        write("".join(f"{prefix}{line}\n" for line in text.splitlines()))

    return say


def write(text: str) -> None:
    """Print text in one call. A lost terminal must not end the portal."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- lives as long as the process
