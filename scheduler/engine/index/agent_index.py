"""Index of the schedulable agents of a group, reused from one pass to the next."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import NamedTuple

from common.values.resources import CPU, MEM, ResourceSlots
from scheduler.engine.accelerators import FractionalRequest
from scheduler.engine.agent_views import AgentView
from scheduler.engine.index.accelerator_vectors import (
    DeviceVectors,
    can_assign_all,
    device_counts,
    missing_fields,
    shared_slots,
)
from scheduler.engine.index.bin_index import MEMORY, BinIndex, EmptiestFirstIndex, restricted_to
from scheduler.engine.index.request_shape import CandidateQueries, RequestClass, total_fractions
from scheduler.engine.index.resource_vector import Layout, spread_count
from scheduler.engine.index.round_robin_index import RoundRobinIndex
from scheduler.engine.snapshot import PendingSession, Requirements, Snapshot
from scheduler.engine.values import Gang, Strategy

INDEX_TYPES = {
    Strategy.CONCENTRATED: BinIndex,
    Strategy.DISPERSED: EmptiestFirstIndex,
    Strategy.ROUND_ROBIN: RoundRobinIndex,
}
NO_AGENTS: frozenset[int] = frozenset()
MAX_CLASSES = 10_000  # old shapes stay until the cache is cleared


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

    def may_host(self, needs: Requirements) -> bool:
        """Return True if these agents accept such sessions now, given capacity."""
        is_open = self.open_to is None or self.open_to in needs.reservations
        return is_open and self.architecture == needs.architecture


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
        self._all_views = snapshot.agents
        self._strategy = snapshot.rules.strategy
        self.layout = Layout(_slot_names(snapshot), shared_slots(snapshot))
        self.device_vectors = DeviceVectors(snapshot.agents, self.layout)
        self.fractional_requests: dict[int, FractionalRequest] = {}  # by request vector
        self.total = _total_capacity(snapshot.agents)
        # A grid takes the highest number first, which so is the smallest id.
        schedulable = (agent for agent in snapshot.agents if agent.is_schedulable)
        self.views = sorted(schedulable, key=lambda agent: agent.id, reverse=True)
        self.ids = [agent.id for agent in self.views]
        self.single_ids = [(agent_id,) for agent_id in self.ids]  # as in placements of one kernel
        self.numbers = {agent.id: ordinal for ordinal, agent in enumerate(self.views)}
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
        self.free = [pack_room(free_of(agent), ordinal) for ordinal, agent in enumerate(self.views)]
        self._pool_keys: list[PoolKey] = []
        self.pool_of: list[int] = []  # by agent number
        self.members: list[list[int]] = []  # agent numbers by pool
        self.bins: list[BinIndex] = []
        self._fill_pools()
        self._start_behind(snapshot.last_agent_id)
        self._sizes: dict[tuple[str, str, int | None, int | None], AgentSizes] = {}
        self.classes: dict[int, RequestClass] = {}  # by id() of the needs
        self._classes: dict[Requirements, RequestClass] = {}
        self._compiled: list[Requirements] = []  # keeps the objects alive, as id() is reused otherwise

    def update(self, snapshot: Snapshot) -> bool:
        """Update free amounts from a later snapshot. Return False if anything else changed; then a
        new index is needed.
        """
        if snapshot.rules.strategy is not self._strategy or len(snapshot.agents) != len(self._all_views):
            return False
        if snapshot.agents is not self._all_views:
            pairs = zip(self._all_views, snapshot.agents, strict=True)
            changed = [(before, after) for before, after in pairs if before is not after]
            if not all(_differ_in_room(*pair) for pair in changed):
                return False
            if any(missing_fields(agent, self.layout) for _, agent in changed):
                return False
            self._all_views = snapshot.agents
            for _, agent in changed:
                self._set_free(agent)
        self._start_behind(snapshot.last_agent_id)
        for shape in self._classes.values():
            shape.has_no_room, shape.may_reserve = False, True
            shape.search_failed, shape.failed_searches = False, 0
            shape.longest_runtime.clear()
        if len(self.classes) > MAX_CLASSES:
            self._clear_classes()
        return True

    def request_class(self, needs: Requirements) -> RequestClass:
        """Return the compiled needs. Raises UnknownSlot."""
        shape = self._classes.get(needs)
        if shape is None:
            shape = self._classes[needs] = self._compile(needs)
        self.classes[id(needs)] = shape
        self._compiled.append(needs)
        return shape

    def compile_requirements(self, pending: Iterable[PendingSession]) -> int:
        """Compile the needs of all these sessions. Return the smallest memory request as a vector.
        Raises UnknownSlot.
        """
        asked, shapes = list(map(attrgetter("requirements"), pending)), self.classes
        keys = set(map(id, asked))
        if not shapes.keys() >= keys:
            for needs in asked:
                if id(needs) not in shapes:
                    self.request_class(needs)
        return min(map(attrgetter("least_memory"), map(shapes.__getitem__, keys)), default=0)

    def pools_open_to(self, needs: Requirements) -> set[int]:
        """Return the pools whose agents accept such sessions now, of any size."""
        return {number for number, key in enumerate(self._pool_keys) if key.may_host(needs)}

    def pools_with_devices(self, slot_name: str) -> set[int]:
        """Return the pools whose agents know the devices of that slot one by one."""
        return {number for number, key in enumerate(self._pool_keys) if slot_name in key.device_names}

    def members_in(self, pools: Iterable[int]) -> list[int]:
        """Return the agent numbers of these pools, pool by pool."""
        return [ordinal for pool in sorted(pools) for ordinal in self.members[pool]]

    def sizes(self, needs: Requirements, largest_kernel: int | None = None) -> AgentSizes:
        """Return the sizes of all agents that suit such needs, schedulable or not; constant over
        passes. `largest_kernel`: the largest kernel of a combined request; `largest` then applies
        to the combination.
        """
        key = needs.architecture, needs.device_model, needs.required_agent_id, largest_kernel
        sizes = self._sizes.get(key)
        if sizes is None:
            pack, dealing = self.layout.pack_room, self.device_vectors
            suiting = [agent for agent in self._all_views if needs.suits(agent)]
            capacities = [pack(dealing.capacity_amounts(agent)) for agent in suiting]
            if largest_kernel is None:
                alike = {id(each): each for each in map(dealing.largest_amounts, suiting)}.values()
                largest = {pack(each) for each in alike}
            else:
                pairs = zip(capacities, self.largest_kernels(needs), strict=True)
                largest = {has if self.layout.fits(largest_kernel, of_one) else 0 for has, of_one in pairs}
            sizes = self._sizes[key] = AgentSizes(capacities, largest)
        return sizes

    def may_hold(self, shape: RequestClass) -> bool:
        """Return True if empty schedulable agents could hold all its kernels."""
        ordinals = self.members_in(shape.pools) if shape.designated is None else [shape.designated]
        left = [self.capacities[ordinal] for ordinal in ordinals if ordinal >= 0]
        if shape.is_spread:
            return spread_count(shape.requests, left, self.layout.fits) == len(shape.requests)
        for request in shape.requests:
            place = next((n for n, room in enumerate(left) if self.layout.fits(request, room)), None)
            if place is None:
                return False
            left[place] -= 0 if shape.is_together else request  # parts of devices do not add up
        return True

    def largest_kernels(self, needs: Requirements) -> list[int]:
        """Return the most that one kernel gets on each of these agents."""
        pack, largest_of = self.layout.pack_room, self.device_vectors.largest_amounts
        return [pack(largest_of(agent)) for agent in self._all_views if needs.suits(agent)]

    def _start_behind(self, agent_id: int) -> None:
        """Start round-robin behind this agent, which may be gone: ids grow as numbers fall."""
        ordinal = bisect_left(self.views, -agent_id, key=lambda agent: -agent.id)
        for grid in self.bins:
            grid.start_behind(ordinal)

    def _set_free(self, agent: AgentView) -> None:
        ordinal = self.numbers.get(agent.id)
        if ordinal is None:
            return
        self.views[ordinal] = agent
        vector = self.layout.pack_room(self.device_vectors.free_amounts(agent), ordinal)
        if vector != self.free[ordinal]:
            self.bins[self.pool_of[ordinal]].set_free(ordinal, vector)

    def _clear_classes(self) -> None:
        self.classes.clear()
        self._classes.clear()
        self._sizes.clear()
        self._compiled.clear()
        self.fractional_requests.clear()

    def _pack(self, amounts: Sequence[Mapping[str, int]]) -> list[int]:
        """Pack the amounts of each agent as vectors."""
        alike = {id(each): each for each in amounts}  # agents of one kind may share an object
        packed = {key: self.layout.pack_room(each) for key, each in alike.items()}
        return [packed[id(each)] + ordinal for ordinal, each in enumerate(amounts)]

    def _fill_pools(self) -> None:
        keys = [_pool_key(agent) for agent in self.views]
        self._pool_keys = sorted(set(keys), key=lambda key: key.order)
        self.closes_at = [key.closes_at for key in self._pool_keys]
        self.has_windows = any(key.closes_at or key.open_to is not None for key in self._pool_keys)
        numbers = {key: number for number, key in enumerate(self._pool_keys)}
        self.pool_of = [numbers[key] for key in keys]
        kind = INDEX_TYPES[self._strategy]
        self.members = [[] for _ in self._pool_keys]
        for ordinal, number in enumerate(self.pool_of):
            self.members[number].append(ordinal)
        for key, members in zip(self._pool_keys, self.members, strict=True):
            device = next((name for name in key.slot_names if name not in (CPU, MEM)), None)
            grid = kind(
                self.free, self.layout, device and self.device_vectors.ordering_slot(device, key.device_names)
            )
            grid.fill([self.free[ordinal] for ordinal in members])
            self.bins.append(grid)

    def _compile(self, needs: Requirements) -> RequestClass:
        if not self.layout.has_all(needs.total) or self.device_vectors.lacks_field(needs):
            raise UnknownSlot
        requests = {id(slots): self.layout.pack_request(slots) for slots in needs.kernels}
        parts = self.device_vectors.fractional_requests(needs, requests)
        self.fractional_requests.update(parts)
        is_one = needs.gang is Gang.ONE_MACHINE and len(needs.kernels) > 1
        order, searches, largest = self._queries(needs, requests, is_one_request=is_one and not parts)
        designated = self._agent_number(needs, needs.required_agent_id)
        pools = {pool for _, search in searches for pool, _ in search}
        preferred = self._preferred(needs, pools)
        if designated is not None and designated >= 0:
            pools.add(self.pool_of[designated])
        is_bounded = any(self.closes_at[pool] is not None for pool in pools)
        is_together = is_one and bool(parts)
        is_plain = (
            needs.placement_group is None
            and not is_together
            and (needs.gang is not Gang.SPREAD or len(order) == 1)
        )
        only_search = searches[0][1]
        is_alone = len(order) == len(only_search) == 1 and is_plain and not parts
        return RequestClass(
            requirements=needs,
            order=order,
            queries=searches,
            is_bounded=is_bounded,
            designated=designated,
            preferred=preferred,
            single_query=only_search[0] if is_alone and not is_bounded and preferred is None else None,
            total=self.layout.pack_request(needs.total),
            least_memory=min(request & MEMORY for request, _ in searches),
            fractions=total_fractions(needs.total, self.total),
            is_plain=is_plain,
            is_together=is_together,
            largest_kernel=largest,
            fractional_requests=parts,
        )

    def _queries(
        self, needs: Requirements, requests: Mapping[int, int], *, is_one_request: bool
    ) -> tuple[tuple[int, ...], tuple[tuple[int, CandidateQueries], ...], int | None]:
        """Return the order of the kernels, largest first, and request and search of each; if
        combined, one request for all and the largest kernel. `requests` is keyed by id() of the
        slots.
        """
        packed = [requests[id(slots)] for slots in needs.kernels]
        if is_one_request:
            whole, largest = self.layout.pack_request(needs.total), reduce(self.layout.greater, packed)
            search = self._query_pools(needs, needs.total, whole, largest)
            return tuple(range(len(packed))), ((whole, search),), largest
        order = tuple(sorted(range(len(packed)), key=packed.__getitem__, reverse=True))
        searches = {
            id(slots): self._query_pools(needs, slots, requests[id(slots)], requests[id(slots)])
            for slots in needs.kernels
        }
        return order, tuple((packed[index], searches[id(needs.kernels[index])]) for index in order), None

    def _agent_number(self, needs: Requirements, agent_id: int | None) -> int | None:
        """Return the number of that agent; −1 if it could not host `needs`; None if none is named."""
        if agent_id is None:
            return None
        ordinal = self.numbers.get(agent_id, -1)
        if ordinal < 0 or not needs.may_run_on(self.views[ordinal]):
            return -1
        agent = self.views[ordinal]
        names = [devices.slot_name for devices in agent.devices]
        is_dealt = not names or all(can_assign_all(slots, names) for slots in needs.kernels)
        is_large = agent.real_capacity is None or all(
            slots.fits_in(agent.real_capacity) for slots in needs.kernels
        )
        return ordinal if is_dealt and is_large else -1

    def _preferred(self, needs: Requirements, pools: set[int]) -> int | None:
        ordinal = self._agent_number(needs, needs.designated_agent_id) if needs.may_run_elsewhere else None
        return ordinal if ordinal is not None and ordinal >= 0 and self.pool_of[ordinal] in pools else None

    def _query_pools(
        self, needs: Requirements, slots: ResourceSlots, request: int, one: int
    ) -> CandidateQueries:
        """Return the pools to search and a query for each. `one`: largest request of a kernel, if
        `slots` combines several.
        """
        if needs.required_agent_id is not None:
            return ()
        found = [
            number
            for number, key in enumerate(self._pool_keys)
            if key.may_host(needs)
            and all(name in key.slot_names for name in slots)
            and (not key.device_names or can_assign_all(slots, key.device_names))
        ]
        # Agents reserved for it come first.
        found.sort(key=lambda number: self._pool_keys[number].open_to is None)
        queries = ((number, self.bins[number].query(request)) for number in found)
        if not (self.is_overcommitted or needs.device_model):
            return tuple(queries)
        large = ((number, query, self._hosts_in(number, needs, one)) for number, query in queries)
        return tuple(
            (number, restricted_to(query, hosts)) for number, query, hosts in large if hosts != NO_AGENTS
        )

    def _hosts_in(self, pool: int, needs: Requirements, request: int) -> frozenset[int] | None:
        """Return the agents of a pool that have the model and could hold one kernel if empty; None:
        all.
        """
        members = self.members[pool]
        hosts = frozenset(
            each
            for each in members
            if needs.suits(self.views[each]) and self.layout.fits(request, self.largest[each])
        )
        return None if len(hosts) == len(members) else self._hosts.setdefault(hosts, hosts)


def _differ_in_room(before: AgentView, after: AgentView) -> bool:
    """Return True if both views are of one agent that differs at most in its free amounts."""
    return (
        before.id == after.id
        and before.is_schedulable == after.is_schedulable
        and before.architecture == after.architecture
        and before.capacity == after.capacity
        and before.real_capacity == after.real_capacity
        and before.device_model == after.device_model
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
    for capacity in {id(agent.capacity): agent.capacity for agent in snapshot.agents}.values():
        names.update(capacity)
    for needs in {id(session.requirements): session.requirements for session in snapshot.pending}.values():
        names.update(needs.total)
    return names


def _total_capacity(agents: tuple[AgentView, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for agent in agents:
        for name, amount in agent.capacity.items():
            total[name] = total.get(name, 0) + amount
    return total
