"""One fault under observation: what a test does to the world, and what the observer makes of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.faults.observer import Observer, Watch


@dataclass(slots=True)
class Fault:
    """One fault, as the report tells of it."""

    observer: Observer
    began_at: float = 0.0
    seen: str = ""
    recovered_s: float = 0.0

    def begins(self) -> None:
        """The time to recover counts from here."""
        self.began_at = time.monotonic()

    def lasted_s(self) -> float:
        return time.monotonic() - self.began_at

    def recovers(self, seen: str) -> None:
        """All is in order again, says the observer."""
        self.observer.wait_until_settled()
        self.seen, self.recovered_s = seen, self.lasted_s()


@contextmanager
def observed(
    observer: Observer, item: pytest.Item, *, heal: Callable[[], None], tidy: Callable[[], None]
) -> Iterator[Fault]:
    """Around a test: the observer looks for what must never be, then the world is healed and tidied, and
    all must be in order. What was seen goes to the test's properties, for `tests.faults.results`.
    """
    watch = Watch(observer)
    one = Fault(observer)
    one.begins()
    try:
        try:
            yield one
        finally:
            heal()
        tidy()
        observer.wait_until_settled()
    finally:
        violations = watch.end()
    assert violations == []
    if one.seen:
        item.user_properties += [
            ("seen", one.seen),
            ("recovered_s", round(one.recovered_s, 1)),
            ("looks", watch.looks),
        ]
