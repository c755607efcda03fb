"""Wait for a condition with a deadline, instead of a fixed time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], *, deadline_s: float = 30, interval_s: float = 0.02) -> T:
    """Return the first true value of `predicate()`, called every `interval_s` seconds.

    Raises AssertionError after `deadline_s`.
    """
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (value := predicate()):
        if time.monotonic() >= end:
            name = getattr(predicate, "__qualname__", repr(predicate))
            raise AssertionError(f"{name} did not become true within {deadline_s} s; last value: {value!r}.")
        pause.wait(interval_s)
    return value
