"""Track free and reserved capacity of the agents while a pass places kernels."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from scheduler.engine.accelerators import DeviceShare
from scheduler.engine.agent_views import (
    AgentView,
    PreemptibleAllocation,
    ReservationWindow,
    RunningAllocation,
)
from scheduler.engine.capacity.fractional import FractionalPool
from scheduler.engine.capacity.ledger import CapacityHold, CapacityLedger, Release, Released, Taken, Until
from scheduler.engine.capacity.linked_devices import LinkedDevices, LinkedHosts
from scheduler.engine.capacity.placement_group import AgentFilter, GroupOccupancy
from scheduler.engine.index.accelerator_vectors import can_assign_all
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.request_class import CandidateQueries, PassState, PassStates, RequestClass
from scheduler.engine.index.resource_vector import FIELD_MASK
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import ASSUMED_RUNTIME, GroupHost


class AgentSize(NamedTuple):
    """Capacity of an agent and the most that one kernel gets, as vectors without its number; and
    the slots whose devices are known one by one.
    """

    capacity: int
    largest: int
    device_names: tuple[str, ...]


class CapacityTracker:
    """Capacity tracker of a pass.

    Capacity can be reserved (backfill reservation): then a part of an agent's free capacity is open
    to all, and the rest to sessions that end in time.
    """

    def __init__(
        self,
        agents: AgentIndex,
        now: datetime,
        placement_group: Mapping[str, Iterable[GroupHost]],
        least_memory: int = 0,
    ) -> None:
        self.agents = agents
        self._layout = agents.layout
        self.states = PassStates()
        self.now = now
        self._window_starts: list[datetime] | None = None  # sorted; None: not computed yet
        self._single_ids = agents.single_ids
        self._ledger = ledger = CapacityLedger(agents, now, least_memory)
        self._open, self._bins, self._holds = ledger.open, ledger.bins, ledger.holds
        self._taken = ledger.taken
        self._pool = FractionalPool(agents, ledger, now) if agents.layout.shared else None
        self.linked = LinkedDevices(agents, ledger)
        # After `remove_holds`: open capacity before it, and the priority of the reservation.
        self._open_beside_holds: dict[int, tuple[int, int]] = {}
        self._timed_holders: list[int] = []  # after `remove_holds`: agents whose reservation had a known end
        self._held_pools: set[int] = set()  # pools with a reservation for a session that may run anywhere
        self._claimed: set[int] = set()  # agents with preemptions in progress
        # ends of the first `_indexed` entries of `_taken`, by agent number
        self._taken_ends: dict[int, list[Release]] = {}
        self._indexed = 0
        self._running_ends: dict[int, list[Release]] = {}  # by agent number, filled on demand
        self._has_running_ends: bool | None = None  # None: not computed yet
        # By agent number and time, filled on demand.
        self._released_by: dict[tuple[int, datetime], Released] = {}
        self.occupancy = GroupOccupancy(placement_group, agents.numbers, self.states)

    def ends_at(self, max_runtime: timedelta | None) -> Until:
        """Return the end of a session that starts now; None: unknown."""
        return None if max_runtime is None else self.now + max_runtime

    def blocking_window(
        self, agent: AgentView, requirements: Requirements, until: Until
    ) -> ReservationWindow | None:
        """Return the reservation that keeps a session ending at `until` off the agent: one of
        others that is open, or any that begins before its end.
        """
        if not requirements.may_run_on(agent):
            return agent.window
        window = agent.next_window
        return window if window and self._ledger.assumed_end(until) > window.starts_at else None

    def windows_before(self, until: Until) -> int:
        """Return how many future reservation windows begin before `until`; equal counts give equal
        results.
        """
        if self._window_starts is None:
            windows = (agent.next_window for agent in self.agents.views)
            self._window_starts = sorted({window.starts_at for window in windows if window})
        return bisect_left(self._window_starts, self._ledger.assumed_end(until))

    def latest_start(self, agent_number: int, max_runtime: timedelta | None) -> datetime | None:
        """Return the latest start there that ends before the agent is reserved; None: any time."""
        window = self.agents.views[agent_number].next_window
        return window and window.starts_at - (ASSUMED_RUNTIME if max_runtime is None else max_runtime)

    def agent_size(self, agent_id: int) -> AgentSize:
        agents, agent_number = self.agents, self.agents.numbers[agent_id]
        names = tuple([devices.slot_name for devices in agents.views[agent_number].devices])
        return AgentSize(
            agents.capacities[agent_number] - agent_number, agents.largest[agent_number] - agent_number, names
        )

    def is_enough(self, size: AgentSize, request_class: RequestClass) -> bool:
        """Return True if an empty agent of that size could hold the largest kernel of `request_class`."""
        request, fits = request_class.requests[0], self._layout.fits
        is_large = fits(request, size.capacity) and fits(request_class.largest_single(request), size.largest)
        return is_large and can_assign_all(
            request_class.requirements.kernels[request_class.order[0]], size.device_names
        )

    def limit_to_one_kernel(self, vectors: list[int], largest: int | None) -> list[int]:
        """Limit free vectors to what one kernel may get; with `largest`, the largest kernel of
        several, to agents that can hold it.
        """
        agents, fits = self.agents, self._layout.fits
        if largest is None and not agents.is_overcommitted:
            return vectors
        owned = [(vector, agents.largest[vector & FIELD_MASK]) for vector in vectors]
        if largest is not None:
            return [vector if fits(largest, most) else vector & FIELD_MASK for vector, most in owned]
        return [self._layout.lesser(vector, most) for vector, most in owned]

    def add_released(self, agent_number: int, room: int, released: int) -> int:
        """Add released capacity to `room`, at most up to the capacity of the agent."""
        missing = self._layout.less(self.agents.capacities[agent_number], room - agent_number) - agent_number
        return room + self._layout.lesser(released, missing)

    def place(self, state: PassState, until: Until) -> tuple[int, ...] | None:
        """Take capacity for every kernel of a request class. Return the agent ids; None, and take
        nothing, if there is too little.
        """
        request_class = state.request_class
        # A session that ends in time may use reserved capacity, though others of its request class found
        # none.
        if (
            state.has_no_room
            and not self._ledger.has_hold_beyond(until)
            and not self._may_end_in_time(state, until)
        ):
            return None
        lone = request_class.single_query
        # Fast path for most sessions: one pool, and no reservation that they could use.
        if lone is not None and (until is None or self._ledger.held_until is None):
            pool, query = lone
            agent_number = self._bins[pool].take(query)
            if agent_number is None:
                return None
            if until is not None:
                total = request_class.total
                self._taken.append(Taken(agent_number, total, total, until))
            if self._holds and agent_number in self._holds:
                self._holds[agent_number].take(request_class.total, request_class.total)
            return self._single_ids[agent_number]
        agent_numbers = self._take_all(request_class, until)
        if agent_numbers is None:
            self._note_failure(state, until)
            return None
        if not request_class.is_plain:
            self.occupancy.record_placement(request_class, agent_numbers)
        ids = self.agents.ids
        if len(request_class.order) == 1:
            return self.agents.single_ids[agent_numbers[0]]
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
        self._ledger.set_open(agent_number, agent_number)
        return vector

    def reopen(self, agent_number: int, vector: int) -> None:
        self._ledger.set_open(agent_number, vector)
        if self._pool:
            self._pool.record_again(agent_number)

    def has_room(self, request_class: RequestClass, until: Until) -> bool:
        """Return True if `request_class` could be placed now on open capacity."""
        self.states[request_class].has_no_room = False
        start = len(self._taken)
        has_room = self._take_all(request_class, until) is not None
        self._undo(start)
        return has_room

    def has_room_beside(self, request_class: RequestClass, until: Until, priority: int) -> bool:
        """Return True if `request_class` could be placed, after `remove_holds`, beside reservations of this
        priority or lower.
        """
        closed = {
            agent_number: was
            for agent_number, (was, kept_for) in self._open_beside_holds.items()
            if kept_for <= priority
        }
        opened = {agent_number: self._open[agent_number] for agent_number in closed}
        for agent_number, vector in closed.items():
            self._ledger.set_open(agent_number, vector)
        has_room = self.has_room(request_class, until)
        for agent_number, vector in opened.items():
            self._ledger.set_open(agent_number, vector)
        if self._pool:
            self._pool.forget_searches()  # they searched while less was open
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

        Each request counts as the largest, as in `earliest_start`: with less, others would take what the
        next pass looks for. So do devices that make sure that enough are linked.
        """
        if self._pool and request_class.fractional_requests:
            self._pool.held_for_parts.update(agent_numbers)
        wanted: dict[int, int] = {}
        largest = self._layout.greatest(request_class.requests)
        for agent_number in agent_numbers:
            surplus = self.linked_surplus(agent_number, request_class)
            wanted[agent_number] = wanted.get(agent_number, surplus) + largest
        for agent_number, request in wanted.items():
            free = self._open[agent_number]
            # Without a known time everything that becomes free accumulates, also what small
            # sessions release.
            room = free
            for ended in [released] if released else self._amounts_released(agent_number, until):
                room = self.add_released(agent_number, room, ended)
            self._holds[agent_number] = CapacityHold(free, self._layout.less(room, request), until, priority)
            self._ledger.update_open(agent_number)
        if until is not None:
            self._ledger.held_until = max(until, self._ledger.held_until or until)
        self.occupancy.record_reservation(request_class, agent_numbers)
        if is_first and request_class.designated is None:
            self._held_pools |= {self.agents.pool_of[agent_number] for agent_number in agent_numbers}
        return tuple(self.agents.ids[agent_number] for agent_number in agent_numbers)

    def linked_surplus(self, agent_number: int, request_class: RequestClass) -> int:
        """Return what must be free there beside the request so that enough devices are linked."""
        requirements = request_class.requirements
        return self.linked.surplus(agent_number, requirements) if requirements.linked_amounts else 0

    def claim(self, agent_id: int) -> None:
        """Allow reservations on the agent only for the session with the preemption claim."""
        self._claimed.add(self.agents.numbers.get(agent_id, -1))

    def may_begin(
        self, agent_number: int, request_class: RequestClass, at: datetime, max_runtime: timedelta | None
    ) -> bool:
        """Return True if no reservation window and no placement rule blocks a start there at that
        time.
        """
        latest = self.latest_start(agent_number, max_runtime)
        is_in_time = latest is None or at <= latest
        may_run = request_class.requirements.may_run_on(self.agents.views[agent_number])
        return is_in_time and may_run and bool(self.occupancy.allowed_agents(request_class, [agent_number]))

    def has_timed_hold(self) -> bool:
        """Return True if any reservation has a known time."""
        return self._ledger.held_until is not None

    def remove_holds(self) -> None:
        """Remove all reservations."""
        if self._pool and self._holds:  # otherwise no more is open than they examined
            self._pool.forget_searches()
        self._timed_holders = [
            agent_number for agent_number, kept in self._holds.items() if kept.until is not None
        ]
        for agent_number, kept in self._holds.items():
            self._open_beside_holds[agent_number] = self._open[agent_number], kept.priority
            self._ledger.set_open(agent_number, kept.free)
        self._holds.clear()
        self.occupancy.ignore_reservations()

    def fits_timed_hold(self, request_class: RequestClass) -> bool:
        """Return True if, after `remove_holds`, reserved capacity with a known time suffices for one of
        its kernels.
        """
        hosts = self.occupancy.allowed_agents(request_class, self._timed_holders)
        return any(
            self.agents.may_host(request_class, request, search, host)
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
        found = self.agents.suiting(request_class.requirements, self.agents.members_in(pools))
        return self.occupancy.allowed_agents(
            request_class, [each for each in found if not self._is_taken(each)]
        )

    def _is_taken(self, agent_number: int) -> bool:
        return agent_number in self._holds or agent_number in self._claimed

    def has_ends(self) -> bool:
        """Return True if any end is known."""
        self._index_taken()
        if self._has_running_ends is None:
            self._has_running_ends = any(agent.running for agent in self.agents.views)
        has_part_ends = self._pool is not None and self._pool.ending_parts > 0
        return bool(self._taken_ends) or self._has_running_ends or has_part_ends

    def ends(self, agent_number: int) -> list[Release]:
        """Return what is released there at known times, soonest first; overdue ends are left out,
        as they may never come.
        """
        self._index_taken()
        running = self._running_ends.get(agent_number)
        if running is None:
            here = self.agents.views[agent_number].running
            known = [(each.ends_at, self.released(agent_number, each)) for each in here]
            running = self._running_ends[agent_number] = sorted(end for end in known if end[0] > self.now)
        taken = self._taken_ends.get(agent_number, [])
        devices = self._pool.releases(agent_number) if self._pool else []
        return sorted(running + taken + devices) if taken or devices else running

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
            here = self.agents.views[agent_number].running
            sure = [each for each in here if self.now < each.ends_at <= at and not each.is_being_preempted]
            shares = tuple([share for each in sure for share in each.shares])
            running = Released(sum([self.released(agent_number, each) for each in sure]), shares)
            self._released_by[agent_number, at] = running
        self._index_taken()
        amounts = [amount for until, amount in self._taken_ends.get(agent_number, ()) if until <= at]
        parts = self._pool.parts_ended(agent_number, at) if self._pool else []
        amounts += [part.joining_request for part in parts]
        if not amounts:
            return running
        shares = (*running.shares, *[part.share for part in parts])
        return Released(running.amount + sum(amounts), shares)

    def released(self, agent_number: int, held: RunningAllocation | PreemptibleAllocation) -> int:
        """Return what is released there when the allocation ends, without devices that others
        share.
        """
        return self._layout.pack_room(self._pool.with_whole(agent_number, held) if self._pool else held.slots)

    def unshared(self, agent_number: int, shares: Iterable[DeviceShare]) -> int:
        """Return the devices that become whole there without these shares."""
        return self._pool.unshared(agent_number, shares) if self._pool else 0

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
        part = self.agents.fractional_requests.get(request)
        if part and self._pool and self._pool.knows(agent_number, part.slot_name):
            return self._pool.fits_on(agent_number, part, room, gone, at, count)
        return self._layout.fits(request * count, room)

    def free_devices(self, requirements: Requirements) -> dict[str, list[int]]:
        """Return by slot with shared devices, for agents that know it and could host `requirements`: the
        free vector with the most of one device.
        """
        if self._pool is None:
            return {}
        rooms = self.limit_to_one_kernel(self.free_vectors(requirements), None)
        return {name: self._pool.with_largest_rest(rooms, name) for name in self._layout.shared}

    def has_hold(self, agent_number: int) -> bool:
        """Return True if it has a reservation."""
        return agent_number in self._holds

    def free(self, agent_number: int) -> int:
        """Return the free capacity there, reserved or not."""
        return self._ledger.free(agent_number)

    def free_for_one_kernel(self, agent_id: int, largest: int | None) -> int:
        """Return the part of `room` that one kernel may get on a schedulable agent by id; `largest`
        as in `limit_to_one_kernel`.
        """
        [room] = self.limit_to_one_kernel([self.free(self.agents.numbers[agent_id])], largest)
        return room

    def free_vectors(self, requirements: Requirements) -> list[int]:
        """Return the free capacity of each schedulable agent that could host `requirements` now, reserved
        or not, in any order.
        """
        if requirements.required_agent_id is not None:
            named = self.agents.numbers.get(requirements.required_agent_id)
            is_host = named is not None and requirements.may_run_on(self.agents.views[named])
            return [self.free(named)] if named is not None and is_host else []
        members = self.agents.members_in(self.agents.pools_open_to(requirements))
        return list(map(self.free, self.agents.suiting(requirements, members)))

    def _take_all(self, request_class: RequestClass, until: Until) -> list[int] | None:
        """Take capacity for each request. Return agent numbers; None, and take nothing, if there is
        too little.
        """
        if request_class.is_together:
            return self._take_together(request_class, until)
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

    def _take_together(self, request_class: RequestClass, until: Until) -> list[int] | None:
        """Take all kernels on one agent, which are tried one after the other, as only placing each
        kernel shows if the devices suffice.
        """
        start, tried = len(self._taken), set[int]()
        (request, search), *others = request_class.queries
        take_first = partial(self._take, request_class, request, search, until)
        while (first := self.occupancy.find_first(take_first, request_class, tried)) is not None:
            here = AgentFilter(only=(first,))
            if all(self._take(request_class, *other, until, here) is not None for other in others):
                return [first] * len(request_class.queries)
            self._undo(start)
            tried.add(first)
        return None

    def _take(
        self,
        request_class: RequestClass,
        request: int,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None = None,
    ) -> int | None:
        """Take capacity for one kernel on an allowed agent. Return its number."""
        allowed = self._among_linked(request_class, allowed)
        part = request_class.fractional_requests.get(request)
        if part and self._pool:
            return self._pool.take(request_class, request, part, search, until, allowed)
        if until is not None and self._ledger.has_hold_beyond(until):
            # A session that ends in time prefers reserved capacity, which leaves open capacity to
            # others.
            agent_number = self._take_held(request_class, request, search, until, allowed)
            if agent_number is not None:
                return agent_number
            has_no_room = self.states[request_class].has_no_room
            if has_no_room and len(request_class.queries) == 1 and not request_class.is_bounded:
                return None
        agent_number = request_class.preferred
        if agent_number is None or not self._take_on(agent_number, request, until, allowed):
            where = self._ledger.open_pools(search, until) if request_class.is_bounded else search
            agent_number = None
            for pool, query in where if allowed is None else ():
                agent_number = self._bins[pool].take(query)
                if agent_number is not None:
                    break
            if allowed is not None:
                take_on = partial(self._take_on, request=request, until=until, allowed=allowed)
                agent_number = allowed.take(where, self._bins, self.agents.pool_of, take_on)
            if agent_number is None:
                agent_number = request_class.designated
                if agent_number is None or not self._take_on(agent_number, request, until, allowed):
                    return None
        self._taken.append(Taken(agent_number, request, request, until))
        if agent_number in self._holds:
            self._holds[agent_number].take(request, request)
        return agent_number

    def _among_linked(self, request_class: RequestClass, allowed: AgentFilter | None) -> AgentFilter | None:
        """Restrict the allowed agents to those with enough linked devices, if some must be linked."""
        requirements = request_class.requirements
        if not requirements.linked_amounts:
            return allowed
        return replace(allowed or AgentFilter(), linked=LinkedHosts(self.linked, requirements))

    def _index_taken(self) -> None:
        for taken in self._taken[self._indexed :]:
            if taken.until is not None and taken.part is None:
                self._taken_ends.setdefault(taken.agent_number, []).append((taken.until, taken.amount))
        self._indexed = len(self._taken)

    def _may_end_in_time(self, state: PassState, until: Until) -> bool:
        """Return True if it ends before all sessions of its request class that found no capacity."""
        return state.no_room_from is not None and self._ledger.assumed_end(until) < state.no_room_from

    def _note_failure(self, state: PassState, until: Until) -> None:
        if state.request_class.is_bounded:
            end = self._ledger.assumed_end(until)
            before = state.no_room_from if state.has_no_room else None
            state.no_room_from = end if before is None else min(end, before)

    def _take_on(self, agent_number: int, request: int, until: Until, allowed: AgentFilter | None) -> bool:
        """Take capacity on that agent if it has some and is allowed; −1: no such agent."""
        if agent_number < 0 or not self._layout.fits(request, self._open[agent_number]):
            return False
        if not (allowed is None or agent_number in allowed):
            return False
        if not self._ledger.is_open_until(self.agents.pool_of[agent_number], until):
            return False
        self._ledger.set_open(agent_number, self._open[agent_number] - request)
        return True

    def _take_held(
        self,
        request_class: RequestClass,
        request: int,
        search: CandidateQueries,
        until: datetime,
        allowed: AgentFilter | None,
    ) -> int | None:
        """Take capacity on an agent whose reserving session starts only after this one ends; the
        oldest reservation first.
        """
        for agent_number, hold in self._ledger.holds_beyond(until):
            if (
                self.agents.may_host(request_class, request, search, agent_number)
                and (allowed is None or agent_number in allowed)
                and self._layout.fits(request, hold.free)
            ):
                self._ledger.change(agent_number, request, 0)
                self._taken.append(Taken(agent_number, request, 0, until))
                return agent_number
        return None

    def _undo(self, start: int) -> None:
        """Undo everything taken since `start`."""
        while len(self._taken) > start:
            taken = self._ledger.undo_last()
            if self._pool:
                self._pool.undo(taken)
