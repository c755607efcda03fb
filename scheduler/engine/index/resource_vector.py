"""Resource vectors as one integer each: a 64-bit field per slot, whose top bit is a guard."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from common.values.resources import CPU, MAX_AMOUNT, MEM, MILLI, ResourceSlots
from scheduler.engine.accelerators import WHOLE_MARK, devices_for, whole_of


def most_apart(requests: Sequence[int], vectors: Iterable[int], fits: Callable[[int, int], bool]) -> int:
    """For how many of these requests, the largest first, one of the vectors each has room: each takes the least that has."""
    left = sorted(vectors)
    found = 0
    for request in requests:
        place = next((n for n, room in enumerate(left) if fits(request, room)), None)
        if place is not None:
            del left[place]
            found += 1
    return found


FIELD_BITS = 64  # a field holds a thousand times MAX_AMOUNT, so that sums have room too

FIELD_MASK = (1 << FIELD_BITS) - 1

GUARD = 1 << (FIELD_BITS - 1)

CPU_SHIFT = 2 * FIELD_BITS

MOST_COMPARED = 32  # rooms with each; mostly there are fewer that no other holds

FIRST_DEVICE_SHIFT = 3 * FIELD_BITS


class Layout:
    """Which slot has which field, for all vectors of one pass. `shared`: slots of which devices are shared."""

    def __init__(self, slot_names: Iterable[str], shared: Iterable[str] = ()) -> None:
        self.shared = sorted(shared)
        slot_names = {*slot_names, *map(whole_of, self.shared)}
        self.devices = sorted(set(slot_names) - {CPU, MEM})
        self._shift_of = {
            name: FIELD_BITS * (index + 1) for index, name in enumerate((MEM, CPU, *self.devices))
        }
        self.guards = sum(GUARD << shift for shift in (0, *self._shift_of.values()))
        self._derived = sum(FIELD_MASK << self._shift_of[whole_of(name)] for name in self.shared)
        self._whole_guards = sum(GUARD << self._shift_of[whole_of(name)] for name in self.shared)
        self._all = self.guards - (self.guards >> FIELD_BITS - 1)  # all bits below the guards

    def has_all(self, slot_names: Iterable[str]) -> bool:
        return all(name in self._shift_of for name in slot_names)

    def pack_request(self, slots: Mapping[str, int]) -> int:
        """`slots` as a vector with ordinal 0. An amount beyond MAX_AMOUNT becomes that: it fits nowhere. A part of a shared device
        counts as a whole one: as if nobody shared it yet."""
        request = sum(min(amount, MAX_AMOUNT) << self._shift_of[name] for name, amount in slots.items())
        for name in self.shared:
            if amount := min(slots.get(name, 0), MAX_AMOUNT - MILLI):
                request += devices_for(amount) * MILLI << self._shift_of[whole_of(name)]
        return request

    def pack_room(self, slots: Mapping[str, int], ordinal: int = 0) -> int:
        """What agent number `ordinal` has. Negative amounts count as zero, huge ones as MAX_AMOUNT − 1; slots that no
        agent has and nobody asks for are left out."""
        vector = ordinal
        for name, amount in slots.items():
            if amount > 0 and name in self._shift_of:
                vector += (amount if amount < MAX_AMOUNT else MAX_AMOUNT - 1) << self._shift_of[name]
        return vector

    def pack_limit(self, slots: Mapping[str, int]) -> int:
        """The most that may be held: of slots that are not named as much as a field can say."""
        vector = self._all
        for name, amount in slots.items():
            if name in self._shift_of:
                vector ^= (FIELD_MASK >> 1 ^ max(amount, 0)) << self._shift_of[name]
        return vector

    def shift_of(self, name: str) -> int:
        return self._shift_of[name]

    def fits(self, request: int, room: int) -> bool:
        """Whether no field of `request` is larger than that of `room`; both without guards."""
        return not (room - request) & self.guards

    def lesser(self, one: int, other: int) -> int:
        """Field by field the smaller of two vectors."""
        enough = ((one | self.guards) - other) & self.guards
        larger = enough - (enough >> FIELD_BITS - 1)  # all bits of the fields in which `one` is not smaller
        return other & larger | one & ~larger

    def greater(self, one: int, other: int) -> int:
        """Field by field the larger of two vectors."""
        return one + other - self.lesser(one, other)

    def greatest(self, vectors: Iterable[int]) -> int:
        """Field by field the largest of these."""
        return reduce(self.greater, vectors)

    def less(self, room: int, request: int) -> int:
        """`room` − `request`, field by field, and 0 where there is not enough."""
        difference = (room | self.guards) - request
        enough = difference & self.guards
        return difference & (enough - (enough >> FIELD_BITS - 1))

    def nearness(self, request: int, room: int) -> tuple[int, int]:
        """A key that grows the nearer `room` comes to `request`: how many fields have enough, then what there
        is in those that have not."""
        enough = ((room | self.guards) - request) & self.guards
        missing = self.guards ^ enough
        if self._whole_guards:  # a slot is one field, however it is short
            missing = (missing | (missing & self._whole_guards) >> FIELD_BITS) & ~self._whole_guards
            enough = self.guards ^ self._whole_guards ^ missing
        return enough.bit_count(), room & (missing - (missing >> FIELD_BITS - 1))

    def nearest(self, request: int, rooms: Iterable[int]) -> int:
        """Which of `rooms` is nearest to `request`; of equally near ones that with the most, but for what is derived; 0 where there are none."""
        return max(rooms, key=lambda room: (self.nearness(request, room), room & ~self._derived), default=0)

    def outermost(self, rooms: Iterable[int]) -> list[int]:
        """`rooms` without most of those that another holds, the smallest first: what fits in any fits in one of these, and the nearest is among
        them."""
        guards, found = self.guards, list[int]()
        for room in sorted(set(rooms), reverse=True):  # what holds it is larger
            for each in found[:MOST_COMPARED]:
                if ((each | guards) - room) & guards == guards:
                    break
            else:
                found.append(room)
        return found[::-1]

    def unpack(self, vector: int) -> ResourceSlots:
        """Nothing of what is derived."""
        return ResourceSlots(
            {
                name: vector >> shift & FIELD_MASK
                for name, shift in self._shift_of.items()
                if not name.endswith(WHOLE_MARK)
            }
        )
