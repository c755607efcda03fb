"""Values that explain why sessions were pending."""

from dataclasses import dataclass
from datetime import datetime

from berth.decoding import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay(Record):
    """Interval in which a session was pending for one reason; `until` None: it still is.

    `position` is its queue position at the start.
    """

    since: datetime
    until: datetime | None = None
    reason: str = ""
    message: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTick(Record):
    """Replay of the last complete scheduler tick before an instant."""

    planned_at: datetime
    position: int = 0
    waiting: int = 0
    placed: int = 0
    is_same: bool = True
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWait(Record):
    """Reason for which a session was pending at an instant."""

    at: datetime
    since: datetime
    reason: str = ""
    message: str = ""
    tick: PastTick | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Record):
    """Reasons for which a session was pending, oldest first.

    `wait` is the reason at the requested instant; None if it was not pending then.
    """

    stays: tuple[Stay, ...] = ()
    wait: PastWait | None = None
