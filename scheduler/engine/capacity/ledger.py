"""Free capacity of the agents of a pass, how much of it is open to all, and what was taken."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from scheduler.engine.accelerators import DeviceShare
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.request_class import CandidateQueries
from scheduler.engine.values import ASSUMED_RUNTIME

Until = datetime | None  # at the latest; None: unknown
Release = tuple[datetime, int]  # time, and the capacity released then


class Released(NamedTuple):
    """Capacity released on an agent, without devices that others share, and the released shares of
    devices.
    """

    amount: int
    shares: tuple[DeviceShare, ...]


class AssignedPart(NamedTuple):
    """Part of a device that a kernel got in this pass. `joining_request`: its request without the
    device.
    """

    slot_name: str
    device_id: int
    amount: int
    until: Until
    joining_request: int

    @property
    def share(self) -> DeviceShare:
        return DeviceShare(self.slot_name, self.device_id, self.amount)


class Taken(NamedTuple):
    """Capacity that a kernel took; `left_over`: as counted beside a backfill reservation."""

    agent_number: int
    amount: int
    left_over: int
    until: Until
    part: AssignedPart | None = None


@dataclass(slots=True)
class CapacityHold:
    """Backfill reservation on an agent: `free`: all free capacity; `left_over`: capacity that will be
    free beside the reserving session; its start and its priority. The lesser of both amounts is
    open to all.
    """

    free: int
    left_over: int
    until: Until
    priority: int

    def take(self, amount: int, left_over: int) -> None:
        self.free -= amount
        self.left_over -= left_over


class CapacityLedger:
    def __init__(self, agents: AgentIndex, now: datetime, least_memory: int) -> None:
        """`least_memory`: the smallest memory request of the pass, as a vector."""
        self.open = agents.free[:]  # by agent number
        self.bins = [index.copy(self.open, least_memory) for index in agents.bins]
        self.holds: dict[int, CapacityHold] = {}  # by agent number
        self.held_until: Until = None  # latest known end of a reservation
        self.taken: list[Taken] = []
        self._agents = agents
        self._unknown_until = now + ASSUMED_RUNTIME

    def free(self, agent_number: int) -> int:
        """Return the free capacity there, reserved or not."""
        return self.holds[agent_number].free if agent_number in self.holds else self.open[agent_number]

    def assumed_end(self, until: Until) -> datetime:
        return self._unknown_until if until is None else until

    def is_open_until(self, pool: int, until: Until) -> bool:
        """Return True if a session with that end ends before the agents of the pool are reserved."""
        closes_at = self._agents.closes_at[pool]
        return closes_at is None or self.assumed_end(until) <= closes_at

    def open_pools(self, queries: CandidateQueries, until: Until) -> CandidateQueries:
        return tuple([each for each in queries if self.is_open_until(each[0], until)])

    def has_hold_beyond(self, until: Until) -> bool:
        """Return True if the session of some backfill reservation starts at `until` or later."""
        return until is not None and self.held_until is not None and until <= self.held_until

    def holds_beyond(self, until: datetime) -> Iterator[tuple[int, CapacityHold]]:
        """Yield agents whose reserving session starts only then or later; the oldest reservation first."""
        for agent_number, hold in self.holds.items():
            if hold.until is not None and until <= hold.until:
                yield agent_number, hold

    def set_open(self, agent_number: int, vector: int) -> None:
        self.bins[self._agents.pool_of[agent_number]].set_free(agent_number, vector)

    def update_open(self, agent_number: int) -> None:
        """Recompute the open capacity of an agent with a reservation."""
        hold = self.holds[agent_number]
        self.set_open(agent_number, self._agents.layout.lesser(hold.free, hold.left_over))

    def change(self, agent_number: int, amount: int, left_over: int) -> None:
        """Take so much; negative amounts give back."""
        hold = self.holds.get(agent_number)
        if hold is None:
            self.set_open(agent_number, self.open[agent_number] - amount)
        else:
            hold.take(amount, left_over)
            self.update_open(agent_number)

    def undo_last(self) -> Taken:
        taken = self.taken.pop()
        self.change(taken.agent_number, -taken.amount, -taken.left_over)
        return taken
