"""Choose the shared device that a kernel joins, and find when a device is whole again."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import chain

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
from scheduler.engine.capacity.ledger import AssignedPart, CapacityLedger, Release, Taken, Until
from scheduler.engine.capacity.placement_group import AgentFilter
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.request_class import CandidateQueries, RequestClass
from scheduler.engine.index.resource_vector import FIELD_MASK


class FractionalPool:
    """Shared devices during a pass. A request for a part goes to the shared device with the
    least sufficient rest on any agent of the pool; if there is none, a whole device becomes shared.
    This holds for every strategy, as the rest of a shared device is of no use to requests for whole
    ones.

    On an agent with a reservation, a kernel that does not end in time counts as if it took a whole
    device of its own. If capacity is reserved for a part, no other part that does not end in time
    is placed there, as both may need the same device.
    """

    def __init__(self, agents: AgentIndex, ledger: CapacityLedger, now: datetime) -> None:
        self._agents = agents
        self._layout = agents.layout
        self._ledger = ledger
        self._now = now
        # by agent number and slot; None: unknown
        self._devices: dict[tuple[int, str], SharedDevices | None] = {}
        self._device_indexes: dict[tuple[int, str], SharedDeviceIndex] = {}  # by pool and slot
        self._searches: dict[
            tuple[int, int, Container[int] | None], SharedDeviceSearch
        ] = {}  # by pool, request and hosts
        self._parts_on: dict[int, list[AssignedPart]] = {}  # by agent number
        self.ending_parts = 0  # number of them with a known end
        self.held_for_parts: set[int] = set()  # agents with capacity reserved for one

    def forget_searches(self) -> None:
        """Search again on agents that were rejected, as they have more open capacity."""
        self._searches.clear()

    def knows(self, agent_number: int, slot_name: str) -> bool:
        """Return True if the agent's devices of that slot are known one by one."""
        return self._devices_on(agent_number, slot_name) is not None

    def releases(self, agent_number: int) -> list[Release]:
        """Return devices that become whole when their last share ends, at known times, and what the
        parts assigned in this pass release beside devices.
        """
        shares = self._ending_shares(agent_number)
        last: dict[tuple[str, int], datetime] = {}
        for ends_at, share in shares:
            key = share.slot_name, share.device_id
            last[key] = max(ends_at, last.get(key, ends_at))
        whole = self._becoming_whole(agent_number, [share for _, share in shares])
        freed = [(last[key], self._layout.pack_room({whole_slot(key[0]): MILLI})) for key in whole]
        given = [
            (each.until, each.joining_request) for each in self._parts_on.get(agent_number, ()) if each.until
        ]
        return freed + given

    def parts_ended(self, agent_number: int, at: datetime) -> list[AssignedPart]:
        """Return the parts assigned in this pass that end there by then."""
        return [each for each in self._parts_on.get(agent_number, ()) if each.until and each.until <= at]

    def with_whole(
        self, agent_number: int, held: RunningAllocation | PreemptibleAllocation
    ) -> Mapping[str, int]:
        """Return the amounts of an allocation with whole-device fields."""
        amounts = dict(held.slots)
        shared = Counter[str]()
        for share in held.shares:
            shared[share.slot_name] += share.amount
        for name in self._layout.shared:
            if self._devices_on(agent_number, name) is not None:
                amounts[whole_slot(name)] = (held.slots[name] - shared[name]) // MILLI * MILLI
        return amounts

    def unshared(self, agent_number: int, shares: Iterable[DeviceShare]) -> int:
        names = [whole_slot(name) for name, _ in self._becoming_whole(agent_number, shares)]
        return self._layout.pack_room({name: MILLI * count for name, count in Counter(names).items()})

    def fits_on(
        self,
        agent_number: int,
        part: FractionalRequest,
        room: int,
        gone: Iterable[DeviceShare],
        at: Until,
        count: int,
    ) -> bool:
        """Return True if `count` such parts fit in `room` on an agent whose devices are known; `gone`
        and `at` as in `CapacityTracker.fits_on`.
        """
        devices = self._devices_on(agent_number, part.slot_name)
        assert devices is not None
        if at is not None:
            gone = [share for ends_at, share in self._ending_shares(agent_number) if ends_at <= at]
        left = Counter(devices.free)
        for share in gone:
            if share.slot_name == part.slot_name:
                left[share.device_id] += share.amount
        places = sum(free // part.amount for free in left.values() if free < MILLI)
        places += self._whole_devices(room, part.slot_name) // MILLI * (MILLI // part.amount)
        return places >= count and self._layout.fits(part.joining_request * count, room)

    def with_largest_rest(self, vectors: Iterable[int], slot_name: str) -> list[int]:
        """Return the vectors of agents that know these devices, with the most of one device as the
        amount of the slot.
        """
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

    def take(
        self,
        request_class: RequestClass,
        request: int,
        part: FractionalRequest,
        search: CandidateQueries,
        until: Until,
        allowed: AgentFilter | None,
    ) -> int | None:
        """Take capacity for one kernel with a part of a device. Return the agent number."""
        if until is not None and self._ledger.has_hold_beyond(until):
            agent_number = self._share_held(request_class, request, search, part, until, allowed)
            if agent_number is not None:
                return agent_number
        preferred, designated = request_class.preferred, request_class.designated
        if preferred is not None and self._share_if_allowed(preferred, request, part, until, allowed):
            return preferred
        search = self._ledger.open_pools(search, until) if request_class.is_bounded else search
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
            for agent_number in finder.candidates(
                self._ledger.open, self._layout.guards, part.joining_request
            ):
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
        if not self._ledger.is_open_until(self._agents.pool_of[agent_number], until):
            return False
        return self._share_on(agent_number, request, part, until)

    def _share_on(self, agent_number: int, request: int, part: FractionalRequest, until: Until) -> bool:
        """Take capacity on that agent from what is open to all, if there is enough."""
        device_id, vector = self._device_on(agent_number, request, part)
        hold, fits = self._ledger.holds.get(agent_number), self._layout.fits
        if hold is None:
            if not fits(vector, self._ledger.open[agent_number]):
                return False
        elif agent_number in self.held_for_parts or not (
            fits(vector, hold.free) and fits(request, hold.left_over)
        ):
            return False
        self._ledger.change(agent_number, vector, request)
        self._record(Taken(agent_number, vector, request, until), part, device_id)
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
        for agent_number, hold in self._ledger.holds_beyond(until):
            may_run = self._agents.may_host(request_class, request, search, agent_number) and (
                allowed is None or agent_number in allowed
            )
            device_id, vector = self._device_on(agent_number, request, part)
            if may_run and self._layout.fits(vector, hold.free):
                self._ledger.change(agent_number, vector, 0)
                self._record(Taken(agent_number, vector, 0, until), part, device_id)
                return agent_number
        return None

    def _share_whole(
        self, request: int, part: FractionalRequest, search: CandidateQueries, until: Until
    ) -> int | None:
        """Share a whole device on the best agent that has no reservation for another part."""
        ledger = self._ledger
        hidden = {each: ledger.open[each] for each in self.held_for_parts if each in ledger.holds}
        for agent_number in hidden:
            ledger.set_open(agent_number, agent_number)
        tries = (ledger.bins[pool].take(query) for pool, query in search)
        found = next((each for each in tries if each is not None), None)
        for agent_number, vector in hidden.items():
            ledger.set_open(agent_number, vector)
        if found is not None:
            if found in ledger.holds:
                ledger.holds[found].take(request, request)
            self._record(Taken(found, request, request, until), part, None)
        return found

    def _device_on(self, agent_number: int, request: int, part: FractionalRequest) -> tuple[int | None, int]:
        """Return the shared device to join on the agent, None if none fits, and the vector to take."""
        devices = self._devices_on(agent_number, part.slot_name)
        device_id = None if devices is None else devices.best_fit(part.amount)
        return device_id, request if device_id is None else part.joining_request

    def _record(self, taken: Taken, part: FractionalRequest, device_id: int | None) -> None:
        """Assign the device, a whole one if it is None, and record what was taken."""
        devices = self._devices_on(taken.agent_number, part.slot_name)
        if devices is not None:
            given = AssignedPart(
                part.slot_name,
                devices.start_sharing() if device_id is None else device_id,
                part.amount,
                taken.until,
                part.joining_request,
            )
            self._change(devices, taken.agent_number, given, -given.amount)
            self.ending_parts += given.until is not None
            self._parts_on.setdefault(taken.agent_number, []).append(given)
            taken = taken._replace(part=given)
        self._ledger.taken.append(taken)

    def undo(self, taken: Taken) -> None:
        """Undo the assignment of what the ledger has undone."""
        if taken.part is not None:
            self._parts_on[taken.agent_number].pop()
            self.ending_parts -= taken.part.until is not None
            devices = self._devices_on(taken.agent_number, taken.part.slot_name)
            assert devices is not None
            self._change(devices, taken.agent_number, taken.part, taken.part.amount)
        self.record_again(taken.agent_number)

    def record_again(self, agent_number: int) -> None:
        """Record the devices of the agent again, so that finders that rejected it look again."""
        for (pool, slot_name), shelf in self._device_indexes.items():
            devices = (
                self._devices_on(agent_number, slot_name)
                if pool == self._agents.pool_of[agent_number]
                else None
            )
            for device_id, left in devices.free.items() if devices else ():
                shelf.record(left, agent_number, device_id)

    def _change(self, devices: SharedDevices, agent_number: int, given: AssignedPart, amount: int) -> None:
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
