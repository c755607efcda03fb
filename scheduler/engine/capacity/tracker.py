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
from scheduler.engine.index.request_class import CandidateQueries, RequestClass
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import GroupHost


class CapacityTracker(AgentFacts):
    """Capacity tracker of a pass.

    Capacity can be reserved (backfill reservation): then a part of an agent's free capacity is open
    to all, and the rest to sessions that end in time.
    """

    def __init__(
        self,
        agents: AgentIndex,
        now: datetime,
        placement_group: Mapping[str, Iterable[GroupHost]],
        least_memory: int,
    ) -> None:
        """`least_memory`: the smallest memory request of the pass, as a vector."""
        super().__init__(agents, now)
        self._single_ids = agents.single_ids
        self._open = agents.free[:]
        self._bins = [index.copy(self._open, least_memory) for index in agents.bins]
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
        self.occupancy = GroupOccupancy(placement_group, agents.numbers)

    def place(self, request_class: RequestClass, until: Until) -> tuple[int, ...] | None:
        """Take capacity for every kernel of `request_class`. Return the agent ids; None, and take nothing,
        if there is too little.
        """
        # A session that ends in time may use reserved capacity, though others of its request class found
        # none.
        if (
            request_class.has_no_room
            and not self.has_hold_beyond(until)
            and not self._may_end_in_time(request_class, until)
        ):
            return None
        lone = request_class.single_query
        # Fast path for most sessions: one pool, and no reservation that they could use.
        if lone is not None and (until is None or self._held_until is None):
            pool, query = lone
            agent_number = self._bins[pool].take(query)
            if agent_number is None:
                return None
            if until is not None:
                self._taken.append((agent_number, request_class.total, until, True))
            if self._holds and agent_number in self._holds:
                self._holds[agent_number].take(request_class.total)
            return self._single_ids[agent_number]
        agent_numbers = self._take_all(request_class, until)
        if agent_numbers is None:
            self._note_failure(request_class, until)
            return None
        if not request_class.is_plain:
            self.occupancy.record_placement(request_class, agent_numbers)
        ids = self._agents.ids
        if len(request_class.order) == 1:
            return self._agents.single_ids[agent_numbers[0]]
        if request_class.largest_kernel is not None:
            return (ids[agent_numbers[0]],) * len(request_class.order)
        return tuple(
            [
                ids[agent_number]
                for _, agent_number in sorted(zip(request_class.order, agent_numbers, strict=True))
            ]
        )

    def close(self, agent_number: int) -> int:
        """Take the agent out of the search. Return its open capacity, for `reopen`."""
        vector = self._open[agent_number]
        self._set_open(agent_number, agent_number)
        return vector

    def reopen(self, agent_number: int, vector: int) -> None:
        self._set_open(agent_number, vector)
        self._record_again(agent_number)

    def has_room(self, request_class: RequestClass, until: Until) -> bool:
        """Return True if `request_class` could be placed now on open capacity."""
        request_class.has_no_room = False
        start = len(self._taken)
        has_room = self._take_all(request_class, until) is not None
        self._undo(start)
        return has_room

    def has_room_beside(self, request_class: RequestClass, until: Until, priority: int) -> bool:
        """Return True if `request_class` could be placed, after `open_all`, beside reservations of this
        priority or lower.
        """
        closed = {
            agent_number: was
            for agent_number, (was, kept_for) in self._open_beside_holds.items()
            if kept_for <= priority
        }
        opened = {agent_number: self._open[agent_number] for agent_number in closed}
        for agent_number, vector in closed.items():
            self._set_open(agent_number, vector)
        has_room = self.has_room(request_class, until)
        for agent_number, vector in opened.items():
            self._set_open(agent_number, vector)
        return has_room

    def reserve(
        self,
        request_class: RequestClass,
        agent_numbers: list[int],
        until: Until,
        *,
        priority: int,
        released: int = 0,
        is_first: bool = True,
    ) -> tuple[int, ...]:
        """Reserve capacity for a session with that priority and `request_class` on these agents, one per
        request: from now on only what will be free beside it is open to all, and all that is free
        now only to sessions that end before `until`. `released`: capacity freed by then, instead of
        known ends. `is_first`: it is the one session for which its pools hold a reservation.
        Returns agent ids.

        Each request counts as the largest, as in `soonest`: with less, others would take what the
        next pass looks for.
        """
        wanted: dict[int, int] = {}
        largest = self._layout.greatest(request_class.requests)
        for agent_number in agent_numbers:
            wanted[agent_number] = wanted.get(agent_number, 0) + largest
        for agent_number, request in wanted.items():
            free = self._open[agent_number]
            # Without a known time everything that becomes free accumulates, also what small
            # sessions release.
            room = free
            for ended in [released] if released else self._amounts_released(agent_number, until):
                room = self.add_released(agent_number, room, ended)
            self._holds[agent_number] = CapacityHold(free, self._layout.less(room, request), until, priority)
            self._update_open(agent_number)
        if until is not None:
            self._held_until = max(until, self._held_until or until)
        self.occupancy.record_reservation(request_class, agent_numbers)
        if is_first and request_class.designated is None:
            self._held_pools |= {self._agents.pool_of[agent_number] for agent_number in agent_numbers}
        return tuple(self._agents.ids[agent_number] for agent_number in agent_numbers)

    def claim(self, agent_id: int) -> None:
        """Allow reservations on the agent only for the session with the preemption claim."""
        self._claimed.add(self._agents.numbers.get(agent_id, -1))

    def has_hold_beyond(self, until: Until) -> bool:
        """Return True if the session of some backfill reservation starts at `until` or later."""
        return until is not None and self._held_until is not None and until <= self._held_until

    def may_begin(
        self, agent_number: int, request_class: RequestClass, at: datetime, max_runtime: timedelta | None
    ) -> bool:
        """Return True if no reservation window and no placement rule blocks a start there at that
        time.
        """
        latest = self.latest_start(agent_number, max_runtime)
        is_in_time = latest is None or at <= latest
        may_run = request_class.requirements.may_run_on(self._agents.views[agent_number])
        return is_in_time and may_run and bool(self.occupancy.allowed_agents(request_class, [agent_number]))

    def has_timed_hold(self) -> bool:
        """Return True if any reservation has a known time."""
        return self._held_until is not None

    def remove_holds(self) -> None:
        """Remove all reservations."""
        self._timed_holders = [
            agent_number for agent_number, kept in self._holds.items() if kept.until is not None
        ]
        for agent_number, kept in self._holds.items():
            self._open_beside_holds[agent_number] = self._open[agent_number], kept.priority
            self._set_open(agent_number, kept.free)
        self._holds.clear()
        self.occupancy.ignore_reservations()

    def fits_timed_hold(self, request_class: RequestClass) -> bool:
        """Return True if, after `open_all`, reserved capacity with a known time suffices for one of
        its kernels.
        """
        hosts = self.occupancy.allowed_agents(request_class, self._timed_holders)
        return any(
            self._may_host(request_class, request, search, host)
            and self.fits_on(host, request, self._open[host])
            for host in hosts
            for request, search in request_class.queries
        )

    def reservable_agents(self, request_class: RequestClass) -> list[int]:
        """Return agents (numbers) where capacity can be reserved for `request_class`: one reservation per
        agent, and one per pool for sessions that may run anywhere in it.
        """
        if request_class.designated is None:
            return self._without_hold(request_class, request_class.pools - self._held_pools)
        named = (
            []
            if request_class.designated < 0 or self._is_taken(request_class.designated)
            else [request_class.designated]
        )
        return self.occupancy.allowed_agents(request_class, named)

    def agents_without_hold(self, request_class: RequestClass) -> list[int]:
        """Return agents (numbers) that could be cleared for `request_class`: those without a reservation."""
        return (
            self._without_hold(request_class, request_class.pools)
            if request_class.designated is None
            else self.reservable_agents(request_class)
        )

    def _without_hold(self, request_class: RequestClass, pools: set[int]) -> list[int]:
        found = self._with_model(request_class.requirements, self._agents.members_in(pools))
        return self.occupancy.allowed_agents(
            request_class, [each for each in found if not self._is_taken(each)]
        )

    def _is_taken(self, agent_number: int) -> bool:
        return agent_number in self._holds or agent_number in self._claimed

    def has_ends(self) -> bool:
        """Return True if any end is known."""
        self._index_taken()
        if self._has_running_ends is None:
            self._has_running_ends = any(agent.running for agent in self._agents.views)
        return bool(self._taken_ends) or self._has_running_ends

    def ends(self, agent_number: int) -> list[Release]:
        """Return what is released there at known times, soonest first; overdue ends are left out,
        as they may never come.
        """
        self._index_taken()
        running = self._running_ends.get(agent_number)
        if running is None:
            here = self._agents.views[agent_number].running
            known = [(each.ends_at, self.released(agent_number, each)) for each in here]
            running = self._running_ends[agent_number] = sorted(end for end in known if end[0] > self._now)
        taken = self._taken_ends.get(agent_number)
        return sorted(running + taken) if taken else running

    def _amounts_released(self, agent_number: int, until: Until) -> list[int]:
        """Return what is released there by then."""
        return [
            released
            for ends_at, released in self.ends(agent_number)
            if until is not None and ends_at <= until
        ]

    def released_by(self, agent_number: int, at: datetime) -> Released:
        """Return what surely ends there by then, of running sessions and of this pass's placements."""
        running = self._released_by.get((agent_number, at))
        if running is None:
            here = self._agents.views[agent_number].running
            sure = [each for each in here if self._now < each.ends_at <= at and not each.is_being_preempted]
            shares = tuple([share for each in sure for share in each.shares])
            running = Released(sum([self.released(agent_number, each) for each in sure]), shares)
            self._released_by[agent_number, at] = running
        self._index_taken()
        taken = self._taken_ends.get(agent_number)
        if not taken:
            return running
        return Released(running.amount + sum([held for until, held in taken if until <= at]), running.shares)

    def released(self, agent_number: int, held: RunningAllocation | PreemptibleAllocation) -> int:
        """Return what is released there when the allocation ends, without devices that others
        share.
        """
        return self._layout.pack_room(held.slots)

    def unshared(self, agent_number: int, shares: Iterable[DeviceShare]) -> int:
        """Return the devices that become whole there without these shares."""
        return 0

    def fits_on(
        self,
        agent_number: int,
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

    def free_devices(self, requirements: Requirements) -> dict[str, list[int]]:
        """Return by slot with shared devices, for agents that know it and could host `requirements`: the
        free vector with the most of one device.
        """
        return {}

    def has_hold(self, agent_number: int) -> bool:
        """Return True if it has a reservation."""
        return agent_number in self._holds

    def free(self, agent_number: int) -> int:
        """Return the free capacity there, reserved or not."""
        return self._holds[agent_number].free if agent_number in self._holds else self._open[agent_number]

    def free_for_one_kernel(self, agent_id: int, largest: int | None) -> int:
        """Return the part of `room` that one kernel may get on a schedulable agent by id; `largest`
        as in `rooms_for_one`.
        """
        [room] = self.limit_to_one_kernel([self.free(self._agents.numbers[agent_id])], largest)
        return room

    def free_vectors(self, requirements: Requirements) -> list[int]:
        """Return the free capacity of each schedulable agent that could host `requirements` now, reserved
        or not, in any order.
        """
        if requirements.required_agent_id is not None:
            named = self.agent_number(requirements.required_agent_id)
            is_host = named is not None and requirements.may_run_on(self._agents.views[named])
            return [self.free(named)] if named is not None and is_host else []
        members, kept = self._agents.members_in(self._agents.pools_open_to(requirements)), self._holds
        return [
            kept[agent_number].free if agent_number in kept else self._open[agent_number]
            for agent_number in self._with_model(requirements, members)
        ]

    def _take_all(self, request_class: RequestClass, until: Until) -> list[int] | None:
        """Take capacity for each request. Return agent numbers; None, and take nothing, if there is
        too little.
        """
        start = len(self._taken)
        agent_numbers: list[int] = []
        for request, search in request_class.queries:
            if request_class.is_plain:
                agent_number = self._take(request_class, request, search, until)
            else:
                take = partial(self._take, request_class, request, search, until)
                agent_number = self.occupancy.find_first(
                    take, request_class, agent_numbers if request_class.is_spread else ()
                )
            if agent_number is None:
                self._undo(start)
                return None
            agent_numbers.append(agent_number)
        return agent_numbers

    def _take(
        self,
        request_class: RequestClass,
        request: int,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None = None,
    ) -> int | None:
        """Take capacity for one kernel on an allowed agent. Return its number."""
        if until is not None and self.has_hold_beyond(until):
            # A session that ends in time prefers reserved capacity, which leaves open capacity to
            # others.
            agent_number = self._take_held(request_class, request, search, until, allowed)
            if agent_number is not None:
                return agent_number
            if request_class.has_no_room and len(request_class.queries) == 1 and not request_class.is_bounded:
                return None
        agent_number = request_class.preferred
        if agent_number is None or not self._take_on(agent_number, request, until, allowed):
            where = self._open_pools(search, until) if request_class.is_bounded else search
            agent_number = None
            for pool, query in where if allowed is None else ():
                agent_number = self._bins[pool].take(query)
                if agent_number is not None:
                    break
            if allowed is not None:
                take_on = partial(self._take_on, request=request, until=until, allowed=allowed)
                agent_number = allowed.take(where, self._bins, self._agents.pool_of, take_on)
            if agent_number is None:
                agent_number = request_class.designated
                if agent_number is None or not self._take_on(agent_number, request, until, allowed):
                    return None
        self._taken.append((agent_number, request, until, True))
        if agent_number in self._holds:
            self._holds[agent_number].take(request)
        return agent_number

    def _index_taken(self) -> None:
        for agent_number, request, until, _ in self._taken[self._indexed :]:
            if until is not None:
                self._taken_ends.setdefault(agent_number, []).append((until, request))
        self._indexed = len(self._taken)

    def _open_pools(self, search: CandidateQueries, until: Until) -> CandidateQueries:
        """Return the pools in which it would end before the agents are reserved."""
        end, closes_at = self._assumed_end(until), self._agents.closes_at
        return tuple([each for each in search if (at := closes_at[each[0]]) is None or end <= at])

    def _may_end_in_time(self, request_class: RequestClass, until: Until) -> bool:
        """Return True if it ends before all sessions of its request class that found no capacity."""
        return (
            request_class.no_room_from is not None and self._assumed_end(until) < request_class.no_room_from
        )

    def _note_failure(self, request_class: RequestClass, until: Until) -> None:
        if request_class.is_bounded:
            end, before = (
                self._assumed_end(until),
                request_class.no_room_from if request_class.has_no_room else None,
            )
            request_class.no_room_from = end if before is None else min(end, before)

    def _take_on(self, agent_number: int, request: int, until: Until, allowed: AgentFilter | None) -> bool:
        """Take capacity on that agent if it has some and is allowed; −1: no such agent."""
        if agent_number < 0 or not self._layout.fits(request, self._open[agent_number]):
            return False
        if not (allowed is None or agent_number in allowed):
            return False
        closes_at = self._agents.closes_at[self._agents.pool_of[agent_number]]
        if closes_at is not None and self._assumed_end(until) > closes_at:
            return False
        self._set_open(agent_number, self._open[agent_number] - request)
        return True

    def _take_held(
        self,
        request_class: RequestClass,
        request: int,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None,
    ) -> int | None:
        """Take capacity on an agent whose reserving session starts only after this one ends; the
        oldest reservation first.
        """
        for agent_number, kept in self._holds.items():
            in_time = until is not None and kept.until is not None and until <= kept.until
            if (
                in_time
                and self._may_host(request_class, request, search, agent_number)
                and (allowed is None or agent_number in allowed)
                and self._layout.fits(request, kept.free)
            ):
                kept.free -= request
                self._taken.append((agent_number, request, until, False))
                self._update_open(agent_number)
                return agent_number
        return None

    def _undo(self, start: int) -> None:
        """Undo everything taken since `start`."""
        while len(self._taken) > start:
            agent_number, request, _, was_open = self._taken.pop()
            kept = self._holds.get(agent_number)
            if kept is None:
                self._set_open(agent_number, self._open[agent_number] + request)
                continue
            kept.free += request
            if was_open:
                kept.left_over += request
            self._update_open(agent_number)

    def _update_open(self, agent_number: int) -> None:
        """Recompute the open capacity of an agent with a reservation."""
        kept = self._holds[agent_number]
        self._set_open(agent_number, self._layout.lesser(kept.free, kept.left_over))

    def _set_open(self, agent_number: int, vector: int) -> None:
        self._bins[self._agents.pool_of[agent_number]].set_free(agent_number, vector)
