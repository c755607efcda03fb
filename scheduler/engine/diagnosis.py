"""Why a session found no room, in one code and the numbers that show it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.slots import ResourceSlots
from scheduler.engine.allowances import Allowances
from scheduler.engine.machines import Machines
from scheduler.engine.model import (
    Deferral,
    Excess,
    Explanation,
    Needs,
    PendingSession,
    ReasonCode,
    Snapshot,
)
from scheduler.engine.shapes import Shape
from scheduler.engine.vectors import FIELD_MASK, Layout


@dataclass(frozen=True, slots=True)
class Room:
    """What some agents have: the vectors that occur, and all together."""

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
        self._known: dict[int, Explanation] = {}
        self._exceeding: dict[tuple[int, str], Explanation] = {}
        self._is_end_known = machines.knows_until()
        machines.open_all()
        allowances.open_all()

    def of(self, session: PendingSession, shape: Shape, position: int) -> Deferral:
        """The deferral of a session that the pass did not place, `position`-th of those that wait."""
        why = self._known.get(id(shape))
        if why is None:
            why = self._known[id(shape)] = self._judge(shape)
        if excess := self._allowances.excess(session, shape):
            why = self._exceeds(why, shape, excess)
        return Deferral(session.id, position, why)

    def _exceeds(self, why: Explanation, shape: Shape, excess: Excess) -> Explanation:
        key = (id(shape), excess.allowance.key)
        if key not in self._exceeding:
            is_spent = excess.allowance.is_spent
            reason = ReasonCode.BUDGET_SPENT if is_spent else ReasonCode.LIMIT_REACHED
            self._exceeding[key] = replace(why, reason=reason, excess=excess)
        return self._exceeding[key]

    def _judge(self, shape: Shape) -> Explanation:
        needs = shape.needs
        requests = {self._layout.pack_request(slots): slots for slots in needs.kernels}
        free, capacity = self._free_and_capacity(needs)
        reason, room = self._reason(shape, requests, free, capacity)

        blocked = [request for request in requests if not self._fits_any(request, room)]
        subject = max(blocked or requests)
        nearest = max(room.vectors, key=lambda vector: self._layout.nearness(subject, vector), default=0)
        return Explanation(
            reason=reason,
            architecture=needs.architecture,
            kernel_count=len(needs.kernels),
            asked=needs.total,
            asked_by_kernel=requests[subject],
            best_agent=self._layout.unpack(nearest),
            group=room.total,
            is_end_known=self._is_end_known,
        )

    def _reason(
        self, shape: Shape, requests: Iterable[int], free: Room, capacity: Room
    ) -> tuple[ReasonCode, Room]:
        """The code, and the room that proves it."""
        asked = shape.needs.total
        if not free.vectors and shape.needs.designated_agent_id is not None:
            return ReasonCode.AGENT_UNAVAILABLE, free
        if not free.vectors:
            return ReasonCode.NO_AGENTS, free
        if not asked.fits_in(capacity.total):
            return ReasonCode.NEVER_FITS, capacity
        if not all(self._fits_any(request, capacity) for request in requests):
            return ReasonCode.NEVER_FITS, capacity
        if self._machines.has_room(shape):
            return ReasonCode.KEPT_FREE, free
        return (ReasonCode.FRAGMENTED if asked.fits_in(free.total) else ReasonCode.NO_CAPACITY), free

    def _fits_any(self, request: int, room: Room) -> bool:
        return any(self._layout.fits(request, vector) for vector in room.vectors)

    def _free_and_capacity(self, needs: Needs) -> tuple[Room, Room]:
        """Of the agents that could host `needs`: what the schedulable have free, what all have at all."""
        key = (needs.architecture, needs.designated_agent_id)
        if key not in self._rooms:
            hosts = [agent for agent in self._snapshot.agents if needs.may_run_on(agent)]
            free = Counter(vector & ~FIELD_MASK for vector in self._machines.free_vectors(needs))
            capacity = Counter(map(self._layout.pack_room, (agent.capacity for agent in hosts)))
            self._rooms[key] = self._room(free), self._room(capacity)
        return self._rooms[key]

    def _room(self, counts: Counter[int]) -> Room:
        total: dict[str, int] = {}  # a sum of vectors could overflow a field
        for vector, count in counts.items():
            for name, amount in self._layout.unpack(vector).items():
                total[name] = total.get(name, 0) + amount * count
        return Room(sorted(counts), ResourceSlots(total))
