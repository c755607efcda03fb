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
from scheduler.engine.accelerators import Finder, OpenDevices, Part, Share, Shelf, whole_of
from scheduler.engine.agent_views import Preemptible, Running
from scheduler.engine.capacity.capacity_hold import End, Ended, Until
from scheduler.engine.capacity.placement_group import Allowed
from scheduler.engine.capacity.tracker import Machines
from scheduler.engine.index.agent_index import Fleet
from scheduler.engine.index.request_shape import Search, Shape
from scheduler.engine.index.resource_vector import FIELD_MASK
from scheduler.engine.snapshot import Needs
from scheduler.engine.values import Host


class _Given(NamedTuple):
    """Part of a device that a kernel got in this pass."""

    slot_name: str
    device_id: int
    amount: int
    until: Until
    request: int  # includes a whole device
    joins: int  # without the device

    @property
    def share(self) -> Share:
        return Share(self.slot_name, self.device_id, self.amount)


def machines_of(
    fleet: Fleet, now: datetime, companions: Mapping[str, Iterable[Host]], least_memory: int = 0
) -> Machines:
    kind = SharingMachines if fleet.layout.shared else Machines
    return kind(fleet, now, companions, least_memory)


class SharingMachines(Machines):
    """Capacity tracker with shared devices. A request for a part goes to the shared device with the
    least sufficient rest on any agent of the pool; if there is none, a whole device becomes shared.
    This holds for every strategy, as the rest of a shared device is of no use to requests for whole
    ones.

    On an agent with a reservation, a kernel that does not end in time counts as if it took a whole
    device of its own. If capacity is reserved for a part, no other part that does not end in time
    is placed there, as both may need the same device.
    """

    def __init__(
        self, fleet: Fleet, now: datetime, companions: Mapping[str, Iterable[Host]], least_memory: int
    ) -> None:
        super().__init__(fleet, now, companions, least_memory)
        # by agent number and slot; None: unknown
        self._devices: dict[tuple[int, str], OpenDevices | None] = {}
        self._shelves: dict[tuple[int, str], Shelf] = {}  # by pool and slot
        self._finders: dict[tuple[int, int, Container[int] | None], Finder] = {}  # by pool, request and hosts
        self._given: dict[int, _Given] = {}  # by index in `_taken`
        self._given_on: dict[int, list[_Given]] = {}  # by agent number
        self._ending = 0  # number of them with a known end
        self._for_parts: set[int] = set()  # agents with capacity reserved for one

    def keep(
        self,
        shape: Shape,
        ordinals: list[int],
        until: Until,
        *,
        priority: int,
        released: int = 0,
        is_first: bool = True,
    ) -> tuple[int, ...]:
        if shape.parts:
            self._for_parts.update(ordinals)
        return super().keep(shape, ordinals, until, priority=priority, released=released, is_first=is_first)

    def open_all(self) -> None:
        if self._kept:  # otherwise no more is open than they examined
            self._finders.clear()
        super().open_all()

    def has_room_beside(self, shape: Shape, until: Until, priority: int) -> bool:
        has_room = super().has_room_beside(shape, until, priority)
        self._finders.clear()  # they searched while less was open
        return has_room

    def has_ends(self) -> bool:
        return super().has_ends() or self._ending > 0

    def ends(self, ordinal: int) -> list[End]:
        """Known ends with released capacity, including devices that become whole when their last
        share ends.
        """
        ends = super().ends(ordinal)
        shares = self._ending_shares(ordinal)
        if not shares:
            return ends
        last: dict[tuple[str, int], datetime] = {}
        for ends_at, share in shares:
            key = share.slot_name, share.device_id
            last[key] = max(ends_at, last.get(key, ends_at))
        whole = self._whole_again(ordinal, [share for _, share in shares])
        freed = [(last[key], self._layout.pack_room({whole_of(key[0]): MILLI})) for key in whole]
        given = [(each.until, each.joins) for each in self._given_on.get(ordinal, ()) if each.until]
        return sorted(ends + freed + given)

    def ended_by(self, ordinal: int, at: datetime) -> Ended:
        held, shares = super().ended_by(ordinal, at)
        given = [each for each in self._given_on.get(ordinal, ()) if each.until and each.until <= at]
        return Ended(held + sum([each.joins for each in given]), (*shares, *[each.share for each in given]))

    def released(self, ordinal: int, held: Running | Preemptible) -> int:
        amounts = dict(held.slots)
        shared = Counter[str]()
        for share in held.shares:
            shared[share.slot_name] += share.amount
        for name in self._layout.shared:
            if self._devices_on(ordinal, name) is not None:
                amounts[whole_of(name)] = (held.slots[name] - shared[name]) // MILLI * MILLI
        return self._layout.pack_room(amounts)

    def unshared(self, ordinal: int, shares: Iterable[Share]) -> int:
        names = [whole_of(name) for name, _ in self._whole_again(ordinal, shares)]
        return self._layout.pack_room({name: MILLI * count for name, count in Counter(names).items()})

    def holds(
        self,
        ordinal: int,
        request: int,
        room: int,
        gone: Iterable[Share] = (),
        at: Until = None,
        count: int = 1,
    ) -> bool:
        part = self._fleet.parts.get(request)
        devices = None if part is None else self._devices_on(ordinal, part.slot_name)
        if part is None or devices is None:
            return super().holds(ordinal, request, room, gone, at, count)
        if at is not None:
            gone = [share for ends_at, share in self._ending_shares(ordinal) if ends_at <= at]
        left = Counter(devices.free)
        for share in gone:
            if share.slot_name == part.slot_name:
                left[share.device_id] += share.amount
        places = sum(free // part.amount for free in left.values() if free < MILLI)
        places += self._whole_in(room, part.slot_name) // MILLI * (MILLI // part.amount)
        return places >= count and self._layout.fits(part.joins * count, room)

    def device_rooms(self, needs: Needs) -> dict[str, list[int]]:
        rooms = self.rooms_for_one(self.free_vectors(needs), None)
        return {name: self._rooms_by_device(rooms, name) for name in self._layout.shared}

    def _rooms_by_device(self, vectors: Iterable[int], slot_name: str) -> list[int]:
        pools, pool_of = self._fleet.pools_that_know(slot_name), self._fleet.pool_of
        most: dict[int, int] = {}  # largest rest of a device, by agent number
        for device in chain.from_iterable(self._shelf(pool, slot_name).devices.values() for pool in pools):
            most[device.ordinal] = max(device.left, most.get(device.ordinal, 0))
        rooms, shift = [], self._layout.shift_of(slot_name)
        for vector in vectors:
            if pool_of[ordinal := vector & FIELD_MASK] in pools:
                of_one = MILLI if self._whole_in(vector, slot_name) >= MILLI else most.get(ordinal, 0)
                rooms.append(vector - (vector & FIELD_MASK << shift) + (of_one << shift))
        return rooms

    def _take_all(self, shape: Shape, until: Until) -> list[int] | None:
        """Take all kernels. Kernels that must be together are tried on one agent after the other,
        as only placing each of them shows if the devices suffice.
        """
        if not shape.is_together:
            return super()._take_all(shape, until)
        start, tried = len(self._taken), set[int]()
        while True:
            (request, search), *others = shape.searches
            first = self.hosting.first(partial(self._take, shape, request, search, until), shape, tried)
            if first is None:
                return None
            here = Allowed(only=(first,))
            if all(self._take(shape, *other, until, here) is not None for other in others):
                return [first] * len(shape.searches)
            self._give_back(start)
            tried.add(first)

    def _take(
        self, shape: Shape, request: int, search: Search, until: Until, allowed: Allowed | None = None
    ) -> int | None:
        part = shape.parts.get(request)
        if part is None:
            return super()._take(shape, request, search, until, allowed)
        if until is not None and self.keeps_beyond(until):
            ordinal = self._share_kept(shape, request, search, part, until, allowed)
            if ordinal is not None:
                return ordinal
        preferred, designated = shape.preferred, shape.designated
        if preferred is not None and self._share_named(preferred, request, part, until, allowed):
            return preferred
        search = self._in_time(search, until) if shape.is_bounded else search
        if allowed is not None:
            search, few = allowed.within(search, self._fleet.pool_of)
            share = partial(self._share_named, request=request, part=part, until=until, allowed=allowed)
            ordinal = next(filter(share, few), None)
            if ordinal is not None:
                return ordinal
        ordinal = self._join(request, part, search, until, is_usual=allowed is None)
        if ordinal is not None:
            return ordinal
        ordinal = self._open_one(request, part, search, until)
        if ordinal is None and designated is not None:
            return designated if self._share_named(designated, request, part, until, allowed) else None
        return ordinal

    def _join(self, request: int, part: Part, search: Search, until: Until, *, is_usual: bool) -> int | None:
        """Place on a shared device with enough left. `is_usual`: all searches of the shape look
        here, so agents without capacity are remembered.
        """
        for pool, query in search:
            hosts = query[-1]
            key = pool, request, hosts
            finder = self._finders.get(key) if is_usual else None
            if finder is None:
                finder = Finder(self._shelf(pool, part.slot_name), part.amount)
                if is_usual:
                    self._finders[key] = finder
            for ordinal in finder.candidates(self._open, self._layout.guards, part.joins):
                is_host = hosts is None or ordinal in hosts
                if is_host and self._share_on(ordinal, request, part, until):
                    return ordinal
        return None

    def _share_named(
        self, ordinal: int, request: int, part: Part, until: Until, allowed: Allowed | None
    ) -> bool:
        if ordinal < 0 or not (allowed is None or ordinal in allowed):
            return False
        closes_at = self._fleet.closes_at[self._fleet.pool_of[ordinal]]
        if closes_at is not None and self._end(until) > closes_at:
            return False
        return self._share_on(ordinal, request, part, until)

    def _share_on(self, ordinal: int, request: int, part: Part, until: Until) -> bool:
        """Take capacity on that agent from what is open to all, if there is enough."""
        device_id, vector = self._way_on(ordinal, request, part)
        kept, fits = self._kept.get(ordinal), self._layout.fits
        if kept is None:
            if not fits(vector, self._open[ordinal]):
                return False
            self._set_open(ordinal, self._open[ordinal] - vector)
        else:
            if ordinal in self._for_parts or not (fits(vector, kept.free) and fits(request, kept.beside)):
                return False
            kept.free -= vector
            kept.beside -= request
            self._open_up(ordinal)
        self._note(ordinal, vector, request, part, device_id, until, was_open=True)
        return True

    def _share_kept(
        self, shape: Shape, request: int, search: Search, part: Part, until: datetime, allowed: Allowed | None
    ) -> int | None:
        """Place on an agent whose reserving session starts only after this one ends; the oldest
        reservation first.
        """
        for ordinal, kept in self._kept.items():
            in_time = kept.until is not None and until <= kept.until
            may_run = self._is_host(shape, search, ordinal) and (allowed is None or ordinal in allowed)
            device_id, vector = self._way_on(ordinal, request, part)
            is_large = self.is_large_enough(ordinal, request)
            if in_time and may_run and is_large and self._layout.fits(vector, kept.free):
                kept.free -= vector
                self._note(ordinal, vector, request, part, device_id, until, was_open=False)
                self._open_up(ordinal)
                return ordinal
        return None

    def _open_one(self, request: int, part: Part, search: Search, until: Until) -> int | None:
        """Share a whole device on the best agent that has no reservation for another part."""
        hidden = {each: self._open[each] for each in self._for_parts if each in self._kept}
        for ordinal in hidden:
            self._set_open(ordinal, ordinal)
        tries = (self._grids[pool].take(query) for pool, query in search)
        found = next((each for each in tries if each is not None), None)
        for ordinal, vector in hidden.items():
            self._set_open(ordinal, vector)
        if found is not None:
            if found in self._kept:
                self._kept[found].take(request)
            self._note(found, request, request, part, None, until, was_open=True)
        return found

    def _way_on(self, ordinal: int, request: int, part: Part) -> tuple[int | None, int]:
        """Return the shared device to join on the agent, None if none fits, and the vector to take."""
        devices = self._devices_on(ordinal, part.slot_name)
        device_id = None if devices is None else devices.best(part.amount)
        return device_id, request if device_id is None else part.joins

    def _note(
        self,
        ordinal: int,
        vector: int,
        request: int,
        part: Part,
        device_id: int | None,
        until: Until,
        *,
        was_open: bool,
    ) -> None:
        devices = self._devices_on(ordinal, part.slot_name)
        if devices is None:
            self._taken.append((ordinal, vector, until, was_open))
            return
        given = _Given(
            part.slot_name, devices.open() if device_id is None else device_id, part.amount, until, request, part.joins
        )  # fmt: skip
        self._change(devices, ordinal, given, -given.amount)
        self._given[len(self._taken)] = given
        self._ending += until is not None
        self._given_on.setdefault(ordinal, []).append(given)
        self._taken.append((ordinal, vector, None, was_open))  # `ends` reads the end from `_given`

    def _give_back(self, start: int) -> None:
        while len(self._taken) > start:
            given = self._given.pop(len(self._taken) - 1, None)
            if given is None:
                ordinal = self._taken[-1][0]
                super()._give_back(len(self._taken) - 1)
            else:
                ordinal = self._give_back_part(given)
            self._tell_again(ordinal)

    def _give_back_part(self, given: _Given) -> int:
        """Undo the last taken part. Return the agent number."""
        ordinal, vector, _, was_open = self._taken.pop()
        self._given_on[ordinal].pop()
        self._ending -= given.until is not None
        devices = self._devices_on(ordinal, given.slot_name)
        assert devices is not None
        self._change(devices, ordinal, given, given.amount)
        kept = self._kept.get(ordinal)
        if kept is None:
            self._set_open(ordinal, self._open[ordinal] + vector)
            return ordinal
        kept.free += vector
        if was_open:
            kept.beside += given.request
        self._open_up(ordinal)
        return ordinal

    def _tell_again(self, ordinal: int) -> None:
        """Record the devices of the agent again, so that finders that rejected it look again."""
        for (pool, slot_name), shelf in self._shelves.items():
            devices = self._devices_on(ordinal, slot_name) if pool == self._fleet.pool_of[ordinal] else None
            for device_id, left in devices.free.items() if devices else ():
                shelf.tell(left, ordinal, device_id)

    def _change(self, devices: OpenDevices, ordinal: int, given: _Given, amount: int) -> None:
        shelf = self._shelf(self._fleet.pool_of[ordinal], given.slot_name)
        devices.change(given.device_id, amount)
        shelf.tell(devices.free.get(given.device_id, 0), ordinal, given.device_id)

    def _devices_on(self, ordinal: int, slot_name: str) -> OpenDevices | None:
        key = ordinal, slot_name
        try:
            return self._devices[key]
        except KeyError:
            known = self._fleet.agents[ordinal].devices
            found = (OpenDevices(each.open) for each in known if each.slot_name == slot_name)
            self._devices[key] = devices = next(found, None)
            return devices

    def _shelf(self, pool: int, slot_name: str) -> Shelf:
        """Return the shelf; create it before anything on it changes."""
        key = pool, slot_name
        if key not in self._shelves:
            shelf = self._shelves[key] = Shelf()
            # Ties: the highest agent number, which is the smallest id, first.
            for ordinal in reversed(self._fleet.members[pool]):
                for devices in self._fleet.agents[ordinal].devices:
                    for device in devices.open if devices.slot_name == slot_name else ():
                        shelf.tell(device.free, ordinal, device.id)
        return self._shelves[key]

    def _ending_shares(self, ordinal: int) -> list[tuple[datetime, Share]]:
        """Return shares with a known end in the future; overdue ones may never end."""
        running = self._fleet.agents[ordinal].running
        known = [
            (each.ends_at, share) for each in running if each.ends_at > self._now for share in each.shares
        ]
        given = self._given_on.get(ordinal, ())
        return known + [(each.until, each.share) for each in given if each.until is not None]

    def _whole_again(self, ordinal: int, shares: Iterable[Share]) -> list[tuple[str, int]]:
        """Return the devices (slot, id) that are whole without these shares."""
        gone: Counter[tuple[str, int]] = Counter()
        for share in shares:
            gone[share.slot_name, share.device_id] += share.amount
        return [
            key for key, amount in gone.items() if amount + self._left_of(key[0], ordinal, key[1]) == MILLI
        ]

    def _left_of(self, slot_name: str, ordinal: int, device_id: int) -> int:
        devices = self._devices_on(ordinal, slot_name)
        return 0 if devices is None else devices.free.get(device_id, 0)

    def _whole_in(self, vector: int, slot_name: str) -> int:
        return vector >> self._layout.shift_of(whole_of(slot_name)) & FIELD_MASK
