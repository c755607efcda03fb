"""The current time, whether the system clock was set, and how timestamps in rows follow it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from django.db.models import Case, DateTimeField, F, Q, When
from django.db.models.expressions import Combinable

TOLERATED = timedelta(seconds=5)

_frozen: ContextVar[datetime | None] = ContextVar("frozen_instant", default=None)


def now() -> datetime:
    """The present instant, aware, UTC."""
    return _frozen.get() or datetime.now(UTC)


@contextmanager
def frozen_at(instant: datetime) -> Iterator[None]:
    """Within the block, and this context only, `now()` answers `instant`. For tests."""
    token = _frozen.set(instant)
    try:
        yield
    finally:
        _frozen.reset(token)


def reading() -> float:
    """How far the time of day is ahead of the machine's steady clock, in seconds: it changes only when somebody sets the
    time, or the machine slept."""
    return time.time() - time.monotonic()


def steady() -> float:
    """Seconds of a clock that nobody sets: the same for all processes of this machine, until it boots. It stands while the machine
    sleeps."""
    return time.monotonic()


def step_since(earlier: float | None) -> timedelta | None:
    """By how much the time was set since that `reading` on this machine: zero for what a time server corrects without
    notice, None if there is no such reading."""
    if earlier is None:
        return None
    step = timedelta(seconds=reading() - earlier)
    return step if abs(step) > TOLERATED else timedelta(0)


@cache
def machine_id() -> str:
    """Names this machine since it was booted; readings of one are nothing to another."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


AHEAD = timedelta(seconds=20)
"""So far in the future may an instant be that was written now: when a stop is due, or by a clock that is a little ahead."""


@dataclass(frozen=True, slots=True)
class Step:
    """The clock was set by `by` within the last `unseen`, a length by the steady clock; it is `now` by the new one."""

    by: timedelta
    now: datetime
    unseen: timedelta

    def is_since(self, name: str) -> Q:
        """That this instant was written by the new clock."""
        return Q(**{f"{name}__gt": self.now - self.unseen, f"{name}__lte": self.now + AHEAD})

    def moves(self, name: str, *, unless: Q | None = None) -> Combinable:
        """The value of an UPDATE: moved along, unless it was written by the new clock."""
        return Case(
            When(self.is_since(name) if unless is None else unless, then=F(name)),
            default=F(name) + self.by,
            output_field=DateTimeField(),
        )
