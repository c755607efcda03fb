"""Why sessions waited."""

from dataclasses import dataclass
from datetime import datetime

from berth.decoding import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay(Record):
    """For what a session waited from `since` to `until`, None if it still does; `position`: when it began to."""

    since: datetime
    until: datetime | None = None
    reason: str = ""
    message: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTick(Record):
    """The last tick before some time of which all is kept, decided once more."""

    planned_at: datetime
    position: int = 0
    waiting: int = 0
    placed: int = 0
    is_same: bool = True
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWait(Record):
    """Why a session waited at some time."""

    at: datetime
    since: datetime
    reason: str = ""
    message: str = ""
    tick: PastTick | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Record):
    """For what a session waited, the oldest first; `wait` at the time that was asked for, None if it did not wait then."""

    stays: tuple[Stay, ...] = ()
    wait: PastWait | None = None
