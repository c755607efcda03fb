"""Capacity tracker for groups with shared devices: choose the device that a kernel joins, and find
when a device is whole again.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import chain
from typing import NamedTuple

from common.values.resources import MILLI
from scheduler.engine.accelerators import (
    DeviceShare,
    FractionalRequest,
    SharedDeviceIndex,
    SharedDevices,
    SharedDeviceSearch,
    whole_slot,
)
from scheduler.engine.agent_views import PreemptibleAllocation, RunningAllocation
from scheduler.engine.capacity.capacity_hold import Release, Released, Until
from scheduler.engine.capacity.placement_group import AgentFilter
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.request_class import CandidateQueries, RequestClass
from scheduler.engine.index.resource_vector import FIELD_MASK
from scheduler.engine.snapshot import Requirements
from scheduler.engine.values import GroupHost


class _AssignedPart(NamedTuple):
    """Part of a device that a kernel got in this pass."""

    slot_name: str
    device_id: int
    amount: int
    until: Until
    request: int  # includes a whole device
    joining_request: int  # without the device

    @property
    def share(self) -> DeviceShare:
        return DeviceShare(self.slot_name, self.device_id, self.amount)


def capacity_tracker(
    agents: AgentIndex,
    now: datetime,
    placement_group: Mapping[str, Iterable[GroupHost]],
    least_memory: int = 0,
) -> CapacityTracker:
    kind = FractionalTracker if agents.layout.shared else CapacityTracker
    return kind(agents, now, placement_group, least_memory)


class FractionalTracker(CapacityTracker):
    """Capacity tracker with shared devices. A request for a part goes to the shared device with the
    least sufficient rest on any agent of the pool; if there is none, a whole device becomes shared.
    This holds for every strategy, as the rest of a shared device is of no use to requests for whole
    ones.

    On an agent with a reservation, a kernel that does not end in time counts as if it took a whole
    device of its own. If capacity is reserved for a part, no other part that does not end in time
    is placed there, as both may need the same device.
    """

    def __init__(
        self,
        agents: AgentIndex,
        now: datetime,
        placement_group: Mapping[str, Iterable[GroupHost]],
        least_memory: int,
    ) -> None:
        super().__init__(agents, now, placement_group, least_memory)
        # by agent number and slot; None: unknown
        self._devices: dict[tuple[int, str], SharedDevices | None] = {}
        self._device_indexes: dict[tuple[int, str], SharedDeviceIndex] = {}  # by pool and slot
        self._searches: dict[
            tuple[int, int, Container[int] | None], SharedDeviceSearch
        ] = {}  # by pool, request and hosts
        self._parts_by_position: dict[int, _AssignedPart] = {}  # by index in `_taken`
        self._parts_on: dict[int, list[_AssignedPart]] = {}  # by agent number
        self._ending_parts = 0  # number of them with a known end
        self._held_for_parts: set[int] = set()  # agents with capacity reserved for one

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
        if request_class.fractional_requests:
            self._held_for_parts.update(agent_numbers)
        return super().reserve(
            request_class, agent_numbers, until, priority=priority, released=released, is_first=is_first
        )

    def remove_holds(self) -> None:
        if self._holds:  # otherwise no more is open than they examined
            self._searches.clear()
        super().remove_holds()

    def has_room_beside(self, request_class: RequestClass, until: Until, priority: int) -> bool:
        has_room = super().has_room_beside(request_class, until, priority)
        self._searches.clear()  # they searched while less was open
        return has_room

    def has_ends(self) -> bool:
        return super().has_ends() or self._ending_parts > 0

    def ends(self, agent_number: int) -> list[Release]:
        """Known ends with released capacity, including devices that become whole when their last
        share ends.
        """
        ends = super().ends(agent_number)
        shares = self._ending_shares(agent_number)
        if not shares:
            return ends
        last: dict[tuple[str, int], datetime] = {}
        for ends_at, share in shares:
            key = share.slot_name, share.device_id
            last[key] = max(ends_at, last.get(key, ends_at))
        whole = self._becoming_whole(agent_number, [share for _, share in shares])
        freed = [(last[key], self._layout.pack_room({whole_slot(key[0]): MILLI})) for key in whole]
        given = [
            (each.until, each.joining_request) for each in self._parts_on.get(agent_number, ()) if each.until
        ]
        return sorted(ends + freed + given)

    def released_by(self, agent_number: int, at: datetime) -> Released:
        held, shares = super().released_by(agent_number, at)
        given = [each for each in self._parts_on.get(agent_number, ()) if each.until and each.until <= at]
        return Released(
            held + sum([each.joining_request for each in given]), (*shares, *[each.share for each in given])
        )

    def released(self, agent_number: int, held: RunningAllocation | PreemptibleAllocation) -> int:
        amounts = dict(held.slots)
        shared = Counter[str]()
        for share in held.shares:
            shared[share.slot_name] += share.amount
        for name in self._layout.shared:
            if self._devices_on(agent_number, name) is not None:
                amounts[whole_slot(name)] = (held.slots[name] - shared[name]) // MILLI * MILLI
        return self._layout.pack_room(amounts)

    def unshared(self, agent_number: int, shares: Iterable[DeviceShare]) -> int:
        names = [whole_slot(name) for name, _ in self._becoming_whole(agent_number, shares)]
        return self._layout.pack_room({name: MILLI * count for name, count in Counter(names).items()})

    def fits_on(
        self,
        agent_number: int,
        request: int,
        room: int,
        gone: Iterable[DeviceShare] = (),
        at: Until = None,
        count: int = 1,
    ) -> bool:
        part = self._agents.fractional_requests.get(request)
        devices = None if part is None else self._devices_on(agent_number, part.slot_name)
        if part is None or devices is None:
            return super().fits_on(agent_number, request, room, gone, at, count)
        if at is not None:
            gone = [share for ends_at, share in self._ending_shares(agent_number) if ends_at <= at]
        left = Counter(devices.free)
        for share in gone:
            if share.slot_name == part.slot_name:
                left[share.device_id] += share.amount
        places = sum(free // part.amount for free in left.values() if free < MILLI)
        places += self._whole_devices(room, part.slot_name) // MILLI * (MILLI // part.amount)
        return places >= count and self._layout.fits(part.joining_request * count, room)

    def free_devices(self, requirements: Requirements) -> dict[str, list[int]]:
        rooms = self.limit_to_one_kernel(self.free_vectors(requirements), None)
        return {name: self._rooms_by_device(rooms, name) for name in self._layout.shared}

    def _rooms_by_device(self, vectors: Iterable[int], slot_name: str) -> list[int]:
        pools, pool_of = self._agents.pools_with_devices(slot_name), self._agents.pool_of
        most: dict[int, int] = {}  # largest rest of a device, by agent number
        for device in chain.from_iterable(
            self._device_index(pool, slot_name).devices.values() for pool in pools
        ):
            most[device.agent_number] = max(device.rest, most.get(device.agent_number, 0))
        rooms, shift = [], self._layout.shift_of(slot_name)
        for vector in vectors:
            if pool_of[agent_number := vector & FIELD_MASK] in pools:
                of_one = (
                    MILLI if self._whole_devices(vector, slot_name) >= MILLI else most.get(agent_number, 0)
                )
                rooms.append(vector - (vector & FIELD_MASK << shift) + (of_one << shift))
        return rooms

    def _take_all(self, request_class: RequestClass, until: Until) -> list[int] | None:
        """Take all kernels. Kernels that must be together are tried on one agent after the other,
        as only placing each of them shows if the devices suffice.
        """
        if not request_class.is_together:
            return super()._take_all(request_class, until)
        start, tried = len(self._taken), set[int]()
        while True:
            (request, search), *others = request_class.queries
            first = self.occupancy.find_first(
                partial(self._take, request_class, request, search, until), request_class, tried
            )
            if first is None:
                return None
            here = AgentFilter(only=(first,))
            if all(self._take(request_class, *other, until, here) is not None for other in others):
                return [first] * len(request_class.queries)
            self._undo(start)
            tried.add(first)

    def _take(
        self,
        request_class: RequestClass,
        request: int,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None = None,
    ) -> int | None:
        part = request_class.fractional_requests.get(request)
        if part is None:
            return super()._take(request_class, request, search, until, allowed)
        if until is not None and self.has_hold_beyond(until):
            agent_number = self._share_held(request_class, request, search, part, until, allowed)
            if agent_number is not None:
                return agent_number
        preferred, designated = request_class.preferred, request_class.designated
        if preferred is not None and self._share_if_allowed(preferred, request, part, until, allowed):
            return preferred
        search = self._open_pools(search, until) if request_class.is_bounded else search
        if allowed is not None:
            search, few = allowed.within(search, self._agents.pool_of)
            share = partial(self._share_if_allowed, request=request, part=part, until=until, allowed=allowed)
            agent_number = next(filter(share, few), None)
            if agent_number is not None:
                return agent_number
        agent_number = self._join_shared(request, part, search, until, is_usual=allowed is None)
        if agent_number is not None:
            return agent_number
        agent_number = self._share_whole(request, part, search, until)
        if agent_number is None and designated is not None:
            return designated if self._share_if_allowed(designated, request, part, until, allowed) else None
        return agent_number

    def _join_shared(
        self, request: int, part: FractionalRequest, search: CandidateQueries, until: Until, *, is_usual: bool
    ) -> int | None:
        """Place on a shared device with enough left. `is_usual`: all searches of the request class look
        here, so agents without capacity are remembered.
        """
        for pool, query in search:
            hosts = query[-1]
            key = pool, request, hosts
            finder = self._searches.get(key) if is_usual else None
            if finder is None:
                finder = SharedDeviceSearch(self._device_index(pool, part.slot_name), part.amount)
                if is_usual:
                    self._searches[key] = finder
            for agent_number in finder.candidates(self._open, self._layout.guards, part.joining_request):
                is_host = hosts is None or agent_number in hosts
                if is_host and self._share_on(agent_number, request, part, until):
                    return agent_number
        return None

    def _share_if_allowed(
        self,
        agent_number: int,
        request: int,
        part: FractionalRequest,
        until: Until,
        allowed: AgentFilter | None,
    ) -> bool:
        if agent_number < 0 or not (allowed is None or agent_number in allowed):
            return False
        closes_at = self._agents.closes_at[self._agents.pool_of[agent_number]]
        if closes_at is not None and self._assumed_end(until) > closes_at:
            return False
        return self._share_on(agent_number, request, part, until)

    def _share_on(self, agent_number: int, request: int, part: FractionalRequest, until: Until) -> bool:
        """Take capacity on that agent from what is open to all, if there is enough."""
        device_id, vector = self._device_on(agent_number, request, part)
        kept, fits = self._holds.get(agent_number), self._layout.fits
        if kept is None:
            if not fits(vector, self._open[agent_number]):
                return False
            self._set_open(agent_number, self._open[agent_number] - vector)
        else:
            if agent_number in self._held_for_parts or not (
                fits(vector, kept.free) and fits(request, kept.left_over)
            ):
                return False
            kept.free -= vector
            kept.left_over -= request
            self._update_open(agent_number)
        self._record(agent_number, vector, request, part, device_id, until, was_open=True)
        return True

    def _share_held(
        self,
        request_class: RequestClass,
        request: int,
        search: CandidateQueries,
        part: FractionalRequest,
        until: datetime,
        allowed: AgentFilter | None,
    ) -> int | None:
        """Place on an agent whose reserving session starts only after this one ends; the oldest
        reservation first.
        """
        for agent_number, kept in self._holds.items():
            in_time = kept.until is not None and until <= kept.until
            may_run = self._is_host(request_class, search, agent_number) and (
                allowed is None or agent_number in allowed
            )
            device_id, vector = self._device_on(agent_number, request, part)
            is_large = self.is_large_enough(agent_number, request)
            if in_time and may_run and is_large and self._layout.fits(vector, kept.free):
                kept.free -= vector
                self._record(agent_number, vector, request, part, device_id, until, was_open=False)
                self._update_open(agent_number)
                return agent_number
        return None

    def _share_whole(
        self, request: int, part: FractionalRequest, search: CandidateQueries, until: Until
    ) -> int | None:
        """Share a whole device on the best agent that has no reservation for another part."""
        hidden = {each: self._open[each] for each in self._held_for_parts if each in self._holds}
        for agent_number in hidden:
            self._set_open(agent_number, agent_number)
        tries = (self._bins[pool].take(query) for pool, query in search)
        found = next((each for each in tries if each is not None), None)
        for agent_number, vector in hidden.items():
            self._set_open(agent_number, vector)
        if found is not None:
            if found in self._holds:
                self._holds[found].take(request)
            self._record(found, request, request, part, None, until, was_open=True)
        return found

    def _device_on(self, agent_number: int, request: int, part: FractionalRequest) -> tuple[int | None, int]:
        """Return the shared device to join on the agent, None if none fits, and the vector to take."""
        devices = self._devices_on(agent_number, part.slot_name)
        device_id = None if devices is None else devices.best_fit(part.amount)
        return device_id, request if device_id is None else part.joining_request

    def _record(
        self,
        agent_number: int,
        vector: int,
        request: int,
        part: FractionalRequest,
        device_id: int | None,
        until: Until,
        *,
        was_open: bool,
    ) -> None:
        devices = self._devices_on(agent_number, part.slot_name)
        if devices is None:
            self._taken.append((agent_number, vector, until, was_open))
            return
        given = _AssignedPart(
            part.slot_name, devices.start_sharing() if device_id is None else device_id, part.amount, until, request, part.joining_request
        )  # fmt: skip
        self._change(devices, agent_number, given, -given.amount)
        self._parts_by_position[len(self._taken)] = given
        self._ending_parts += until is not None
        self._parts_on.setdefault(agent_number, []).append(given)
        self._taken.append((agent_number, vector, None, was_open))  # `ends` reads the end from `_given`

    def _undo(self, start: int) -> None:
        while len(self._taken) > start:
            given = self._parts_by_position.pop(len(self._taken) - 1, None)
            if given is None:
                agent_number = self._taken[-1][0]
                super()._undo(len(self._taken) - 1)
            else:
                agent_number = self._undo_part(given)
            self._record_again(agent_number)

    def _undo_part(self, given: _AssignedPart) -> int:
        """Undo the last taken part. Return the agent number."""
        agent_number, vector, _, was_open = self._taken.pop()
        self._parts_on[agent_number].pop()
        self._ending_parts -= given.until is not None
        devices = self._devices_on(agent_number, given.slot_name)
        assert devices is not None
        self._change(devices, agent_number, given, given.amount)
        kept = self._holds.get(agent_number)
        if kept is None:
            self._set_open(agent_number, self._open[agent_number] + vector)
            return agent_number
        kept.free += vector
        if was_open:
            kept.left_over += given.request
        self._update_open(agent_number)
        return agent_number

    def _record_again(self, agent_number: int) -> None:
        """Record the devices of the agent again, so that finders that rejected it look again."""
        for (pool, slot_name), shelf in self._device_indexes.items():
            devices = (
                self._devices_on(agent_number, slot_name)
                if pool == self._agents.pool_of[agent_number]
                else None
            )
            for device_id, left in devices.free.items() if devices else ():
                shelf.record(left, agent_number, device_id)

    def _change(self, devices: SharedDevices, agent_number: int, given: _AssignedPart, amount: int) -> None:
        shelf = self._device_index(self._agents.pool_of[agent_number], given.slot_name)
        devices.change(given.device_id, amount)
        shelf.record(devices.free.get(given.device_id, 0), agent_number, given.device_id)

    def _devices_on(self, agent_number: int, slot_name: str) -> SharedDevices | None:
        key = agent_number, slot_name
        try:
            return self._devices[key]
        except KeyError:
            known = self._agents.views[agent_number].devices
            found = (SharedDevices(each.open) for each in known if each.slot_name == slot_name)
            self._devices[key] = devices = next(found, None)
            return devices

    def _device_index(self, pool: int, slot_name: str) -> SharedDeviceIndex:
        """Return the shelf; create it before anything on it changes."""
        key = pool, slot_name
        if key not in self._device_indexes:
            shelf = self._device_indexes[key] = SharedDeviceIndex()
            # Ties: the highest agent number, which is the smallest id, first.
            for agent_number in reversed(self._agents.members[pool]):
                for devices in self._agents.views[agent_number].devices:
                    for device in devices.open if devices.slot_name == slot_name else ():
                        shelf.record(device.free, agent_number, device.id)
        return self._device_indexes[key]

    def _ending_shares(self, agent_number: int) -> list[tuple[datetime, DeviceShare]]:
        """Return shares with a known end in the future; overdue ones may never end."""
        running = self._agents.views[agent_number].running
        known = [
            (each.ends_at, share) for each in running if each.ends_at > self._now for share in each.shares
        ]
        given = self._parts_on.get(agent_number, ())
        return known + [(each.until, each.share) for each in given if each.until is not None]

    def _becoming_whole(self, agent_number: int, shares: Iterable[DeviceShare]) -> list[tuple[str, int]]:
        """Return the devices (slot, id) that are whole without these shares."""
        gone: Counter[tuple[str, int]] = Counter()
        for share in shares:
            gone[share.slot_name, share.device_id] += share.amount
        return [
            key
            for key, amount in gone.items()
            if amount + self._rest_of(key[0], agent_number, key[1]) == MILLI
        ]

    def _rest_of(self, slot_name: str, agent_number: int, device_id: int) -> int:
        devices = self._devices_on(agent_number, slot_name)
        return 0 if devices is None else devices.free.get(device_id, 0)

    def _whole_devices(self, vector: int, slot_name: str) -> int:
        return vector >> self._layout.shift_of(whole_slot(slot_name)) & FIELD_MASK
