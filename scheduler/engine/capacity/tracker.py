"""Track free and reserved capacity of the agents while a pass places kernels."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from scheduler.engine.accelerators import DeviceShare
from scheduler.engine.agent_views import PreemptibleAllocation, RunningAllocation
from scheduler.engine.capacity.capacity import AgentFacts
from scheduler.engine.capacity.capacity_hold import CapacityHold, Release, Released, Taken, Until
from scheduler.engine.capacity.placement_group import AgentFilter, GroupOccupancy
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.request_shape import CandidateQueries, RequestClass
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import GroupHost


class CapacityTracker(AgentFacts):
    """Capacity tracker of a pass.

    Capacity can be reserved (backfill reservation): then a part of an agent's free capacity is open
    to all, and the rest to sessions that end in time.
    """

    def __init__(
        self,
        fleet: AgentIndex,
        now: datetime,
        companions: Mapping[str, Iterable[GroupHost]],
        least_memory: int,
    ) -> None:
        """`least_memory`: the smallest memory request of the pass, as a vector."""
        super().__init__(fleet, now)
        self._single_ids = fleet.single_ids
        self._open = fleet.free[:]
        self._grids = [grid.copy(self._open, least_memory) for grid in fleet.bins]
        self._holds: dict[int, CapacityHold] = {}  # by agent number
        # After `open_all`: open capacity before it, and the priority of the reservation.
        self._open_beside_holds: dict[int, tuple[int, int]] = {}
        self._timed_holders: list[int] = []  # after `open_all`: agents whose reservation had a known end
        self._held_until: Until = None  # latest known end of a reservation
        self._held_pools: set[int] = set()  # pools with a reservation for a session that may run anywhere
        self._claimed: set[int] = set()  # agents with preemptions in progress
        self._taken: list[Taken] = []
        # ends of the first `_indexed` entries of `_taken`, by agent number
        self._taken_ends: dict[int, list[Release]] = {}
        self._indexed = 0
        self._running_ends: dict[int, list[Release]] = {}  # by agent number, filled on demand
        self._has_running_ends: bool | None = None  # None: not computed yet
        # By agent number and time, filled on demand.
        self._released_by: dict[tuple[int, datetime], Released] = {}
        self.occupancy = GroupOccupancy(companions, fleet.numbers)

    def place(self, shape: RequestClass, until: Until) -> tuple[int, ...] | None:
        """Take capacity for every kernel of `shape`. Return the agent ids; None, and take nothing,
        if there is too little.
        """
        # A session that ends in time may use reserved capacity, though others of its shape found
        # none.
        if shape.has_no_room and not self.has_hold_beyond(until) and not self._may_end_in_time(shape, until):
            return None
        lone = shape.single_query
        # Fast path for most sessions: one pool, and no reservation that they could use.
        if lone is not None and (until is None or self._held_until is None):
            pool, query = lone
            ordinal = self._grids[pool].take(query)
            if ordinal is None:
                return None
            if until is not None:
                self._taken.append((ordinal, shape.total, until, True))
            if self._holds and ordinal in self._holds:
                self._holds[ordinal].take(shape.total)
            return self._single_ids[ordinal]
        ordinals = self._take_all(shape, until)
        if ordinals is None:
            self._note_failure(shape, until)
            return None
        if not shape.is_plain:
            self.occupancy.record_placement(shape, ordinals)
        ids = self._agents.ids
        if len(shape.order) == 1:
            return self._agents.single_ids[ordinals[0]]
        if shape.largest_kernel is not None:
            return (ids[ordinals[0]],) * len(shape.order)
        return tuple([ids[ordinal] for _, ordinal in sorted(zip(shape.order, ordinals, strict=True))])

    def close(self, ordinal: int) -> int:
        """Take the agent out of the search. Return its open capacity, for `reopen`."""
        vector = self._open[ordinal]
        self._set_open(ordinal, ordinal)
        return vector

    def reopen(self, ordinal: int, vector: int) -> None:
        self._set_open(ordinal, vector)
        self._record_again(ordinal)

    def has_room(self, shape: RequestClass, until: Until) -> bool:
        """Return True if `shape` could be placed now on open capacity."""
        shape.has_no_room = False
        start = len(self._taken)
        has_room = self._take_all(shape, until) is not None
        self._undo(start)
        return has_room

    def has_room_beside(self, shape: RequestClass, until: Until, priority: int) -> bool:
        """Return True if `shape` could be placed, after `open_all`, beside reservations of this
        priority or lower.
        """
        closed = {
            ordinal: was
            for ordinal, (was, kept_for) in self._open_beside_holds.items()
            if kept_for <= priority
        }
        opened = {ordinal: self._open[ordinal] for ordinal in closed}
        for ordinal, vector in closed.items():
            self._set_open(ordinal, vector)
        has_room = self.has_room(shape, until)
        for ordinal, vector in opened.items():
            self._set_open(ordinal, vector)
        return has_room

    def reserve(
        self,
        shape: RequestClass,
        ordinals: list[int],
        until: Until,
        *,
        priority: int,
        released: int = 0,
        is_first: bool = True,
    ) -> tuple[int, ...]:
        """Reserve capacity for a session with that priority and `shape` on these agents, one per
        request: from now on only what will be free beside it is open to all, and all that is free
        now only to sessions that end before `until`. `released`: capacity freed by then, instead of
        known ends. `is_first`: it is the one session for which its pools hold a reservation.
        Returns agent ids.

        Each request counts as the largest, as in `soonest`: with less, others would take what the
        next pass looks for.
        """
        wanted: dict[int, int] = {}
        largest = self._layout.greatest(shape.requests)
        for ordinal in ordinals:
            wanted[ordinal] = wanted.get(ordinal, 0) + largest
        for ordinal, request in wanted.items():
            free = self._open[ordinal]
            # Without a known time everything that becomes free accumulates, also what small
            # sessions release.
            room = free
            for ended in [released] if released else self._amounts_released(ordinal, until):
                room = self.add_released(ordinal, room, ended)
            self._holds[ordinal] = CapacityHold(free, self._layout.less(room, request), until, priority)
            self._update_open(ordinal)
        if until is not None:
            self._held_until = max(until, self._held_until or until)
        self.occupancy.record_reservation(shape, ordinals)
        if is_first and shape.designated is None:
            self._held_pools |= {self._agents.pool_of[ordinal] for ordinal in ordinals}
        return tuple(self._agents.ids[ordinal] for ordinal in ordinals)

    def claim(self, agent_id: int) -> None:
        """Allow reservations on the agent only for the session with the preemption claim."""
        self._claimed.add(self._agents.numbers.get(agent_id, -1))

    def has_hold_beyond(self, until: Until) -> bool:
        """Return True if the session of some backfill reservation starts at `until` or later."""
        return until is not None and self._held_until is not None and until <= self._held_until

    def may_begin(self, ordinal: int, shape: RequestClass, at: datetime, lasts: timedelta | None) -> bool:
        """Return True if no reservation window and no placement rule blocks a start there at that
        time.
        """
        latest = self.latest_start(ordinal, lasts)
        is_in_time = latest is None or at <= latest
        may_run = shape.requirements.may_run_on(self._agents.views[ordinal])
        return is_in_time and may_run and bool(self.occupancy.allowed_agents(shape, [ordinal]))

    def has_timed_hold(self) -> bool:
        """Return True if any reservation has a known time."""
        return self._held_until is not None

    def remove_holds(self) -> None:
        """Remove all reservations."""
        self._timed_holders = [ordinal for ordinal, kept in self._holds.items() if kept.until is not None]
        for ordinal, kept in self._holds.items():
            self._open_beside_holds[ordinal] = self._open[ordinal], kept.priority
            self._set_open(ordinal, kept.free)
        self._holds.clear()
        self.occupancy.ignore_reservations()

    def fits_timed_hold(self, shape: RequestClass) -> bool:
        """Return True if, after `open_all`, reserved capacity with a known time suffices for one of
        its kernels.
        """
        hosts = self.occupancy.allowed_agents(shape, self._timed_holders)
        return any(
            self._may_host(shape, request, search, host) and self.fits_on(host, request, self._open[host])
            for host in hosts
            for request, search in shape.queries
        )

    def reservable_agents(self, shape: RequestClass) -> list[int]:
        """Return agents (numbers) where capacity can be reserved for `shape`: one reservation per
        agent, and one per pool for sessions that may run anywhere in it.
        """
        if shape.designated is None:
            return self._without_hold(shape, shape.pools - self._held_pools)
        named = [] if shape.designated < 0 or self._is_taken(shape.designated) else [shape.designated]
        return self.occupancy.allowed_agents(shape, named)

    def agents_without_hold(self, shape: RequestClass) -> list[int]:
        """Return agents (numbers) that could be cleared for `shape`: those without a reservation."""
        return (
            self._without_hold(shape, shape.pools)
            if shape.designated is None
            else self.reservable_agents(shape)
        )

    def _without_hold(self, shape: RequestClass, pools: set[int]) -> list[int]:
        found = self._with_model(shape.requirements, self._agents.members_in(pools))
        return self.occupancy.allowed_agents(shape, [each for each in found if not self._is_taken(each)])

    def _is_taken(self, ordinal: int) -> bool:
        return ordinal in self._holds or ordinal in self._claimed

    def has_ends(self) -> bool:
        """Return True if any end is known."""
        self._index_taken()
        if self._has_running_ends is None:
            self._has_running_ends = any(agent.running for agent in self._agents.views)
        return bool(self._taken_ends) or self._has_running_ends

    def ends(self, ordinal: int) -> list[Release]:
        """Return what is released there at known times, soonest first; overdue ends are left out,
        as they may never come.
        """
        self._index_taken()
        running = self._running_ends.get(ordinal)
        if running is None:
            here = self._agents.views[ordinal].running
            known = [(each.ends_at, self.released(ordinal, each)) for each in here]
            running = self._running_ends[ordinal] = sorted(end for end in known if end[0] > self._now)
        taken = self._taken_ends.get(ordinal)
        return sorted(running + taken) if taken else running

    def _amounts_released(self, ordinal: int, until: Until) -> list[int]:
        """Return what is released there by then."""
        return [
            released for ends_at, released in self.ends(ordinal) if until is not None and ends_at <= until
        ]

    def released_by(self, ordinal: int, at: datetime) -> Released:
        """Return what surely ends there by then, of running sessions and of this pass's placements."""
        running = self._released_by.get((ordinal, at))
        if running is None:
            here = self._agents.views[ordinal].running
            sure = [each for each in here if self._now < each.ends_at <= at and not each.is_being_preempted]
            shares = tuple([share for each in sure for share in each.shares])
            running = Released(sum([self.released(ordinal, each) for each in sure]), shares)
            self._released_by[ordinal, at] = running
        self._index_taken()
        taken = self._taken_ends.get(ordinal)
        if not taken:
            return running
        return Released(running.amount + sum([held for until, held in taken if until <= at]), running.shares)

    def released(self, ordinal: int, held: RunningAllocation | PreemptibleAllocation) -> int:
        """Return what is released there when the allocation ends, without devices that others
        share.
        """
        return self._layout.pack_room(held.slots)

    def unshared(self, ordinal: int, shares: Iterable[DeviceShare]) -> int:
        """Return the devices that become whole there without these shares."""
        return 0

    def fits_on(
        self,
        ordinal: int,
        request: int,
        room: int,
        gone: Iterable[DeviceShare] = (),
        at: Until = None,
        count: int = 1,
    ) -> bool:
        """Return True if `count` requests fit in `room`: what is free there at that time, or
        without these shares.
        """
        return self._layout.fits(request * count, room)

    def free_devices(self, needs: Requirements) -> dict[str, list[int]]:
        """Return by slot with shared devices, for agents that know it and could host `needs`: the
        free vector with the most of one device.
        """
        return {}

    def has_hold(self, ordinal: int) -> bool:
        """Return True if it has a reservation."""
        return ordinal in self._holds

    def free(self, ordinal: int) -> int:
        """Return the free capacity there, reserved or not."""
        return self._holds[ordinal].free if ordinal in self._holds else self._open[ordinal]

    def free_for_one_kernel(self, agent_id: int, largest: int | None) -> int:
        """Return the part of `room` that one kernel may get on a schedulable agent by id; `largest`
        as in `rooms_for_one`.
        """
        [room] = self.limit_to_one_kernel([self.free(self._agents.numbers[agent_id])], largest)
        return room

    def free_vectors(self, needs: Requirements) -> list[int]:
        """Return the free capacity of each schedulable agent that could host `needs` now, reserved
        or not, in any order.
        """
        if needs.required_agent_id is not None:
            named = self.agent_number(needs.required_agent_id)
            is_host = named is not None and needs.may_run_on(self._agents.views[named])
            return [self.free(named)] if named is not None and is_host else []
        members, kept = self._agents.members_in(self._agents.pools_open_to(needs)), self._holds
        return [
            kept[ordinal].free if ordinal in kept else self._open[ordinal]
            for ordinal in self._with_model(needs, members)
        ]

    def _take_all(self, shape: RequestClass, until: Until) -> list[int] | None:
        """Take capacity for each request. Return agent numbers; None, and take nothing, if there is
        too little.
        """
        start = len(self._taken)
        ordinals: list[int] = []
        for request, search in shape.queries:
            if shape.is_plain:
                ordinal = self._take(shape, request, search, until)
            else:
                take = partial(self._take, shape, request, search, until)
                ordinal = self.occupancy.find_first(take, shape, ordinals if shape.is_spread else ())
            if ordinal is None:
                self._undo(start)
                return None
            ordinals.append(ordinal)
        return ordinals

    def _take(
        self,
        shape: RequestClass,
        request: int,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None = None,
    ) -> int | None:
        """Take capacity for one kernel on an allowed agent. Return its number."""
        if until is not None and self.has_hold_beyond(until):
            # A session that ends in time prefers reserved capacity, which leaves open capacity to
            # others.
            ordinal = self._take_held(shape, request, search, until, allowed)
            if ordinal is not None:
                return ordinal
            if shape.has_no_room and len(shape.queries) == 1 and not shape.is_bounded:
                return None
        ordinal = shape.preferred
        if ordinal is None or not self._take_on(ordinal, request, until, allowed):
            where = self._open_pools(search, until) if shape.is_bounded else search
            ordinal = None
            for pool, query in where if allowed is None else ():
                ordinal = self._grids[pool].take(query)
                if ordinal is not None:
                    break
            if allowed is not None:
                take_on = partial(self._take_on, request=request, until=until, allowed=allowed)
                ordinal = allowed.take(where, self._grids, self._agents.pool_of, take_on)
            if ordinal is None:
                ordinal = shape.designated
                if ordinal is None or not self._take_on(ordinal, request, until, allowed):
                    return None
        self._taken.append((ordinal, request, until, True))
        if ordinal in self._holds:
            self._holds[ordinal].take(request)
        return ordinal

    def _index_taken(self) -> None:
        for ordinal, request, until, _ in self._taken[self._indexed :]:
            if until is not None:
                self._taken_ends.setdefault(ordinal, []).append((until, request))
        self._indexed = len(self._taken)

    def _open_pools(self, search: CandidateQueries, until: Until) -> CandidateQueries:
        """Return the pools in which it would end before the agents are reserved."""
        end, closes_at = self._assumed_end(until), self._agents.closes_at
        return tuple([each for each in search if (at := closes_at[each[0]]) is None or end <= at])

    def _may_end_in_time(self, shape: RequestClass, until: Until) -> bool:
        """Return True if it ends before all sessions of its shape that found no capacity."""
        return shape.no_room_from is not None and self._assumed_end(until) < shape.no_room_from

    def _note_failure(self, shape: RequestClass, until: Until) -> None:
        if shape.is_bounded:
            end, before = self._assumed_end(until), shape.no_room_from if shape.has_no_room else None
            shape.no_room_from = end if before is None else min(end, before)

    def _take_on(self, ordinal: int, request: int, until: Until, allowed: AgentFilter | None) -> bool:
        """Take capacity on that agent if it has some and is allowed; −1: no such agent."""
        if ordinal < 0 or not self._layout.fits(request, self._open[ordinal]):
            return False
        if not (allowed is None or ordinal in allowed):
            return False
        closes_at = self._agents.closes_at[self._agents.pool_of[ordinal]]
        if closes_at is not None and self._assumed_end(until) > closes_at:
            return False
        self._set_open(ordinal, self._open[ordinal] - request)
        return True

    def _take_held(
        self,
        shape: RequestClass,
        request: int,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None,
    ) -> int | None:
        """Take capacity on an agent whose reserving session starts only after this one ends; the
        oldest reservation first.
        """
        for ordinal, kept in self._holds.items():
            in_time = until is not None and kept.until is not None and until <= kept.until
            if (
                in_time
                and self._may_host(shape, request, search, ordinal)
                and (allowed is None or ordinal in allowed)
                and self._layout.fits(request, kept.free)
            ):
                kept.free -= request
                self._taken.append((ordinal, request, until, False))
                self._update_open(ordinal)
                return ordinal
        return None

    def _undo(self, start: int) -> None:
        """Undo everything taken since `start`."""
        while len(self._taken) > start:
            ordinal, request, _, was_open = self._taken.pop()
            kept = self._holds.get(ordinal)
            if kept is None:
                self._set_open(ordinal, self._open[ordinal] + request)
                continue
            kept.free += request
            if was_open:
                kept.left_over += request
            self._update_open(ordinal)

    def _update_open(self, ordinal: int) -> None:
        """Recompute the open capacity of an agent with a reservation."""
        kept = self._holds[ordinal]
        self._set_open(ordinal, self._layout.lesser(kept.free, kept.left_over))

    def _set_open(self, ordinal: int, vector: int) -> None:
        self._grids[self._agents.pool_of[ordinal]].set_free(ordinal, vector)
