"""Accelerators one by one, as far as it matters who gets which: how many are whole, and what is left of those that are shared.

A request for a slot of devices asks for whole ones, or for a part of a single one. Of which devices that is, is decided twice by
the same rules: here by amounts alone, and when it is committed by name (`OpenDevices`, `pick`).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from common.values.resources import CPU, MAX_AMOUNT, MEM, MILLI

WHOLE_MARK = "*"  # no slot has it in its name
Dealt = Mapping[str, tuple[int, ...]]  # by slot, the ids of the devices that give it


class NoSuchDevices(Exception):
    """The devices of an agent cannot give what a plan has for it."""


class OpenDevice(NamedTuple):
    """One of which somebody holds a part, and what is left of it: neither nothing nor all."""

    id: int
    free: int


class SlotDevices(NamedTuple):
    """The devices that give one slot of an agent: how many there are, how many of them nobody holds a part of, and those that are shared
    and have something left."""

    slot_name: str
    total: int
    whole: int
    open: tuple[OpenDevice, ...] = ()


class Share(NamedTuple):
    """The part of a single device that somebody holds."""

    slot_name: str
    device_id: int
    amount: int


class Part(NamedTuple):
    """The part of a single device that a kernel asks for. `joins`: its request as a vector, where it joins others on a device of which
    no whole one has to be given up."""

    slot_name: str
    amount: int
    joins: int


def whole_of(slot_name: str) -> str:
    """The name of what is derived from a slot: how much of it is free in whole devices."""
    return slot_name + WHOLE_MARK


def devices_for(amount: int) -> int:
    """How many devices give it, of which none gives less than all of itself if it is more than one."""
    return -(-amount // MILLI)


def is_dealt(name: str, amount: int) -> bool:
    """Whether devices can give so much: whole ones, or a part of one."""
    return name in (CPU, MEM) or amount < MILLI or amount % MILLI == 0


def part_in(slots: Mapping[str, int]) -> str | None:
    """The slot of which `slots` has a part of one device that may be shared. Of a second one it would be given all."""
    return next((name for name, amount in slots.items() if name not in (CPU, MEM) and amount % MILLI), None)


def most_of(devices: Iterable[SlotDevices], slot_name: str) -> int:
    """The most of a slot that one kernel can get of them: whole ones, else what is left of one; without bound where nobody knows them."""
    known = next((each for each in devices if each.slot_name == slot_name), None)
    if known is None:
        return MAX_AMOUNT
    return known.whole * MILLI or max([device.free for device in known.open], default=0)


class OpenDevices:
    """The devices of one slot of one agent of which somebody holds a part."""

    def __init__(self, devices: Iterable[OpenDevice] = ()) -> None:
        self.free = {device.id: device.free for device in devices}  # those opened here have negative ids
        self._opened = 0

    def best(self, amount: int) -> int | None:
        """The one that has least left and yet enough: of equal ones the smallest id, those that were opened here behind others in
        their order."""
        found = [(free, each < 0, abs(each)) for each, free in self.free.items() if free >= amount]
        if not found:
            return None
        _, is_opened, number = min(found)
        return -number if is_opened else number

    def open(self) -> int:
        """A whole one is to be shared: what it is called here."""
        self._opened += 1
        self.free[-self._opened] = MILLI
        return -self._opened

    def change(self, device_id: int, amount: int) -> None:
        """So much more of it is free; of one that was opened here last and is whole again nobody knows any more."""
        self.free[device_id] += amount
        if device_id == -self._opened and self.free[device_id] == MILLI:
            del self.free[device_id]
            self._opened -= 1


class SharedDevice:
    """What is left now of one on that agent."""

    __slots__ = ("left", "ordinal")

    def __init__(self, ordinal: int) -> None:
        self.ordinal, self.left = ordinal, 0


class Shelf:
    """The shared devices of a pool by what is left of them: in which order they came to have so much, whatever became of it since."""

    def __init__(self) -> None:
        self.lefts: list[int] = []  # in order
        self.by_left: dict[int, list[SharedDevice]] = {}  # by what was left
        self.devices: dict[tuple[int, int], SharedDevice] = {}  # by ordinal and id

    def tell(self, left: int, ordinal: int, device_id: int) -> None:
        """It has so much left now; all, where nobody shares it any more."""
        device = self.devices.get((ordinal, device_id))
        if device is None:
            device = self.devices[ordinal, device_id] = SharedDevice(ordinal)
        device.left = left
        if 0 < left < MILLI:
            if left not in self.by_left:
                insort(self.lefts, left)
                self.by_left[left] = []
            self.by_left[left].append(device)


class Finder:
    """Where a request for a part is looked for. In a pass agents only lose room, so one that had none for it is not looked at again
    before the shelf tells of it again: else a search would be the longer the more agents are full."""

    def __init__(self, shelf: Shelf, amount: int) -> None:
        self._shelf, self._amount = shelf, amount
        self._looked_at: dict[int, int] = {}  # by what was left, so many of those that were told

    def candidates(self, free: Sequence[int], guards: int, joins: int) -> Iterator[int]:
        """The ordinals of the agents with a device that has enough, the least left first: of equal ones the first that had so much. Most have no
        room for the rest, `joins`, in what is `free` there: these are passed over. Who asks for the next says that this one has none either."""
        lefts, by_left, looked_at = self._shelf.lefts, self._shelf.by_left, self._looked_at
        for place in range(bisect_left(lefts, self._amount), len(lefts)):
            left = lefts[place]
            devices, start = by_left[left], looked_at.get(left, 0)
            if start == len(devices):
                continue
            for index in range(start, len(devices)):
                device = devices[index]
                if device.left == left and (free[device.ordinal] | guards) - joins & guards == guards:
                    looked_at[left] = index
                    yield device.ordinal
            looked_at[left] = len(devices)


class Device(NamedTuple):
    """A whole one that may be given, and what it is joined with. Those that do not say are joined with none."""

    id: int
    link_group: int | None = None
    numa_node: int | None = None


def pick(devices: Sequence[Device], count: int) -> tuple[int, ...]:
    """Which `count` of these free devices go together, in the order of their ids: all of one link group if one has so many,
    and of such the smallest, so that large ones stay whole; else all of one NUMA node; else of as few groups as possible."""
    if count == len(devices):
        return tuple(sorted([device.id for device in devices]))
    for by in ("link_group", "numa_node"):
        groups = _groups(devices, by)
        large = [group for group in groups if len(group) >= count]
        if large:
            return min(large, key=len)[:count]
    chosen: list[int] = []
    for group in sorted(_groups(devices, "link_group"), key=len, reverse=True):
        chosen += group[: count - len(chosen)]
    return tuple(sorted(chosen))


def _groups(devices: Sequence[Device], by: str) -> list[tuple[int, ...]]:
    """The ids of those that are joined, by their number; then those that are not, each for itself."""
    joined = sorted((getattr(device, by), device.id) for device in devices if getattr(device, by) is not None)
    groups = [tuple([each for _, each in same]) for _, same in groupby(joined, key=lambda pair: pair[0])]
    return groups + sorted((device.id,) for device in devices if getattr(device, by) is None)


class DeviceTable:
    """The devices of one slot of one agent, from which kernels get theirs by name."""

    def __init__(self) -> None:
        self._whole: dict[int, Device] = {}
        self._open = OpenDevices()
        self._names: dict[int, int] = {}  # of those shared only from now on, by what `_open` calls them

    def add(self, device: Device, occupied: int) -> None:
        if occupied == 0:
            self._whole[device.id] = device
        elif occupied < MILLI:
            self._open.free[device.id] = MILLI - occupied

    def give(self, amount: int, *, may_join: bool = True) -> tuple[int, ...]:
        """Whole devices that go together, or the one of which it is a part. Raises NoSuchDevices."""
        if amount % MILLI == 0:
            return self._take_whole(amount // MILLI)
        if amount > MILLI:
            raise NoSuchDevices(f"{amount} thousandths are neither whole devices nor a part of one.")
        found = self._open.best(amount) if may_join else None
        if found is None:
            [device_id] = self._take_whole(1)
            found = self._open.open()
            self._names[found] = device_id
        self._open.change(found, -amount)
        return (self._names.get(found, found),)

    def _take_whole(self, count: int) -> tuple[int, ...]:
        if count > len(self._whole):
            raise NoSuchDevices(f"{count} whole devices are more than the {len(self._whole)} that are left.")
        chosen = pick(list(self._whole.values()), count)
        for device_id in chosen:
            del self._whole[device_id]
        return chosen


def deal(slots: Mapping[str, int], tables: Mapping[str, DeviceTable | None]) -> Dealt:
    """The devices that a kernel gets, of those slots of which there is a table. Raises NoSuchDevices."""
    joins = part_in(slots)
    return {
        name: table.give(amount, may_join=name == joins)
        for name, amount in slots.items()
        if (table := tables.get(name)) is not None
    }
