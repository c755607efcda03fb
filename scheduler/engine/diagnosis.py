"""Why a session found no room, in one code and the numbers that show it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.slots import ResourceSlots
from scheduler.engine.allowances import Allowances
from scheduler.engine.machines import Machines
from scheduler.engine.model import Deferral, PendingSession, ReasonCode, Snapshot
from scheduler.engine.vectors import Layout

Needs = tuple[str, int | None, tuple[ResourceSlots, ...]]


@dataclass(frozen=True, slots=True)
class Room:
    """What some agents have: a vector each, and all together (a sum would overflow the field of a vector)."""

    vectors: list[int]
    total: ResourceSlots


class Diagnosis:
    """Judges by what is free when the pass ends, one picture for all; equal needs are judged once."""

    def __init__(
        self, snapshot: Snapshot, machines: Machines, layout: Layout, allowances: Allowances
    ) -> None:
        self._snapshot = snapshot
        self._allowances = allowances
        self._machines = machines
        self._layout = layout
        self._rooms: dict[tuple[str, int | None], tuple[Room, Room]] = {}
        self._known: dict[Needs, Deferral] = {}

    def of(self, session: PendingSession, position: int) -> Deferral:
        """The deferral of a session that the pass did not place, `position`-th of those that wait."""
        kernels = tuple(kernel.slots for kernel in session.kernels)
        needs = (session.architecture, session.designated_agent_id, kernels)
        if needs not in self._known:
            self._known[needs] = self._judge(session)
        deferral = replace(self._known[needs], session_id=session.id, position=position)
        if excess := self._allowances.excess(session):
            is_spent = excess.allowance.is_spent
            reason = ReasonCode.BUDGET_SPENT if is_spent else ReasonCode.LIMIT_REACHED
            return replace(deferral, reason=reason, excess=excess)
        return deferral

    def _judge(self, session: PendingSession) -> Deferral:
        asked = _sum(kernel.slots for kernel in session.kernels)
        requests = {self._layout.pack_request(kernel.slots): kernel.slots for kernel in session.kernels}
        free, capacity = self._free_and_capacity(session)
        reason, room = self._reason(session, asked, requests, free, capacity)

        blocked = [request for request in requests if not self._fits_any(request, room)]
        subject = max(blocked or requests)
        nearest = max(room.vectors, key=lambda vector: self._layout.nearness(subject, vector), default=0)
        return Deferral(
            session_id=session.id,
            position=0,
            reason=reason,
            architecture=session.architecture,
            kernel_count=len(session.kernels),
            asked=asked,
            asked_by_kernel=requests[subject],
            best_agent=self._layout.unpack(nearest),
            group=room.total,
        )

    def _reason(
        self,
        session: PendingSession,
        asked: ResourceSlots,
        requests: Iterable[int],
        free: Room,
        capacity: Room,
    ) -> tuple[ReasonCode, Room]:
        """The code, and the room that proves it."""
        if not free.vectors and session.designated_agent_id is not None:
            return ReasonCode.AGENT_UNAVAILABLE, free
        if not free.vectors:
            return ReasonCode.NO_AGENTS, free
        if not asked.fits_in(capacity.total):
            return ReasonCode.NEVER_FITS, capacity
        if not all(self._fits_any(request, capacity) for request in requests):
            return ReasonCode.NEVER_FITS, capacity
        return (ReasonCode.FRAGMENTED if asked.fits_in(free.total) else ReasonCode.NO_CAPACITY), free

    def _fits_any(self, request: int, room: Room) -> bool:
        return any(self._layout.fits(request, vector) for vector in room.vectors)

    def _free_and_capacity(self, session: PendingSession) -> tuple[Room, Room]:
        """Of the agents that could host `session`: what the schedulable have free, what all have at all."""
        key = (session.architecture, session.designated_agent_id)
        if key not in self._rooms:
            free = self._machines.free_vectors(session)
            capacities = [agent.capacity for agent in self._snapshot.agents if session.may_run_on(agent)]
            distinct = sorted({self._layout.pack_room(capacity, 0) for capacity in capacities})
            self._rooms[key] = (
                Room(free, _sum(map(self._layout.unpack, free))),
                Room(distinct, _sum(capacities)),
            )
        return self._rooms[key]


def _sum(amounts: Iterable[ResourceSlots]) -> ResourceSlots:
    total: dict[str, int] = {}
    for slots in amounts:
        for name, amount in slots.items():
            total[name] = total.get(name, 0) + amount
    return ResourceSlots(total)
