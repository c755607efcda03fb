"""What the engine reads of agents: what they have, who runs there, and for whom they are reserved."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.accelerators import Share, SlotDevices


class Running(NamedTuple):
    """What one kernel holds on an agent, and until when at the latest."""

    slots: ResourceSlots
    ends_at: datetime
    shares: tuple[Share, ...] = ()  # of this, the parts of devices that it shares
    is_leaving: bool = False  # for one that waits: it stays where that one needs its room no more


class Preemptible(NamedTuple):
    """What a session holds on an agent that may be ended for one of a higher priority."""

    session_id: UUID
    priority: int
    since: datetime  # it runs
    slots: ResourceSlots
    shares: tuple[Share, ...] = ()
    ends_at: datetime | None = None  # by itself, as its `Running` says; None: nobody knows


class Window(NamedTuple):
    """A time in which an agent is reserved, for those who may use that reservation alone."""

    reservation_id: int
    starts_at: datetime
    ends_at: datetime

    def opens_at(self, reservations: frozenset[int]) -> datetime:
        """When the agent takes again what this keeps off, of whoever may use these reservations."""
        return self.starts_at if self.reservation_id in reservations else self.ends_at


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent. `capacity` is what its kernels together may hold, `real` what it has where that is less: more than that no
    kernel gets. `free` = capacity − occupied; negative amounts count as zero. `window` is open now; when `next_window` opens, what
    runs there by others should have ended."""

    id: int
    architecture: str
    capacity: ResourceSlots
    free: ResourceSlots
    is_schedulable: bool = True
    running: tuple[Running, ...] = ()  # of what is occupied, that whose end is known
    preemptible: tuple[Preemptible, ...] = ()  # and that which may be ended for somebody
    window: Window | None = None
    next_window: Window | None = None
    real: ResourceSlots | None = None
    device_model: str = ""  # of all its devices; "" where they differ, or nobody knows
    devices: tuple[SlotDevices, ...] = ()  # of those slots whose devices are known one by one
    # Of what is occupied, that whose end nobody knows, with when it is expected: from how long others like it ran, or it has run.
    expected: tuple[Running, ...] = ()

    @property
    def largest(self) -> ResourceSlots:
        """What one kernel gets at most, were the agent empty."""
        return self.capacity if self.real is None else self.real
