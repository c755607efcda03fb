"""Agents as the engine reads them: capacity, allocations and reservation windows."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.accelerators import Share, SlotDevices


class Running(NamedTuple):
    """Allocation of one kernel on an agent, with its latest end."""

    slots: ResourceSlots
    ends_at: datetime
    shares: tuple[Share, ...] = ()  # parts of devices among `slots`
    # being preempted: it stays if the preempting session no longer needs the capacity
    is_leaving: bool = False


class Preemptible(NamedTuple):
    """Allocation of a session on an agent that may be preempted by one with a higher priority."""

    session_id: UUID
    priority: int
    since: datetime  # of running
    slots: ResourceSlots
    shares: tuple[Share, ...] = ()
    ends_at: datetime | None = None  # known end, as in its `Running`; None: unknown


class Window(NamedTuple):
    """Time in which an agent is reserved for the sessions that may use the reservation."""

    reservation_id: int
    starts_at: datetime
    ends_at: datetime

    def opens_at(self, reservations: frozenset[int]) -> datetime:
        """Return when the agent is open to sessions that may use these reservations."""
        return self.starts_at if self.reservation_id in reservations else self.ends_at


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent. `capacity` limits all of its kernels together, `real` each single kernel where it
    is less (overcommit). `free` = capacity − allocated; negative amounts count as zero. `window` is
    open now; sessions of others should end before `next_window` opens.
    """

    id: int
    architecture: str
    capacity: ResourceSlots
    free: ResourceSlots
    is_schedulable: bool = True
    running: tuple[Running, ...] = ()  # allocations with a known end
    preemptible: tuple[Preemptible, ...] = ()  # allocations that may be preempted
    window: Window | None = None
    next_window: Window | None = None
    real: ResourceSlots | None = None
    device_model: str = ""  # of all its devices; "" if they differ or are unknown
    devices: tuple[SlotDevices, ...] = ()  # for slots whose devices are known one by one
    # Allocations without a known end, with an expected one by past run times of similar sessions,
    # or by their own run time.
    expected: tuple[Running, ...] = ()

    @property
    def largest(self) -> ResourceSlots:
        """Return the most that one kernel can get on the empty agent."""
        return self.capacity if self.real is None else self.real
