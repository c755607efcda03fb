"""Current time, detection of clock jumps, and SQL to shift timestamps after one."""

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
    """Return the current time, aware, in UTC."""
    return _frozen.get() or datetime.now(UTC)


@contextmanager
def frozen_at(instant: datetime) -> Iterator[None]:
    """Make `now()` return `instant` within the block, in this context only. For tests."""
    token = _frozen.set(instant)
    try:
        yield
    finally:
        _frozen.reset(token)


def start_of(instant: datetime, span_s: int) -> datetime:
    """Return the start of the span of `span_s` that contains `instant`; spans begin at the epoch."""
    seconds = int(instant.timestamp())
    return datetime.fromtimestamp(seconds - seconds % span_s, instant.tzinfo)


def clock_offset() -> float:
    """Return the offset of the wall clock to the monotonic clock in seconds. It changes only when
    the time is set or the machine sleeps.
    """
    return time.time() - time.monotonic()


def monotonic() -> float:
    """Return seconds of the monotonic clock: equal for all processes of a machine until it boots;
    does not advance while the machine sleeps.
    """
    return time.monotonic()


def jump_since(earlier: float | None) -> timedelta | None:
    """Return the size of the clock jump since that `reading` on this machine: zero for small
    corrections by a time server, None without a reading.
    """
    if earlier is None:
        return None
    step = timedelta(seconds=clock_offset() - earlier)
    return step if abs(step) > TOLERATED else timedelta(0)


@cache
def machine_id() -> str:
    """Return the boot id of this machine; readings of different boots are not comparable."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


AHEAD = timedelta(seconds=20)
"""Tolerance for timestamps slightly in the future: due stops, or a clock that is a little ahead."""


@dataclass(frozen=True, slots=True)
class ClockJump:
    """Clock jump of `by` within the last `unseen` (monotonic); `now` is by the new clock."""

    by: timedelta
    now: datetime
    unseen: timedelta

    def is_since(self, name: str) -> Q:
        """Return the condition that the field `name` was written by the new clock."""
        return Q(**{f"{name}__gt": self.now - self.unseen, f"{name}__lte": self.now + AHEAD})

    def shifted(self, name: str, *, unless: Q | None = None) -> Combinable:
        """Return the UPDATE value of the field `name`: shifted, unless written by the new clock."""
        return Case(
            When(self.is_since(name) if unless is None else unless, then=F(name)),
            default=F(name) + self.by,
            output_field=DateTimeField(),
        )
