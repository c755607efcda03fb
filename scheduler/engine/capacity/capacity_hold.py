"""Backfill reservation on one agent during a pass, and records of taken capacity."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from scheduler.engine.accelerators import DeviceShare

Until = datetime | None  # at the latest; None: unknown
Release = tuple[datetime, int]  # time, and the capacity released then
# Agent number, amount, end, taken from unreserved capacity.
Taken = tuple[int, int, Until, bool]


class Released(NamedTuple):
    """Capacity released on an agent, without devices that others share, and the released shares of
    devices.
    """

    amount: int
    shares: tuple[DeviceShare, ...]


@dataclass(slots=True)
class CapacityHold:
    """Backfill reservation on an agent: `free`: all free capacity; `beside`: capacity that will be
    free beside the reserving session; its start and its priority. The lesser of both amounts is
    open to all.
    """

    free: int
    left_over: int
    until: Until
    priority: int

    def take(self, request: int) -> None:
        """Take from the capacity that is open to all."""
        self.free -= request
        self.left_over -= request
