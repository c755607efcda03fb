"""Agents as the engine reads them: capacity, allocations and reservation windows."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from common.values.resources import MILLI, ResourceSlots
from scheduler.engine.accelerators import DeviceShare, SlotDevices

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunningAllocation(NamedTuple):
    """Allocation of one kernel on an agent, with its latest end."""

    slots: ResourceSlots
    ends_at: datetime
    shares: tuple[DeviceShare, ...] = ()  # parts of devices among `slots`
    # being preempted: it stays if the preempting session no longer needs the capacity
    is_being_preempted: bool = False


class PreemptibleAllocation(NamedTuple):
    """Allocation of a session on an agent that may be preempted by one with a higher priority."""

    session_id: UUID
    priority: int
    since: datetime  # of running
    slots: ResourceSlots
    shares: tuple[DeviceShare, ...] = ()
    ends_at: datetime | None = None  # known end, as in its `Running`; None: unknown


class ReservationWindow(NamedTuple):
    """Time in which an agent is reserved for the sessions that may use the reservation."""

    reservation_id: int
    starts_at: datetime
    ends_at: datetime

    def opens_at(self, reservations: frozenset[int]) -> datetime:
        """Return when the agent is open to sessions that may use these reservations."""
        return self.starts_at if self.reservation_id in reservations else self.ends_at


class Closure(NamedTuple):
    """Reason for which an agent takes no sessions: its maintenance with its end (None: unknown), or the
    sandbox of the group, which its engine lacks.
    """

    sandbox: str = ""
    until: datetime | None = None
    because: str = ""


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
    running: tuple[RunningAllocation, ...] = ()  # allocations with a known end
    preemptible: tuple[PreemptibleAllocation, ...] = ()  # allocations that may be preempted
    window: ReservationWindow | None = None
    next_window: ReservationWindow | None = None
    real_capacity: ResourceSlots | None = None
    device_model: str = ""  # of all its devices; "" if they differ or are unknown
    device_mem_bytes: int = 0  # least memory of its devices; 0: unknown
    device_api_version: int = 0  # least version that the drivers of its devices support; 0: unknown
    isolation: int = 0  # rank of the isolation that parts of its devices have; 0: none
    storage_hosts: frozenset[str] = frozenset()  # that it reaches
    devices: tuple[SlotDevices, ...] = ()  # for slots whose devices are known one by one
    # Allocations without a known end, with an expected one by past run times of similar sessions,
    # or by their own run time.
    expected_ends: tuple[RunningAllocation, ...] = ()
    closure: Closure | None = None  # if it is not schedulable for one of these reasons

    @property
    def largest(self) -> ResourceSlots:
        """Return the most that one kernel can get on the empty agent."""
        return self.capacity if self.real_capacity is None else self.real_capacity

    def linked(self, slot_name: str) -> int:
        """Return the most of a slot in one group of linked devices, free or not."""
        devices = self.devices_of(slot_name)
        return MILLI * max(devices.links, default=0) if devices else 0

    def devices_of(self, slot_name: str) -> SlotDevices | None:
        """Return the devices of a slot; None if they are unknown."""
        return next((each for each in self.devices if each.slot_name == slot_name), None)


def common_closure(agents: Iterable[AgentView]) -> Closure | None:
    """Return the closure of all these agents, the earliest end first; None if one has none, or there is no
    agent. An agent in maintenance may open, so those that lack the sandbox count only if all do.
    """
    closures = [agent.closure for agent in agents]
    able = [each for each in closures if each is None or not each.sandbox]
    found = [each for each in able or closures if each is not None]
    if not found or None in able:
        return None
    return min(found, key=lambda each: (each.until is None, each.until or EPOCH, each.because))


def total_capacity(agents: Iterable[AgentView]) -> dict[str, int]:
    """Return the total capacity of the agents by slot."""
    total: dict[str, int] = {}
    for agent in agents:
        for name, amount in agent.capacity.items():
            total[name] = total.get(name, 0) + amount
    return total
