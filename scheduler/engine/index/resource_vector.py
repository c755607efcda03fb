"""Resource vectors as one integer each: a 64-bit field per slot, whose top bit is a guard."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from common.values.resources import CPU, MAX_AMOUNT, MEM, MILLI, ResourceSlots
from scheduler.engine.accelerators import WHOLE_MARK, device_count, whole_slot


def spread_count(requests: Sequence[int], vectors: Iterable[int], fits: Callable[[int, int], bool]) -> int:
    """Return how many of the requests, largest first, get a vector each; each takes the smallest
    that fits.
    """
    left = sorted(vectors)
    found = 0
    for request in requests:
        place = next((n for n, room in enumerate(left) if fits(request, room)), None)
        if place is not None:
            del left[place]
            found += 1
    return found


FIELD_BITS = 64  # a field holds a thousand times MAX_AMOUNT, which leaves room for sums

FIELD_MASK = (1 << FIELD_BITS) - 1

GUARD = 1 << (FIELD_BITS - 1)

CPU_SHIFT = 2 * FIELD_BITS

MAX_COMPARED = 32  # vectors with which each is compared; mostly there are fewer undominated ones

FIRST_DEVICE_SHIFT = 3 * FIELD_BITS


class Layout:
    """Assignment of slots to fields for all vectors of a pass. `shared`: slots whose devices are
    shared.
    """

    def __init__(self, slot_names: Iterable[str], shared: Iterable[str] = ()) -> None:
        self.shared = sorted(shared)
        slot_names = {*slot_names, *map(whole_slot, self.shared)}
        self.devices = sorted(set(slot_names) - {CPU, MEM})
        self._shift_of = {
            name: FIELD_BITS * (index + 1) for index, name in enumerate((MEM, CPU, *self.devices))
        }
        self.guards = sum(GUARD << shift for shift in (0, *self._shift_of.values()))
        self._derived = sum(FIELD_MASK << self._shift_of[whole_slot(name)] for name in self.shared)
        self._whole_guards = sum(GUARD << self._shift_of[whole_slot(name)] for name in self.shared)
        self._all = self.guards - (self.guards >> FIELD_BITS - 1)  # all bits below the guards

    def has_all(self, slot_names: Iterable[str]) -> bool:
        return all(name in self._shift_of for name in slot_names)

    def pack_request(self, slots: Mapping[str, int]) -> int:
        """Pack a request, with agent number 0. An amount beyond MAX_AMOUNT becomes MAX_AMOUNT,
        which fits nowhere. A part of a shared device counts as a whole device, as if it were not
        shared yet.
        """
        request = sum(min(amount, MAX_AMOUNT) << self._shift_of[name] for name, amount in slots.items())
        for name in self.shared:
            if amount := min(slots.get(name, 0), MAX_AMOUNT - MILLI):
                request += device_count(amount) * MILLI << self._shift_of[whole_slot(name)]
        return request

    def pack_room(self, slots: Mapping[str, int], agent_number: int = 0) -> int:
        """Pack what agent number `ordinal` has. Negative amounts count as zero, huge ones as
        MAX_AMOUNT − 1; slots that no agent has and no session requests are left out.
        """
        vector = agent_number
        for name, amount in slots.items():
            if amount > 0 and name in self._shift_of:
                vector += (amount if amount < MAX_AMOUNT else MAX_AMOUNT - 1) << self._shift_of[name]
        return vector

    def pack_limit(self, slots: Mapping[str, int]) -> int:
        """Pack a limit; slots without one get the largest value of a field."""
        vector = self._all
        for name, amount in slots.items():
            if name in self._shift_of:
                vector ^= (FIELD_MASK >> 1 ^ max(amount, 0)) << self._shift_of[name]
        return vector

    def shift_of(self, name: str) -> int:
        return self._shift_of[name]

    def fits(self, request: int, room: int) -> bool:
        """Return True if no field of `request` exceeds that of `room`; both without guards."""
        return not (room - request) & self.guards

    def lesser(self, one: int, other: int) -> int:
        """Return the field-wise minimum of two vectors."""
        enough = ((one | self.guards) - other) & self.guards
        larger = enough - (enough >> FIELD_BITS - 1)  # all bits of the fields in which `one` is not smaller
        return other & larger | one & ~larger

    def greater(self, one: int, other: int) -> int:
        """Return the field-wise maximum of two vectors."""
        return one + other - self.lesser(one, other)

    def greatest(self, vectors: Iterable[int]) -> int:
        """Return the field-wise maximum of vectors."""
        return reduce(self.greater, vectors)

    def less(self, room: int, request: int) -> int:
        """Return `room` − `request` field by field, at least 0."""
        difference = (room | self.guards) - request
        enough = difference & self.guards
        return difference & (enough - (enough >> FIELD_BITS - 1))

    def nearness(self, request: int, room: int) -> tuple[int, int]:
        """Return a key that grows with nearness: the number of sufficient fields, then the amounts
        in the others.
        """
        enough = ((room | self.guards) - request) & self.guards
        missing = self.guards ^ enough
        if self._whole_guards:  # a slot and its whole devices count as one field
            missing = (missing | (missing & self._whole_guards) >> FIELD_BITS) & ~self._whole_guards
            enough = self.guards ^ self._whole_guards ^ missing
        return enough.bit_count(), room & (missing - (missing >> FIELD_BITS - 1))

    def nearest(self, request: int, rooms: Iterable[int]) -> int:
        """Return the vector nearest to `request`; ties go to the one with the most, derived fields
        aside; 0 if there are none.
        """
        return max(rooms, key=lambda room: (self.nearness(request, room), room & ~self._derived), default=0)

    def outermost(self, rooms: Iterable[int]) -> list[int]:
        """Remove most of the dominated vectors, smallest first: what fits in any fits in one of the
        rest, and the nearest is among them.
        """
        guards, found = self.guards, list[int]()
        for room in sorted(set(rooms), reverse=True):  # a dominating vector is larger
            for each in found[:MAX_COMPARED]:
                if ((each | guards) - room) & guards == guards:
                    break
            else:
                found.append(room)
        return found[::-1]

    def unpack(self, vector: int) -> ResourceSlots:
        """Unpack a vector, without derived fields."""
        return ResourceSlots(
            {
                name: vector >> shift & FIELD_MASK
                for name, shift in self._shift_of.items()
                if not name.endswith(WHOLE_MARK)
            }
        )
