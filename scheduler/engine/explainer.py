"""Explain why a session found no capacity: a reason code and the numbers that prove it."""

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from operator import attrgetter, methodcaller
from uuid import UUID

from common.values.resources import CPU, MEM, MILLI, ResourceSlots, placeable_count
from scheduler.engine.accelerators import whole_slot
from scheduler.engine.agent_views import AgentView, common_closure
from scheduler.engine.capacity.ledger import Until
from scheduler.engine.capacity.reservation_windows import ReservationWindows
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.columns import Columns
from scheduler.engine.index.request_class import RequestClass
from scheduler.engine.index.resource_vector import FIELD_MASK, Layout, spread_count
from scheduler.engine.plan import (
    Deferral,
    Excess,
    Explanation,
    FreeDevices,
    LinkedRoom,
    ReservedAgents,
    UnmetDemand,
)
from scheduler.engine.policy.quota_tracker import QuotaTracker
from scheduler.engine.snapshot import PendingSession, Requirements
from scheduler.engine.values import NO_SLOTS, Demand, Gang, HostCriteria, ReasonCode

MOST_IN_A_SUM = 1000  # vectors: the sum of more could overflow a field
ANY_PRIORITY = sys.maxsize


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """Capacity of a set of agents for one kernel: the undominated vectors, and the total."""

    vectors: list[int]
    total: ResourceSlots


class Explainer:
    """Explainer of deferrals by the capacity that is free at the end of a pass. Equal requirements are
    judged once.
    """

    def __init__(
        self,
        tracker: CapacityTracker,
        layout: Layout,
        allowances: QuotaTracker,
        making_room: Mapping[UUID, datetime],
        waiting: Iterable[PendingSession],
        *,
        is_raise_enough: bool,
    ) -> None:
        """`making_room`: by session with preemptions in progress, their latest end. `waiting`: all
        deferred sessions in order. `is_raise_enough`: False with ageing.
        """
        self._preempting = making_room
        self._allowances = allowances
        self._tracker = tracker
        self._layout = layout
        self._rooms: dict[tuple[HostCriteria, int | None], tuple[FreeCapacity, FreeCapacity]] = {}
        self._device_rooms: dict[HostCriteria, dict[str, list[int]]] = {}  # by slot
        self._by_class: dict[RequestClass, Explanation] = {}
        # Explanations of request classes that depend on the end time, by the number of windows that begin
        # before it.
        self._by_windows: dict[int, dict[RequestClass, Explanation]] = {}
        self._windows = ReservationWindows(tracker, layout)
        self._waiting = waiting
        # positions of deferred sessions by priority, filled on demand
        self._positions: dict[int, list[int]] = {}
        self._outranked: dict[tuple[Explanation, int], Explanation] = {}
        self._exceeding: dict[tuple[Explanation, str], Explanation] = {}
        self._without_end_known: dict[tuple[Explanation, bool], Explanation] = {}
        self._is_raise_enough = is_raise_enough
        tracker.remove_holds()
        allowances.remove_reservations()

    def deferrals(
        self, sessions: Sequence[PendingSession], request_classes: Sequence[RequestClass]
    ) -> Sequence[Deferral]:
        """Explain all deferred sessions. Most sessions of a request class share one explanation, which is
        reused without a full check.
        """
        guards, usual, leasts = (
            self._layout.guards,
            dict[RequestClass, Explanation](),
            self._allowances.least_remaining,
        )
        told = list[Explanation]()
        tell = told.append
        for position, (session, request_class) in enumerate(
            zip(sessions, request_classes, strict=True), start=1
        ):
            known = usual.get(request_class)
            least = leasts.get(session.scopes) if known else None
            if known and least is not None and (least - request_class.total) & guards == guards:
                tell(known)
                continue
            why = self._explanation(session, request_class, position)
            tell(why)
            if why is self._by_class.get(request_class) and self._is_usual(why, request_class):
                usual[request_class] = why
        ids = list(map(attrgetter("id"), sessions))
        return Columns(Deferral, ids, range(1, len(ids) + 1), told)

    def _is_usual(self, why: Explanation, request_class: RequestClass) -> bool:
        """Return True if only quotas can change the explanation among sessions of this request class."""
        return not (request_class.is_bounded or self._preempting or why.reason is ReasonCode.KEPT_FREE)

    def deferral(self, session: PendingSession, request_class: RequestClass, position: int) -> Deferral:
        """Return the deferral of a session at `position` among those deferred."""
        why = self._explanation(session, request_class, position)
        # a third of the time of calling the class
        return tuple.__new__(Deferral, (session.id, position, why))

    def _explanation(
        self, session: PendingSession, request_class: RequestClass, position: int
    ) -> Explanation:
        # otherwise the end makes no difference
        until = self._tracker.ends_at(session.max_runtime) if request_class.is_bounded else None
        known = self._by_class
        if until is not None:
            known = self._by_windows.setdefault(self._tracker.windows_before(until), {})
        why = known.get(request_class)
        if why is None:
            why = known[request_class] = self._explain(request_class, until)
        if excess := self._allowances.excess(session, request_class):
            why = self._exceeding_quota(why, excess)
        elif self._preempting and (ends_at := self._preempting.get(session.id)):
            why = replace(why, reason=ReasonCode.MAKING_ROOM, until=ends_at)
        elif why.reason is ReasonCode.KEPT_FREE:
            why = self._refine_reserved(why, session, request_class, until, position)
        return why

    def _refine_reserved(
        self,
        why: Explanation,
        session: PendingSession,
        request_class: RequestClass,
        until: Until,
        position: int,
    ) -> Explanation:
        """Refine `kept_free`: determine which reservation keeps the session off the free capacity."""
        allowances = self._allowances
        ahead = self._count_above(session.priority, position)
        if ahead and self._is_outranked(session, request_class, until):
            return self._outranked_by(why, ahead)
        if not allowances.are_reserved(session.scopes):
            return why
        is_limit = not allowances.suffice_beside(session, request_class, ANY_PRIORITY)
        return self._with_unknown_end(why, is_limit=is_limit)

    def _with_unknown_end(self, why: Explanation, *, is_limit: bool) -> Explanation:
        """Return the explanation without an end: reserved quota is not lent to sessions that end in
        time.
        """
        key = why, is_limit
        if key not in self._without_end_known:
            self._without_end_known[key] = replace(why, is_end_known=False, is_quota_reserved=is_limit)
        return self._without_end_known[key]

    def _exceeding_quota(self, why: Explanation, excess: Excess) -> Explanation:
        key = why, excess.quota.key
        if key not in self._exceeding:
            is_spent = excess.quota.is_exhausted
            reason = ReasonCode.BUDGET_SPENT if is_spent else ReasonCode.LIMIT_REACHED
            self._exceeding[key] = replace(why, reason=reason, excess=excess)
        return self._exceeding[key]

    def _is_outranked(self, session: PendingSession, request_class: RequestClass, until: Until) -> bool:
        """Return True if the session lacks capacity only because it is reserved for sessions with a
        higher priority.
        """
        has_room = self._tracker.has_room_beside(request_class, until, session.priority)
        return has_room and self._allowances.suffice_beside(session, request_class, session.priority)

    def _outranked_by(self, why: Explanation, ahead: int) -> Explanation:
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

    def _explain(self, request_class: RequestClass, until: Until) -> Explanation:
        requirements = request_class.requirements
        if request_class.largest_kernel is None and not request_class.is_together:
            requests = {self._layout.pack_request(slots): slots for slots in requirements.kernels}
        else:
            requests = {request_class.total: requirements.total}
        free, capacity = self._free_and_capacity(request_class)
        reserved = self._windows.blocking(request_class, until)
        reason, room = self._reason(request_class, until, requests, free, capacity, reserved)
        withheld = NO_SLOTS
        if reason in (ReasonCode.NEVER_FITS, ReasonCode.NO_SUCH_DEVICE):
            withheld = missing_withheld(requirements, self._tracker.agents.all_views)
            reason = ReasonCode.DEVICES_WITHHELD if withheld else reason

        nearest = {request: self._layout.nearest(request, room.vectors) for request in requests}
        blocked = [request for request, found in nearest.items() if not self._layout.fits(request, found)]
        subject = max(blocked or requests)
        return Explanation(
            reason=reason,
            architecture=requirements.architecture,
            kernel_count=len(requirements.kernels),
            requested=requirements.total,
            requested_by_kernel=requests[subject],
            best_agent=self._layout.unpack(nearest[subject]),
            group_total=room.total,
            is_end_known=reason is ReasonCode.KEPT_FREE and self._tracker.fits_timed_hold(request_class),
            reserved=reserved if reason is ReasonCode.RESERVATION else None,
            is_host_gone=reason is ReasonCode.AGENT_UNAVAILABLE and not capacity.vectors,
            unreached_hosts=self._unreached_hosts(request_class)
            if reason is ReasonCode.STORAGE_UNREACHED
            else (),
            withheld=withheld,
            closure=common_closure(filter(requirements.suits, self._tracker.agents.all_views))
            if reason in (ReasonCode.NO_AGENTS, ReasonCode.AGENT_UNAVAILABLE)
            else None,
            device_model=requirements.device_model,
            unmet=unmet_demand(requirements, self._tracker.agents.all_views)
            if reason is ReasonCode.NO_SUCH_DEVICE
            else None,
            devices=self._device_room(request_class, nearest[subject])
            if reason is ReasonCode.FRAGMENTED
            else None,
            linked=self._linked_room(request_class) if reason is ReasonCode.FRAGMENTED else None,
            gang=requirements.gang,
            agents_with_room=self._agents_with_room(request_class, reason),
            placement_group=requirements.placement_group,
            host_count=self._count_hosts(request_class) if reason is ReasonCode.PLACEMENT_RULE else 0,
        )

    def _reason(
        self,
        request_class: RequestClass,
        until: Until,
        requests: Iterable[int],
        free: FreeCapacity,
        capacity: FreeCapacity,
        reserved: ReservedAgents | None,
    ) -> tuple[ReasonCode, FreeCapacity]:
        """Return the reason code and the capacity that proves it."""
        asked, is_named = (
            request_class.requirements.total,
            request_class.requirements.required_agent_id is not None,
        )
        nobody = ReasonCode.AGENT_UNAVAILABLE if is_named else ReasonCode.NO_AGENTS, free
        lacks_agents = not capacity.vectors or self._lacks_agents(request_class)
        if lacks_agents and self._unreached_hosts(request_class):
            return ReasonCode.STORAGE_UNREACHED, free
        agents = self._tracker.agents.all_views
        if not (capacity.vectors or is_named) and unmet_demand(request_class.requirements, agents):
            return ReasonCode.NO_SUCH_DEVICE, free
        if not (free.vectors or self._windows.blocks_any(request_class, until)):
            return nobody
        if not asked.fits_in(capacity.total):
            return ReasonCode.NEVER_FITS, capacity
        if not all(self._fits_any(request, capacity) for request in requests):
            return ReasonCode.NEVER_FITS, capacity
        if self._lacks_agents(request_class):
            return ReasonCode.NEVER_FITS, capacity
        if self._tracker.has_room(request_class, until):
            return ReasonCode.KEPT_FREE, free
        if self._is_excluded_by_group(request_class, until):
            return ReasonCode.PLACEMENT_RULE, free
        if reserved is not None:
            return ReasonCode.RESERVATION, free
        if not free.vectors:  # and reserved agents could never run it
            return nobody
        return (ReasonCode.FRAGMENTED if asked.fits_in(free.total) else ReasonCode.NO_CAPACITY), free

    def _lacks_agents(self, request_class: RequestClass) -> bool:
        """Return True if each container needs an agent of its own and too few could ever host one."""
        count = len(request_class.order)
        return request_class.is_spread and self._spread_count(request_class, is_empty=True) < count

    def _unreached_hosts(self, request_class: RequestClass) -> tuple[str, ...]:
        least = len(request_class.order) if request_class.is_spread else 1
        return request_class.requirements.unreached_hosts(self._tracker.agents.all_views, least)

    def _fits_any(self, request: int, room: FreeCapacity) -> bool:
        return any(self._layout.fits(request, vector) for vector in room.vectors)

    def _free_and_capacity(self, request_class: RequestClass) -> tuple[FreeCapacity, FreeCapacity]:
        """Return free capacity of the schedulable agents that could host it, and total capacity of
        all of them.
        """
        requirements, largest = request_class.requirements, request_class.largest_kernel
        key = requirements.host_criteria, largest
        if key not in self._rooms:
            found = self._tracker.free_vectors(requirements)
            for_one = {room & ~FIELD_MASK for room in self._tracker.limit_to_one_kernel(found, largest)}
            sizes = self._tracker.agents.sizes(requirements, largest)
            self._rooms[key] = (
                self._free_capacity(found, for_one),
                self._free_capacity(sizes.capacities, sizes.largest),
            )
        return self._rooms[key]

    def _device_room(self, request_class: RequestClass, best: int) -> FreeDevices | None:
        """Return what is free of the device slot that its only kernel lacks; None if an amount is
        lacking. `best`: free slots of the nearest agent.
        """
        asked = request_class.requirements.total
        if len(request_class.order) > 1 or not asked.fits_in(self._layout.unpack(best)):
            return None
        known = self._rooms_by_device(request_class)
        rooms = [self._devices_beside(request_class, name, found) for name, found in known if name in asked]
        # Prefers a slot of which some is free on agents with capacity for the rest.
        some = (each for each in rooms if 0 < usable_amount(asked, each) < asked[each.slot_name])
        return next(chain(some, rooms), None)

    def _linked_room(self, request_class: RequestClass) -> LinkedRoom | None:
        """Return the linked devices that its only kernel lacks; None if it lacks something else."""
        tracker, requirements = self._tracker, request_class.requirements
        if len(request_class.order) > 1 or not requirements.linked_amounts:
            return None
        agents = tracker.agents
        found = agents.suiting(requirements, agents.members_in(request_class.pools))
        rooms = [each for each in found if self._layout.fits(request_class.total, tracker.free(each))]
        free = [
            LinkedRoom(name, asked, max([tracker.linked.left(each, name) for each in rooms]))
            for name, asked in (requirements.linked_amounts if rooms else ())
        ]
        return next((room for room in free if room.most < room.asked), None)

    def _rooms_by_device(self, request_class: RequestClass) -> Iterable[tuple[str, list[int]]]:
        terms = request_class.requirements.host_criteria
        if terms not in self._device_rooms:
            self._device_rooms[terms] = {
                name: self._layout.outermost(room & ~FIELD_MASK for room in rooms)
                for name, rooms in self._tracker.free_devices(request_class.requirements).items()
            }
        return self._device_rooms[terms].items()

    def _devices_beside(self, request_class: RequestClass, name: str, rooms: Iterable[int]) -> FreeDevices:
        """Return what is free of these devices on agents with capacity for the rest of the only
        kernel.
        """
        layout = self._layout
        whole, of_one = layout.shift_of(whole_slot(name)), layout.shift_of(name)
        rest = request_class.total & ~(FIELD_MASK << whole | FIELD_MASK << of_one)
        found = [room for room in rooms if layout.fits(rest, room)]
        return FreeDevices(
            name, *[max([room >> each & FIELD_MASK for room in found], default=0) for each in (whole, of_one)]
        )

    def _spread_count(self, request_class: RequestClass, *, is_empty: bool) -> int:
        """Return how many of its kernels get an agent each."""
        tracker, requirements = self._tracker, request_class.requirements
        if is_empty:
            return spread_count(
                request_class.requests, tracker.agents.largest_kernels(requirements), self._layout.fits
            )
        rooms = tracker.limit_to_one_kernel(tracker.free_vectors(requirements), None)
        return spread_count(request_class.requests, rooms, self._fits_on)

    def _fits_on(self, request: int, room: int) -> bool:
        """Return True if the request fits in `room` on its agent, including shared devices."""
        return self._tracker.fits_on(room & FIELD_MASK, request, room)

    def _agents_with_room(self, request_class: RequestClass, reason: ReasonCode) -> int:
        """Return how many of its kernels get an agent each now (`never_fits`: on empty agents);
        always one short.
        """
        if not request_class.is_spread:
            return 0
        found = self._spread_count(request_class, is_empty=reason is ReasonCode.NEVER_FITS)
        return min(found, len(request_class.order) - 1)

    def _is_excluded_by_group(self, request_class: RequestClass, until: Until) -> bool:
        """Return True if only the rule of its placement group prevents a placement."""
        hosting = self._tracker.occupancy
        if not hosting.has_strict_rule(request_class.requirements):
            return False
        with hosting.rules_ignored():
            return self._tracker.has_room(request_class, until)

    def _count_hosts(self, request_class: RequestClass) -> int:
        """Return the number of agents that matter for `placement_rule`: those excluded by it, or
        those that host the group.
        """
        assert request_class.requirements.placement_group is not None
        key, rule = request_class.requirements.placement_group
        tracker, smallest = self._tracker, request_class.requests[-1]
        hosts = tracker.occupancy.group_hosts(key)
        if rule.is_spread:
            return sum(self._fits_on(smallest, tracker.free(each)) for each in hosts)
        return len(hosts)

    def _free_capacity(self, vectors: list[int], for_one: Iterable[int]) -> FreeCapacity:
        total: dict[str, int] = {}
        for start in range(0, len(vectors), MOST_IN_A_SUM):
            together = self._layout.unpack(sum(vectors[start : start + MOST_IN_A_SUM]))
            for name, amount in together.items():
                total[name] = total.get(name, 0) + amount
        return FreeCapacity(self._layout.outermost(for_one), ResourceSlots(total))


def missing_withheld(requirements: Requirements, agents: Sequence[AgentView]) -> ResourceSlots:
    """Return the withheld devices of the slots that the session asks for, on agents that suit it, if it
    could start once these were back on the empty agents; else nothing.
    """
    if not any(devices.withheld for agent in agents for devices in agent.devices):
        return NO_SLOTS
    anywhere = replace(requirements, linked_devices=False)  # links count devices that are usable now
    suiting = [agent for agent in agents if anywhere.suits(agent)]
    withheld = [
        ResourceSlots({each.slot_name: MILLI * each.withheld for each in agent.devices}) for agent in suiting
    ]
    whole = [agent.largest + more for agent, more in zip(suiting, withheld, strict=True)]
    kernels = (requirements.total,) if requirements.gang is Gang.ONE_MACHINE else requirements.kernels
    if placeable_count(kernels, whole, is_spread=requirements.gang is Gang.SPREAD) < len(kernels):
        return NO_SLOTS
    total = sum(withheld, NO_SLOTS)
    return ResourceSlots({name: total[name] for name in requirements.total})


def unmet_demand(requirements: Requirements, agents: Iterable[AgentView]) -> UnmetDemand | None:
    """Return the first demand on devices that no agent of its architecture and model meets; None if an
    agent suits, or none has the slots, the architecture or the model.
    """
    slots = requirements.total
    left = [
        agent
        for agent in agents
        if agent.architecture == requirements.architecture
        and requirements.device_model in ("", agent.device_model)
        and all(name in agent.capacity for name in slots)
    ]
    name = next((name for name in slots if name not in (CPU, MEM)), "")
    demands: list[tuple[Demand, int, str, Callable[[AgentView], int]]] = [
        (Demand.MEMORY, requirements.device_mem_bytes, name, attrgetter("device_mem_bytes")),
        (Demand.VERSION, requirements.device_api_version, name, attrgetter("device_api_version")),
        (Demand.ISOLATION, requirements.least_isolation, name, attrgetter("isolation")),
        *[
            (Demand.LINKS, amount, linked, methodcaller("linked", linked))
            for linked, amount in requirements.linked_amounts
        ],
        (Demand.PROJECT, 1, name, lambda agent: int(agent.id not in requirements.closed_agents)),
    ]
    for demand, asked, slot_name, offered in demands if left else ():
        most = max(map(offered, left))
        if most < asked:
            return UnmetDemand(demand, asked, most, slot_name)
        left = [agent for agent in left if offered(agent) >= asked]
    return None


def usable_amount(asked: ResourceSlots, room: FreeDevices) -> int:
    """Return the usable amount of a device slot: of one device for a request in parts, else in
    whole devices.
    """
    return room.most_of_one if asked[room.slot_name] % MILLI else room.whole
