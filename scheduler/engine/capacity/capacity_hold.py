"""Backfill reservation on one agent during a pass, and records of taken capacity."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from scheduler.engine.accelerators import Share

Until = datetime | None  # at the latest; None: unknown
End = tuple[datetime, int]  # time, and the capacity released then
# Agent number, amount, end, taken from unreserved capacity.
Taken = tuple[int, int, Until, bool]


class Ended(NamedTuple):
    """Capacity released on an agent, without devices that others share, and the released shares of
    devices.
    """

    held: int
    shares: tuple[Share, ...]


@dataclass(slots=True)
class Kept:
    """Backfill reservation on an agent: `free`: all free capacity; `beside`: capacity that will be
    free beside the reserving session; its start and its priority. The lesser of both amounts is
    open to all.
    """

    free: int
    beside: int
    until: Until
    priority: int

    def take(self, request: int) -> None:
        """Take from the capacity that is open to all."""
        self.free -= request
        self.beside -= request
