"""The register of attacks: functions that return a verdict and evidence, or raise the refusal."""

import errno
from collections.abc import Callable
from typing import Any

THROUGH, HELD, ABSENT = "through", "held", "absent"
"""The attack did what it wanted; it was refused; this kernel has no such thing."""

NO_SUCH_THING = {errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENODEV, errno.ENXIO}
ROWS: dict[str, Callable[[], tuple[str, str]]] = {}
FACTS: dict[str, Any] = {}
"""What the one outside knows: ports, addresses, limits."""


def row(name: str) -> Callable[[Callable[[], tuple[str, str]]], Callable[[], tuple[str, str]]]:
    def register(function):
        ROWS[name] = function
        return function

    return register


def is_absence(error: OSError) -> bool:
    return error.errno in NO_SUCH_THING or isinstance(error, FileNotFoundError)
