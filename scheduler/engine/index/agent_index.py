"""Index of the schedulable agents of a group, reused from one pass to the next."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import NamedTuple

from common.values.resources import CPU, MEM, ResourceSlots
from scheduler.engine.accelerators import FractionalRequest
from scheduler.engine.agent_views import AgentView, total_capacity
from scheduler.engine.index.accelerator_vectors import (
    DeviceVectors,
    can_assign_all,
    device_counts,
    missing_fields,
    shared_slots,
)
from scheduler.engine.index.bin_index import MEMORY, BinIndex, EmptiestFirstIndex, restricted_to
from scheduler.engine.index.request_class import CandidateQueries, RequestClass, total_fractions
from scheduler.engine.index.resource_vector import Layout, spread_count
from scheduler.engine.index.round_robin_index import RoundRobinIndex
from scheduler.engine.snapshot import PendingSession, Requirements, Snapshot
from scheduler.engine.values import Gang, Hardware, Strategy

INDEX_TYPES = {
    Strategy.CONCENTRATED: BinIndex,
    Strategy.DISPERSED: EmptiestFirstIndex,
    Strategy.ROUND_ROBIN: RoundRobinIndex,
}
NO_AGENTS: frozenset[int] = frozenset()
MAX_CLASSES = 10_000  # old request classes stay until the cache is cleared


class UnknownSlot(Exception):
    """A session requests a slot, or a part of a device, for which the layout has no field."""


class PoolKey(NamedTuple):
    """Common properties of the agents of a pool. `open_to`: reservation whose sessions alone may
    use them now; `closes_at`: start of the next reservation.
    """

    architecture: str
    slot_names: tuple[str, ...]
    closes_at: datetime | None
    open_to: int | None
    device_names: tuple[str, ...] = ()  # slots whose devices are known one by one

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: agents that will be reserved come before others, soonest first, as sessions
        that may run there leave the rest to others.
        """
        closes_at = self.closes_at
        never = closes_at is None
        return (
            len(self.slot_names), self.architecture, self.slot_names, never,
            0.0 if closes_at is None else closes_at.timestamp(), self.open_to or 0, self.device_names,
        )  # fmt: skip

    def may_host(self, requirements: Requirements) -> bool:
        """Return True if these agents accept such sessions now, given capacity."""
        is_open = self.open_to is None or self.open_to in requirements.reservations
        return is_open and self.architecture == requirements.architecture


class AgentSizes(NamedTuple):
    """Capacity of each agent, and the distinct most that one kernel gets, without agent numbers."""

    capacities: list[int]
    largest: set[int]


class AgentIndex:
    """Schedulable agents, pooled by architecture, slot kinds and reservation, with one grid per
    pool in the state before the pass.

    Agents and pools are numbered. Pools with the fewest slot kinds come first, so that sessions
    without devices do not use the CPU of agents with devices while plain agents have capacity.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.all_views = snapshot.agents
        self._strategy = snapshot.rules.strategy
        self.layout = Layout(_slot_names(snapshot), shared_slots(snapshot))
        self.device_vectors = DeviceVectors(snapshot.agents, self.layout)
        self.fractional_requests: dict[int, FractionalRequest] = {}  # by request vector
        self.total = total_capacity(snapshot.agents)
        # A grid takes the highest number first, which so is the smallest id.
        schedulable = (agent for agent in snapshot.agents if agent.is_schedulable)
        self.views = sorted(schedulable, key=lambda agent: agent.id, reverse=True)
        self.ids = [agent.id for agent in self.views]
        self.single_ids = [(agent_id,) for agent_id in self.ids]  # as in placements of one kernel
        self.numbers = {agent.id: agent_number for agent_number, agent in enumerate(self.views)}
        # By agent number, as the following lists.
        self.capacities = self._pack([self.device_vectors.capacity_amounts(agent) for agent in self.views])
        self.is_overcommitted = any(agent.real_capacity is not None for agent in self.views)
        self.largest = (  # most that one kernel gets
            self._pack([self.device_vectors.largest_amounts(agent) for agent in self.views])
            if self.is_overcommitted
            else self.capacities
        )
        self._hosts: dict[frozenset[int], frozenset[int]] = {}  # one object per distinct set
        pack_room, free_of = self.layout.pack_room, self.device_vectors.free_amounts
        self.free = [pack_room(free_of(agent), agent_number) for agent_number, agent in enumerate(self.views)]
        self._pool_keys: list[PoolKey] = []
        self.pool_of: list[int] = []  # by agent number
        self.members: list[list[int]] = []  # agent numbers by pool
        self.bins: list[BinIndex] = []
        self._fill_pools()
        self._start_behind(snapshot.last_agent_id)
        self._sizes: dict[tuple[Hardware, int | None, int | None], AgentSizes] = {}
        self.classes: dict[Requirements, RequestClass] = {}

    def update(self, snapshot: Snapshot) -> bool:
        """Update free amounts from a later snapshot. Return False if anything else changed; then a
        new index is needed.
        """
        if snapshot.rules.strategy is not self._strategy or len(snapshot.agents) != len(self.all_views):
            return False
        if snapshot.agents is not self.all_views:
            pairs = zip(self.all_views, snapshot.agents, strict=True)
            changed = [(before, after) for before, after in pairs if before is not after]
            if not all(_differ_in_room(*pair) for pair in changed):
                return False
            if any(missing_fields(agent, self.layout) for _, agent in changed):
                return False
            self.all_views = snapshot.agents
            for _, agent in changed:
                self._set_free(agent)
        self._start_behind(snapshot.last_agent_id)
        if len(self.classes) > MAX_CLASSES:
            self._clear_classes()
        return True

    def compile_requirements(self, pending: Iterable[PendingSession]) -> dict[Requirements, RequestClass]:
        """Return the request classes of all these sessions. Raises UnknownSlot."""
        requested, classes = set(map(attrgetter("requirements"), pending)), self.classes
        for requirements in requested.difference(classes):
            classes[requirements] = self._compile(requirements)
        return {requirements: classes[requirements] for requirements in requested}

    def may_host(
        self, request_class: RequestClass, request: int, queries: CandidateQueries, agent_number: int
    ) -> bool:
        """Return True if a kernel with these queries could run on the agent if that were empty."""
        if request_class.designated is not None:
            if agent_number != request_class.designated:
                return False
        elif all(
            pool != self.pool_of[agent_number] for pool, _query in queries
        ) or not request_class.requirements.suits(self.views[agent_number]):
            return False
        return self.is_large_enough(agent_number, request_class.largest_single(request))

    def is_large_enough(self, agent_number: int, request: int) -> bool:
        """Return True if one kernel of this size fits on the empty agent."""
        return self.layout.fits(request, self.largest[agent_number])

    def suiting(self, requirements: Requirements, agent_numbers: list[int]) -> list[int]:
        """Filter agents by what is requested of devices."""
        if not requirements.names_devices:
            return agent_numbers
        return [each for each in agent_numbers if requirements.suits(self.views[each])]

    def pools_open_to(self, requirements: Requirements) -> set[int]:
        """Return the pools whose agents accept such sessions now, of any size."""
        return {number for number, key in enumerate(self._pool_keys) if key.may_host(requirements)}

    def pools_with_devices(self, slot_name: str) -> set[int]:
        """Return the pools whose agents know the devices of that slot one by one."""
        return {number for number, key in enumerate(self._pool_keys) if slot_name in key.device_names}

    def members_in(self, pools: Iterable[int]) -> list[int]:
        """Return the agent numbers of these pools, pool by pool."""
        return [agent_number for pool in sorted(pools) for agent_number in self.members[pool]]

    def sizes(self, requirements: Requirements, largest_kernel: int | None = None) -> AgentSizes:
        """Return the sizes of all agents that suit such requirements, schedulable or not; constant over
        passes. `largest_kernel`: the largest kernel of a combined request; `largest` then applies
        to the combination.
        """
        key = requirements.hardware, requirements.required_agent_id, largest_kernel
        sizes = self._sizes.get(key)
        if sizes is None:
            pack, dealing = self.layout.pack_room, self.device_vectors
            suiting = [agent for agent in self.all_views if requirements.suits(agent)]
            capacities = [pack(dealing.capacity_amounts(agent)) for agent in suiting]
            if largest_kernel is None:
                largest = {pack(each) for each in set(map(dealing.largest_amounts, suiting))}
            else:
                pairs = zip(capacities, self.largest_kernels(requirements), strict=True)
                largest = {has if self.layout.fits(largest_kernel, of_one) else 0 for has, of_one in pairs}
            sizes = self._sizes[key] = AgentSizes(capacities, largest)
        return sizes

    def may_hold(self, request_class: RequestClass) -> bool:
        """Return True if empty schedulable agents could hold all its kernels."""
        agent_numbers = (
            self.members_in(request_class.pools)
            if request_class.designated is None
            else [request_class.designated]
        )
        left = [self.capacities[agent_number] for agent_number in agent_numbers if agent_number >= 0]
        if request_class.is_spread:
            return spread_count(request_class.requests, left, self.layout.fits) == len(request_class.requests)
        for request in request_class.requests:
            place = next((n for n, room in enumerate(left) if self.layout.fits(request, room)), None)
            if place is None:
                return False
            left[place] -= 0 if request_class.is_together else request  # parts of devices do not add up
        return True

    def largest_kernels(self, requirements: Requirements) -> list[int]:
        """Return the most that one kernel gets on each of these agents."""
        pack, largest_of = self.layout.pack_room, self.device_vectors.largest_amounts
        return [pack(largest_of(agent)) for agent in self.all_views if requirements.suits(agent)]

    def _start_behind(self, agent_id: int) -> None:
        """Start round-robin behind this agent, which may be gone: ids grow as numbers fall."""
        agent_number = bisect_left(self.views, -agent_id, key=lambda agent: -agent.id)
        for index in self.bins:
            index.start_behind(agent_number)

    def _set_free(self, agent: AgentView) -> None:
        agent_number = self.numbers.get(agent.id)
        if agent_number is None:
            return
        self.views[agent_number] = agent
        vector = self.layout.pack_room(self.device_vectors.free_amounts(agent), agent_number)
        if vector != self.free[agent_number]:
            self.bins[self.pool_of[agent_number]].set_free(agent_number, vector)

    def _clear_classes(self) -> None:
        self.classes.clear()
        self._sizes.clear()
        self.fractional_requests.clear()

    def _pack(self, amounts: Sequence[ResourceSlots]) -> list[int]:
        """Pack the amounts of each agent as vectors."""
        packed = {each: self.layout.pack_room(each) for each in set(amounts)}  # agents are mostly alike
        return [packed[each] + agent_number for agent_number, each in enumerate(amounts)]

    def _fill_pools(self) -> None:
        keys = [_pool_key(agent) for agent in self.views]
        self._pool_keys = sorted(set(keys), key=lambda key: key.order)
        self.closes_at = [key.closes_at for key in self._pool_keys]
        self.has_windows = any(key.closes_at or key.open_to is not None for key in self._pool_keys)
        numbers = {key: number for number, key in enumerate(self._pool_keys)}
        self.pool_of = [numbers[key] for key in keys]
        kind = INDEX_TYPES[self._strategy]
        self.members = [[] for _ in self._pool_keys]
        for agent_number, number in enumerate(self.pool_of):
            self.members[number].append(agent_number)
        for key, members in zip(self._pool_keys, self.members, strict=True):
            device = next((name for name in key.slot_names if name not in (CPU, MEM)), None)
            index = kind(
                self.free, self.layout, device and self.device_vectors.ordering_slot(device, key.device_names)
            )
            index.fill([self.free[agent_number] for agent_number in members])
            self.bins.append(index)

    def _compile(self, requirements: Requirements) -> RequestClass:
        if not self.layout.has_all(requirements.total) or self.device_vectors.lacks_field(requirements):
            raise UnknownSlot
        requests = {slots: self.layout.pack_request(slots) for slots in requirements.kernels}
        parts = self.device_vectors.fractional_requests(requirements, requests)
        self.fractional_requests.update(parts)
        is_one = requirements.gang is Gang.ONE_MACHINE and len(requirements.kernels) > 1
        order, searches, largest = self._queries(requirements, requests, is_one_request=is_one and not parts)
        designated = self._agent_number(requirements, requirements.required_agent_id)
        pools = {pool for _, search in searches for pool, _ in search}
        preferred = self._preferred(requirements, pools)
        if designated is not None and designated >= 0:
            pools.add(self.pool_of[designated])
        is_bounded = any(self.closes_at[pool] is not None for pool in pools)
        is_together = is_one and bool(parts)
        is_plain = (
            requirements.placement_group is None
            and not (is_together or requirements.linked_amounts)
            and (requirements.gang is not Gang.SPREAD or len(order) == 1)
        )
        only_search = searches[0][1]
        is_alone = len(order) == len(only_search) == 1 and is_plain and not parts
        return RequestClass(
            requirements=requirements,
            order=order,
            queries=searches,
            is_bounded=is_bounded,
            designated=designated,
            preferred=preferred,
            single_query=only_search[0] if is_alone and not is_bounded and preferred is None else None,
            total=self.layout.pack_request(requirements.total),
            least_memory=min(request & MEMORY for request, _ in searches),
            fractions=total_fractions(requirements.total, self.total),
            is_plain=is_plain,
            is_together=is_together,
            largest_kernel=largest,
            fractional_requests=parts,
        )

    def _queries(
        self, requirements: Requirements, requests: Mapping[ResourceSlots, int], *, is_one_request: bool
    ) -> tuple[tuple[int, ...], tuple[tuple[int, CandidateQueries], ...], int | None]:
        """Return the order of the kernels, largest first, and request and search of each; if
        combined, one request for all and the largest kernel.
        """
        packed = [requests[slots] for slots in requirements.kernels]
        if is_one_request:
            whole, largest = self.layout.pack_request(requirements.total), reduce(self.layout.greater, packed)
            search = self._query_pools(requirements, requirements.total, whole, largest)
            return tuple(range(len(packed))), ((whole, search),), largest
        order = tuple(sorted(range(len(packed)), key=packed.__getitem__, reverse=True))
        searches = {
            slots: self._query_pools(requirements, slots, requests[slots], requests[slots])
            for slots in requirements.kernels
        }
        return (
            order,
            tuple((packed[index], searches[requirements.kernels[index]]) for index in order),
            None,
        )

    def _agent_number(self, requirements: Requirements, agent_id: int | None) -> int | None:
        """Return the number of that agent; −1 if it could not host `requirements`; None if none is named."""
        if agent_id is None:
            return None
        agent_number = self.numbers.get(agent_id, -1)
        if agent_number < 0 or not requirements.may_run_on(self.views[agent_number]):
            return -1
        agent = self.views[agent_number]
        names = [devices.slot_name for devices in agent.devices]
        is_dealt = not names or all(can_assign_all(slots, names) for slots in requirements.kernels)
        is_large = agent.real_capacity is None or all(
            slots.fits_in(agent.real_capacity) for slots in requirements.kernels
        )
        return agent_number if is_dealt and is_large else -1

    def _preferred(self, requirements: Requirements, pools: set[int]) -> int | None:
        agent_number = (
            self._agent_number(requirements, requirements.designated_agent_id)
            if requirements.may_run_elsewhere
            else None
        )
        return (
            agent_number
            if agent_number is not None and agent_number >= 0 and self.pool_of[agent_number] in pools
            else None
        )

    def _query_pools(
        self, requirements: Requirements, slots: ResourceSlots, request: int, one: int
    ) -> CandidateQueries:
        """Return the pools to search and a query for each. `one`: largest request of a kernel, if
        `slots` combines several.
        """
        if requirements.required_agent_id is not None:
            return ()
        found = [
            number
            for number, key in enumerate(self._pool_keys)
            if key.may_host(requirements)
            and all(name in key.slot_names for name in slots)
            and (not key.device_names or can_assign_all(slots, key.device_names))
        ]
        # Agents reserved for it come first.
        found.sort(key=lambda number: self._pool_keys[number].open_to is None)
        queries = ((number, self.bins[number].query(request)) for number in found)
        if not (self.is_overcommitted or requirements.names_devices):
            return tuple(queries)
        large = ((number, query, self._hosts_in(number, requirements, one)) for number, query in queries)
        return tuple(
            (number, restricted_to(query, hosts)) for number, query, hosts in large if hosts != NO_AGENTS
        )

    def _hosts_in(self, pool: int, requirements: Requirements, request: int) -> frozenset[int] | None:
        """Return the agents of a pool that suit the requirements and could hold one kernel if empty;
        None: all.
        """
        members = self.members[pool]
        hosts = frozenset(
            each
            for each in members
            if requirements.suits(self.views[each]) and self.layout.fits(request, self.largest[each])
        )
        return None if len(hosts) == len(members) else self._hosts.setdefault(hosts, hosts)


def _differ_in_room(before: AgentView, after: AgentView) -> bool:
    """Return True if both views are of one agent that differs at most in its free amounts."""
    return (
        before.id == after.id
        and (before.is_schedulable, before.closure) == (after.is_schedulable, after.closure)
        and before.architecture == after.architecture
        and before.capacity == after.capacity
        and before.real_capacity == after.real_capacity
        and before.device_model == after.device_model
        and before.device_mem_bytes == after.device_mem_bytes
        and before.device_api_version == after.device_api_version
        and before.isolation == after.isolation
        and before.storage_hosts == after.storage_hosts
        and device_counts(before) == device_counts(after)
        and before.window == after.window
        and before.next_window == after.next_window
    )


def _pool_key(agent: AgentView) -> PoolKey:
    return PoolKey(
        agent.architecture,
        tuple(agent.capacity),
        agent.next_window.starts_at if agent.next_window else None,
        agent.window.reservation_id if agent.window else None,
        tuple([devices.slot_name for devices in agent.devices]),
    )


def _slot_names(snapshot: Snapshot) -> set[str]:
    names: set[str] = set()
    for capacity in {agent.capacity for agent in snapshot.agents}:
        names.update(capacity)
    for requirements in {session.requirements for session in snapshot.pending}:
        names.update(requirements.total)
    return names
