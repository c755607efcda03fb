"""Single accelerators of an agent: count whole and shared devices, and choose the devices of a
kernel.

A request for a device slot is for whole devices or for a part of one. It is decided twice by the
same rules: during a pass by amounts alone, at commit by device (`SharedDevices`, `choose_devices`).
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from common.values.resources import CPU, MAX_AMOUNT, MEM, MILLI

WHOLE_MARK = "*"  # not used in names of slots
DeviceAssignment = Mapping[str, tuple[int, ...]]  # by slot, ids of the assigned devices


class NoSuchDevices(Exception):
    """The devices of an agent cannot satisfy a placement of a plan."""


class NoAllowedSet(NoSuchDevices):
    """Enough devices are free, but none of the sets that may be given together."""


class OtherProject(NoSuchDevices):
    """The only shared devices with room for the part are of other projects."""


class PartlyFreeDevice(NamedTuple):
    """Shared device with free capacity: more than nothing and less than all."""

    id: int
    free: int


class SlotDevices(NamedTuple):
    """Devices of one slot of an agent: total number, number of unshared free ones, and shared ones
    with capacity left. `links`: number of devices of each link group; `free_links`: of unshared free
    ones, in the same order. `withheld`: number of those beside `total` that are expected back.
    """

    slot_name: str
    total: int
    whole: int
    open: tuple[PartlyFreeDevice, ...] = ()
    links: tuple[int, ...] = ()
    free_links: tuple[int, ...] = ()
    withheld: int = 0


class DeviceShare(NamedTuple):
    """Allocated part of a single device."""

    slot_name: str
    device_id: int
    amount: int


class FractionalRequest(NamedTuple):
    """Requested part of a single device. `joins`: the request vector without a whole device, for a
    kernel that joins others on a shared device.
    """

    slot_name: str
    amount: int
    joining_request: int


def whole_slot(slot_name: str) -> str:
    """Return the name of the derived slot for whole free devices."""
    return slot_name + WHOLE_MARK


def device_count(amount: int) -> int:
    """Return the number of devices for an amount in milli-devices, rounded up."""
    return -(-amount // MILLI)


def can_assign(name: str, amount: int) -> bool:
    """Return True if devices can satisfy the amount: whole devices, or a part of one."""
    return name in (CPU, MEM) or amount < MILLI or amount % MILLI == 0


def fractional_slot(slots: Mapping[str, int]) -> str | None:
    """Return the first slot of which `slots` requests a part of one device; at most one slot may be
    shared, parts of others use whole devices.
    """
    return next((name for name, amount in slots.items() if name not in (CPU, MEM) and amount % MILLI), None)


def surely_linked(free: Sequence[int], taken: int) -> int:
    """Return the number of devices that are still free in one link group, whichever `taken` ones of
    the `free` ones of all groups are gone.
    """
    most = max(free, default=0)
    while most and sum([count - most + 1 for count in free if count >= most]) <= taken:
        most -= 1
    return most


def enough_for_links(devices: SlotDevices, count: int) -> int:
    """Return how many devices must be free so that `count` of one link group are, whichever they are."""
    unlinked = devices.total - sum(devices.links)
    return sum([min(size, count - 1) for size in devices.links]) + unlinked + 1


def most_for_one_kernel(devices: Iterable[SlotDevices], slot_name: str) -> int:
    """Return the most of a slot that one kernel can get: whole devices, else the rest of one;
    unbounded if the devices are unknown.
    """
    known = next((each for each in devices if each.slot_name == slot_name), None)
    if known is None:
        return MAX_AMOUNT
    return known.whole * MILLI or max([device.free for device in known.open], default=0)


class SharedDevices:
    """Shared devices of one slot of one agent."""

    def __init__(self, devices: Iterable[PartlyFreeDevice] = ()) -> None:
        # devices first shared in this pass have negative ids
        self.free = {device.id: device.free for device in devices}
        self._started = 0

    def best_fit(self, amount: int, closed: Collection[int] = ()) -> int | None:
        """Return the device with the least sufficient rest that is not `closed`; ties go to the smallest
        id, then to devices first shared here, in order. None if no device suffices.
        """
        found = [
            (free, each < 0, abs(each))
            for each, free in self.free.items()
            if free >= amount and each not in closed
        ]
        if not found:
            return None
        _, is_opened, number = min(found)
        return -number if is_opened else number

    def start_sharing(self) -> int:
        """Start sharing a whole device. Return its temporary negative id."""
        self._started += 1
        self.free[-self._started] = MILLI
        return -self._started

    def change(self, device_id: int, amount: int) -> None:
        """Add `amount` to the free part of a device. If it is the last one opened here and whole
        again, it is removed.
        """
        self.free[device_id] += amount
        if device_id == -self._started and self.free[device_id] == MILLI:
            del self.free[device_id]
            self._started -= 1


class SharedDevice:
    """Shared device and its free rest at present."""

    __slots__ = ("agent_number", "rest")

    def __init__(self, agent_number: int) -> None:
        self.agent_number, self.rest = agent_number, 0


class SharedDeviceIndex:
    """Shared devices of a pool, ordered by rest and then by when they reached it; outdated entries
    stay.
    """

    def __init__(self) -> None:
        self.rests: list[int] = []  # sorted
        self.by_rest: dict[int, list[SharedDevice]] = {}  # by rest at the time
        self.devices: dict[tuple[int, int], SharedDevice] = {}  # by agent number and device id

    def record(self, left: int, agent_number: int, device_id: int) -> None:
        """Record the free rest of a device; MILLI if it is no longer shared."""
        device = self.devices.get((agent_number, device_id))
        if device is None:
            device = self.devices[agent_number, device_id] = SharedDevice(agent_number)
        device.rest = left
        if 0 < left < MILLI:
            if left not in self.by_rest:
                insort(self.rests, left)
                self.by_rest[left] = []
            self.by_rest[left].append(device)


class SharedDeviceSearch:
    """Search of a pool for agents with a shared device that fits a request. Agents only lose
    capacity in a pass, so a rejected one is skipped until the shelf records it again; otherwise
    searches would slow down as agents fill up.
    """

    def __init__(self, shelf: SharedDeviceIndex, amount: int) -> None:
        self._index, self._amount = shelf, amount
        self._examined: dict[int, int] = {}  # by rest, number of entries examined

    def candidates(self, free: Sequence[int], guards: int, joins: int) -> Iterator[int]:
        """Yield agent numbers with a device that has enough, the least rest first, ties in recorded
        order. Agents without capacity for the rest of the request, `joins`, in `free` are skipped.
        Asking for the next one marks the last as unsuitable.
        """
        lefts, by_left, looked_at = self._index.rests, self._index.by_rest, self._examined
        for place in range(bisect_left(lefts, self._amount), len(lefts)):
            left = lefts[place]
            devices, start = by_left[left], looked_at.get(left, 0)
            if start == len(devices):
                continue
            for index in range(start, len(devices)):
                device = devices[index]
                if device.rest == left and (free[device.agent_number] | guards) - joins & guards == guards:
                    looked_at[left] = index
                    yield device.agent_number
            looked_at[left] = len(devices)


class Device(NamedTuple):
    """Free whole device with its link group and NUMA node; None: not linked. `place` names it in
    `DeviceSets`.
    """

    id: int
    link_group: int | None = None
    numa_node: int | None = None
    place: str = ""


DeviceSets = Mapping[int, Sequence[frozenset[str]]]
"""Sets of places that one kernel may get together, by number; no set means any devices."""


def choose_devices(devices: Sequence[Device], count: int, *, must_be_linked: bool = False) -> tuple[int, ...]:
    """Choose `count` free devices and return their ids in order: from the smallest link group that
    has enough, which keeps large groups whole; else from one NUMA node; else from as few groups as
    possible. Raises NoSuchDevices if they must be linked and no group has enough.
    """
    if count == len(devices) and not must_be_linked:
        return tuple(sorted([device.id for device in devices]))
    for by in ("link_group", "numa_node"):
        groups = _groups(devices, by)
        large = [group for group in groups if len(group) >= count]
        if large:
            return min(large, key=len)[:count]
        if must_be_linked:
            raise NoSuchDevices(f"No {count} of the {len(devices)} devices that are left are linked.")
    chosen: list[int] = []
    for group in sorted(_groups(devices, "link_group"), key=len, reverse=True):
        chosen += group[: count - len(chosen)]
    return tuple(sorted(chosen))


def choose_allowed_set(devices: Sequence[Device], count: int, sets: DeviceSets) -> tuple[int, ...]:
    """Choose `count` free devices that may be given together and return their ids in order. Takes what
    is left of larger sets that are broken already. Raises NoAllowedSet.
    """
    by_place = {device.place: device.id for device in devices}
    any_device = [frozenset([place]) for place in by_place]
    free = [choice for choice in (sets.get(count) or any_device) if choice <= by_place.keys()]
    if not free or count not in sets:
        raise NoAllowedSet(f"None of the sets of {count} is free as a whole.")

    def broken(choice: frozenset[str]) -> list[int]:
        larger = [one for size in sorted(sets) if size > count for one in sets[size] if choice <= one]
        return [len(one & by_place.keys()) for one in larger]

    chosen = sorted(free, key=lambda choice: (broken(choice), sorted(choice)))
    ids = [by_place[place] for choice in chosen for place in choice]
    return tuple(sorted(ids[:count]))


def _groups(devices: Sequence[Device], by: str) -> list[tuple[int, ...]]:
    """Return the device ids of each group by group number, then each ungrouped device alone."""
    joined = sorted((getattr(device, by), device.id) for device in devices if getattr(device, by) is not None)
    groups = [tuple([each for _, each in same]) for _, same in groupby(joined, key=lambda pair: pair[0])]
    return groups + sorted((device.id,) for device in devices if getattr(device, by) is None)


class DeviceTable:
    """Devices of one slot of one agent, from which kernels get devices by id. With `sets`, whole devices
    are given in these alone. Of the devices in `kept_apart` only one project gets parts: `sharers` has
    those that are shared already, and `claims` the projects that get the first part here.
    """

    def __init__(self) -> None:
        self.sets: DeviceSets = {}
        self.kept_apart: set[int] = set()
        self.sharers: dict[int, int] = {}
        self.claims: dict[int, int] = {}
        self._whole: dict[int, Device] = {}
        self._open = SharedDevices()
        self._names: dict[int, int] = {}  # ids of devices shared from now on, by temporary id

    def add(self, device: Device, occupied: int) -> None:
        if occupied == 0:
            self._whole[device.id] = device
        elif occupied < MILLI:
            self._open.free[device.id] = MILLI - occupied

    def assign(
        self, amount: int, *, may_join: bool = True, must_be_linked: bool = False, project: int = 0
    ) -> tuple[int, ...]:
        """Assign whole devices, linked ones if possible or if they must be, or one device for a part
        of it, to a session of this project. Raises NoSuchDevices.
        """
        if amount % MILLI == 0:
            return self._take_whole(amount // MILLI, must_be_linked=must_be_linked)
        if amount > MILLI:
            raise NoSuchDevices(f"{amount} thousandths are neither whole devices nor a part of one.")
        closed = {each for each, sharer in self.sharers.items() if sharer != project}
        found = self._open.best_fit(amount, closed) if may_join else None
        if found is None:
            if may_join and not self._whole and self._open.best_fit(amount) is not None:
                raise OtherProject("Parts of the devices with room are of other projects.")
            [device_id] = self._take_whole(1, must_be_linked=False)
            found = self._open.start_sharing()
            self._names[found] = device_id
            if device_id in self.kept_apart:
                self.sharers[found] = self.claims[device_id] = project
        self._open.change(found, -amount)
        return (self._names.get(found, found),)

    def _take_whole(self, count: int, *, must_be_linked: bool) -> tuple[int, ...]:
        if count > len(self._whole):
            raise NoSuchDevices(f"{count} whole devices are more than the {len(self._whole)} that are left.")
        whole = list(self._whole.values())
        chosen = (
            choose_allowed_set(whole, count, self.sets)
            if self.sets
            else choose_devices(whole, count, must_be_linked=must_be_linked)
        )
        for device_id in chosen:
            del self._whole[device_id]
        return chosen


def assign_devices(
    slots: Mapping[str, int],
    tables: Mapping[str, DeviceTable | None],
    *,
    must_be_linked: bool = False,
    project: int = 0,
) -> DeviceAssignment:
    """Return the devices of a kernel of this project for the slots that have a table; of each slot they
    are linked with each other if they must be. Raises NoSuchDevices.
    """
    joins = fractional_slot(slots)
    return {
        name: table.assign(amount, may_join=name == joins, must_be_linked=must_be_linked, project=project)
        for name, amount in slots.items()
        if (table := tables.get(name)) is not None
    }
