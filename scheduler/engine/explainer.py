"""Explain why a session found no capacity: a reason code and the numbers that prove it."""

import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from operator import attrgetter
from uuid import UUID

from common.values.resources import MILLI, ResourceSlots
from scheduler.engine.accelerators import whole_of
from scheduler.engine.capacity.capacity_hold import Until
from scheduler.engine.capacity.reservation_windows import Closings
from scheduler.engine.capacity.tracker import Machines
from scheduler.engine.columns import Columns
from scheduler.engine.index.request_shape import Shape
from scheduler.engine.index.resource_vector import FIELD_MASK, Layout, most_apart
from scheduler.engine.plan import Deferral, DeviceRoom, Excess, Explanation, Reserved
from scheduler.engine.policy.quota_tracker import Allowances
from scheduler.engine.snapshot import PendingSession
from scheduler.engine.values import HostTerms, ReasonCode

MOST_IN_A_SUM = 1000  # vectors: the sum of more could overflow a field
ANY_PRIORITY = sys.maxsize


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of a set of agents for one kernel: the undominated vectors, and the total."""

    vectors: list[int]
    total: ResourceSlots


class Diagnosis:
    """Explainer of deferrals by the capacity that is free at the end of a pass. Equal needs are
    judged once.
    """

    def __init__(
        self,
        machines: Machines,
        layout: Layout,
        allowances: Allowances,
        making_room: Mapping[UUID, datetime],
        waiting: Iterable[PendingSession],
        *,
        is_raise_enough: bool,
    ) -> None:
        """`making_room`: by session with preemptions in progress, their latest end. `waiting`: all
        deferred sessions in order. `is_raise_enough`: False with ageing.
        """
        self._making_room = making_room
        self._allowances = allowances
        self._machines = machines
        self._layout = layout
        self._rooms: dict[tuple[HostTerms, int | None], tuple[Room, Room]] = {}
        self._device_rooms: dict[HostTerms, dict[str, list[int]]] = {}  # by slot
        self._known: dict[Shape, Explanation] = {}
        # Explanations of shapes that depend on the end time, by the number of windows that begin
        # before it.
        self._known_until: dict[int, dict[Shape, Explanation]] = {}
        self._closings = Closings(machines, layout)
        self._waiting = waiting
        # positions of deferred sessions by priority, filled on demand
        self._positions: dict[int, list[int]] = {}
        self._outranked: dict[tuple[Explanation, int], Explanation] = {}
        self._exceeding: dict[tuple[Explanation, str], Explanation] = {}
        self._endless: dict[tuple[Explanation, bool], Explanation] = {}
        self._is_raise_enough = is_raise_enough
        machines.open_all()
        allowances.open_all()

    def of_all(self, sessions: Sequence[PendingSession], shapes: Sequence[Shape]) -> Sequence[Deferral]:
        """Explain all deferred sessions. Most sessions of a shape share one explanation, which is
        reused without a full check.
        """
        guards, usual, leasts = self._layout.guards, dict[Shape, Explanation](), self._allowances.leasts
        told = list[Explanation]()
        tell = told.append
        for position, (session, shape) in enumerate(zip(sessions, shapes, strict=True), start=1):
            known = usual.get(shape)
            least = leasts.get(session.scopes) if known else None
            if known and least is not None and (least - shape.total) & guards == guards:
                tell(known)
                continue
            why = self._why(session, shape, position)
            tell(why)
            if why is self._known.get(shape) and self._is_usual(why, shape):
                usual[shape] = why
        ids = list(map(attrgetter("id"), sessions))
        return Columns(Deferral, ids, range(1, len(ids) + 1), told)

    def _is_usual(self, why: Explanation, shape: Shape) -> bool:
        """Return True if only quotas can change the explanation among sessions of this shape."""
        return not (shape.is_bounded or self._making_room or why.reason is ReasonCode.KEPT_FREE)

    def of(self, session: PendingSession, shape: Shape, position: int) -> Deferral:
        """Return the deferral of a session at `position` among those deferred."""
        why = self._why(session, shape, position)
        # a third of the time of calling the class
        return tuple.__new__(Deferral, (session.id, position, why))

    def _why(self, session: PendingSession, shape: Shape, position: int) -> Explanation:
        # otherwise the end makes no difference
        until = self._machines.ends_at(session.lasts) if shape.is_bounded else None
        known = self._known
        if until is not None:
            known = self._known_until.setdefault(self._machines.windows_before(until), {})
        why = known.get(shape)
        if why is None:
            why = known[shape] = self._judge(shape, until)
        if excess := self._allowances.excess(session, shape):
            why = self._exceeds(why, excess)
        elif self._making_room and (ends_at := self._making_room.get(session.id)):
            why = replace(why, reason=ReasonCode.MAKING_ROOM, until=ends_at)
        elif why.reason is ReasonCode.KEPT_FREE:
            why = self._kept_from(why, session, shape, until, position)
        return why

    def _kept_from(
        self, why: Explanation, session: PendingSession, shape: Shape, until: Until, position: int
    ) -> Explanation:
        """Refine `kept_free`: determine which reservation keeps the session off the free capacity."""
        allowances = self._allowances
        ahead = self._count_above(session.priority, position)
        if ahead and self._is_outranked(session, shape, until):
            return self._waits_for_priority(why, ahead)
        if not allowances.are_kept(session.scopes):
            return why
        is_limit = not allowances.leave_beside(session, shape, ANY_PRIORITY)
        return self._without_end(why, is_limit=is_limit)

    def _without_end(self, why: Explanation, *, is_limit: bool) -> Explanation:
        """Return the explanation without an end: reserved quota is not lent to sessions that end in
        time.
        """
        key = why, is_limit
        if key not in self._endless:
            self._endless[key] = replace(why, is_end_known=False, is_limit_kept=is_limit)
        return self._endless[key]

    def _exceeds(self, why: Explanation, excess: Excess) -> Explanation:
        key = why, excess.allowance.key
        if key not in self._exceeding:
            is_spent = excess.allowance.is_spent
            reason = ReasonCode.BUDGET_SPENT if is_spent else ReasonCode.LIMIT_REACHED
            self._exceeding[key] = replace(why, reason=reason, excess=excess)
        return self._exceeding[key]

    def _is_outranked(self, session: PendingSession, shape: Shape, until: Until) -> bool:
        """Return True if the session lacks capacity only because it is reserved for sessions with a
        higher priority.
        """
        has_room = self._machines.has_room_beside(shape, until, session.priority)
        return has_room and self._allowances.leave_beside(session, shape, session.priority)

    def _waits_for_priority(self, why: Explanation, ahead: int) -> Explanation:
        key = why, ahead
        if key not in self._outranked:
            is_enough = self._is_raise_enough
            self._outranked[key] = replace(
                why, reason=ReasonCode.PRIORITY, ahead=ahead, is_raise_enough=is_enough
            )
        return self._outranked[key]

    def _count_above(self, priority: int, position: int) -> int:
        """Return the number of sessions with a higher priority before that position."""
        if not self._positions:
            for place, session in enumerate(self._waiting, start=1):
                self._positions.setdefault(session.priority, []).append(place)
        higher = (places for each, places in self._positions.items() if each > priority)
        return sum(bisect_left(places, position) for places in higher)

    def _judge(self, shape: Shape, until: Until) -> Explanation:
        needs = shape.needs
        if shape.largest_kernel is None and not shape.is_together:
            requests = {self._layout.pack_request(slots): slots for slots in needs.kernels}
        else:
            requests = {shape.total: needs.total}
        free, capacity = self._free_and_capacity(shape)
        reserved = self._closings.in_the_way(shape, until)
        reason, room = self._reason(shape, until, requests, free, capacity, reserved)

        nearest = {request: self._layout.nearest(request, room.vectors) for request in requests}
        blocked = [request for request, found in nearest.items() if not self._layout.fits(request, found)]
        subject = max(blocked or requests)
        return Explanation(
            reason=reason,
            architecture=needs.architecture,
            kernel_count=len(needs.kernels),
            asked=needs.total,
            asked_by_kernel=requests[subject],
            best_agent=self._layout.unpack(nearest[subject]),
            group=room.total,
            is_end_known=reason is ReasonCode.KEPT_FREE and self._machines.lent_to(shape),
            reserved=reserved if reason is ReasonCode.RESERVATION else None,
            is_host_gone=reason is ReasonCode.AGENT_UNAVAILABLE and not capacity.vectors,
            device_model=needs.device_model,
            devices=self._device_room(shape, nearest[subject]) if reason is ReasonCode.FRAGMENTED else None,
            gang=needs.gang,
            agents_with_room=self._apart_in(shape, reason),
            companions=needs.companions,
            hosts=self._count_hosts(shape) if reason is ReasonCode.PLACEMENT_RULE else 0,
        )

    def _reason(
        self,
        shape: Shape,
        until: Until,
        requests: Iterable[int],
        free: Room,
        capacity: Room,
        reserved: Reserved | None,
    ) -> tuple[ReasonCode, Room]:
        """Return the reason code and the capacity that proves it."""
        asked, is_named = shape.needs.total, shape.needs.required_agent_id is not None
        nobody = ReasonCode.AGENT_UNAVAILABLE if is_named else ReasonCode.NO_AGENTS, free
        if not (free.vectors or self._closings.is_any(shape, until)):
            return nobody
        if not asked.fits_in(capacity.total):
            return ReasonCode.NEVER_FITS, capacity
        if not all(self._fits_any(request, capacity) for request in requests):
            return ReasonCode.NEVER_FITS, capacity
        if shape.is_spread and self._most_apart(shape, is_empty=True) < len(shape.order):
            return ReasonCode.NEVER_FITS, capacity
        if self._machines.has_room(shape, until):
            return ReasonCode.KEPT_FREE, free
        if self._is_ruled_out(shape, until):
            return ReasonCode.PLACEMENT_RULE, free
        if reserved is not None:
            return ReasonCode.RESERVATION, free
        if not free.vectors:  # and reserved agents could never run it
            return nobody
        return (ReasonCode.FRAGMENTED if asked.fits_in(free.total) else ReasonCode.NO_CAPACITY), free

    def _fits_any(self, request: int, room: Room) -> bool:
        return any(self._layout.fits(request, vector) for vector in room.vectors)

    def _free_and_capacity(self, shape: Shape) -> tuple[Room, Room]:
        """Return free capacity of the schedulable agents that could host it, and total capacity of
        all of them.
        """
        needs, largest = shape.needs, shape.largest_kernel
        key = needs.host_terms, largest
        if key not in self._rooms:
            found = self._machines.free_vectors(needs)
            for_one = {room & ~FIELD_MASK for room in self._machines.rooms_for_one(found, largest)}
            sizes = self._machines.sizes(needs, largest)
            self._rooms[key] = self._room(found, for_one), self._room(sizes.capacities, sizes.largest)
        return self._rooms[key]

    def _device_room(self, shape: Shape, best: int) -> DeviceRoom | None:
        """Return what is free of the device slot that its only kernel lacks; None if an amount is
        lacking. `best`: free slots of the nearest agent.
        """
        asked = shape.needs.total
        if len(shape.order) > 1 or not asked.fits_in(self._layout.unpack(best)):
            return None
        known = self._rooms_by_device(shape)
        rooms = [self._devices_beside(shape, name, found) for name, found in known if name in asked]
        # Prefers a slot of which some is free on agents with capacity for the rest.
        some = (each for each in rooms if 0 < most_for(asked, each) < asked[each.slot_name])
        return next(chain(some, rooms), None)

    def _rooms_by_device(self, shape: Shape) -> Iterable[tuple[str, list[int]]]:
        terms = shape.needs.host_terms
        if terms not in self._device_rooms:
            self._device_rooms[terms] = {
                name: self._layout.outermost(room & ~FIELD_MASK for room in rooms)
                for name, rooms in self._machines.device_rooms(shape.needs).items()
            }
        return self._device_rooms[terms].items()

    def _devices_beside(self, shape: Shape, name: str, rooms: Iterable[int]) -> DeviceRoom:
        """Return what is free of these devices on agents with capacity for the rest of the only
        kernel.
        """
        layout = self._layout
        whole, of_one = layout.shift_of(whole_of(name)), layout.shift_of(name)
        rest = shape.total & ~(FIELD_MASK << whole | FIELD_MASK << of_one)
        found = [room for room in rooms if layout.fits(rest, room)]
        return DeviceRoom(
            name, *[max([room >> each & FIELD_MASK for room in found], default=0) for each in (whole, of_one)]
        )

    def _most_apart(self, shape: Shape, *, is_empty: bool) -> int:
        """Return how many of its kernels get an agent each."""
        machines, needs = self._machines, shape.needs
        if is_empty:
            return most_apart(shape.requests, machines.sizes_of_each(needs), self._layout.fits)
        rooms = machines.rooms_for_one(machines.free_vectors(needs), None)
        return most_apart(shape.requests, rooms, self._fits_on)

    def _fits_on(self, request: int, room: int) -> bool:
        """Return True if the request fits in `room` on its agent, including shared devices."""
        return self._machines.holds(room & FIELD_MASK, request, room)

    def _apart_in(self, shape: Shape, reason: ReasonCode) -> int:
        """Return how many of its kernels get an agent each now (`never_fits`: on empty agents);
        always one short.
        """
        if not shape.is_spread:
            return 0
        found = self._most_apart(shape, is_empty=reason is ReasonCode.NEVER_FITS)
        return min(found, len(shape.order) - 1)

    def _is_ruled_out(self, shape: Shape, until: Until) -> bool:
        """Return True if only the rule of its placement group prevents a placement."""
        hosting = self._machines.hosting
        if not hosting.is_in_the_way(shape.needs):
            return False
        with hosting.ignored():
            return self._machines.has_room(shape, until)

    def _count_hosts(self, shape: Shape) -> int:
        """Return the number of agents that matter for `placement_rule`: those excluded by it, or
        those that host the group.
        """
        assert shape.needs.companions is not None
        key, rule = shape.needs.companions
        machines, smallest = self._machines, shape.requests[-1]
        hosts = machines.hosting.hosts_of(key)
        if rule.is_apart:
            return sum(self._fits_on(smallest, machines.room(each)) for each in hosts)
        return len(hosts)

    def _room(self, vectors: list[int], for_one: Iterable[int]) -> Room:
        total: dict[str, int] = {}
        for start in range(0, len(vectors), MOST_IN_A_SUM):
            together = self._layout.unpack(sum(vectors[start : start + MOST_IN_A_SUM]))
            for name, amount in together.items():
                total[name] = total.get(name, 0) + amount
        return Room(self._layout.outermost(for_one), ResourceSlots(total))


def most_for(asked: ResourceSlots, room: DeviceRoom) -> int:
    """Return the usable amount of a device slot: of one device for a request in parts, else in
    whole devices.
    """
    return room.most_of_one if asked[room.slot_name] % MILLI else room.whole
