"""Resource vectors as one integer each: a 48-bit field per slot, whose top bit is a guard.

    … | cuda | cpu | mem | ordinal        high bits … low bits

A subtraction shows in the guard bits, all at once, whether each field had enough: "fits" is one subtraction
and one mask, exact for any number of slots. Devices stand above CPU, and CPU above memory, so that comparing
two vectors as plain numbers compares the scarcest resource first. The lowest field is no resource: it numbers
the agent, which makes each agent's vector distinct and lets a sorted list of them say whose is whose.
"""

from collections.abc import Iterable, Mapping

from common.slots import CPU, MAX_AMOUNT, MEM, ResourceSlots

FIELD_BITS = 48
FIELD_MASK = (1 << FIELD_BITS) - 1
GUARD = 1 << (FIELD_BITS - 1)


class Layout:
    """Which slot has which field, for all vectors of one pass."""

    def __init__(self, slot_names: Iterable[str]) -> None:
        devices = sorted(set(slot_names) - {CPU, MEM}, reverse=True)
        self._shift_of = {name: FIELD_BITS * (index + 1) for index, name in enumerate((MEM, CPU, *devices))}
        self._guards = sum(GUARD << shift for shift in (0, *self._shift_of.values()))

    def pack_request(self, slots: Mapping[str, int]) -> int:
        """`slots` as a vector with ordinal 0. An amount beyond MAX_AMOUNT becomes that: it fits nowhere."""
        return sum(min(amount, MAX_AMOUNT) << self._shift_of[name] for name, amount in slots.items())

    def pack_room(self, slots: Mapping[str, int], ordinal: int) -> int:
        """What agent number `ordinal` has. Negative amounts count as zero, huge ones as MAX_AMOUNT − 1."""
        return ordinal + sum(
            max(0, min(amount, MAX_AMOUNT - 1)) << self._shift_of[name] for name, amount in slots.items()
        )

    def fits(self, request: int, room: int) -> bool:
        """Whether no field of `request` is larger than that of `room`."""
        return ((room | self._guards) - request) & self._guards == self._guards

    def nearness(self, request: int, room: int) -> tuple[int, int]:
        """A key that grows the nearer `room` comes to `request`: how many fields have enough, then what there
        is in those that have not."""
        enough = ((room | self._guards) - request) & self._guards
        missing = self._guards ^ enough
        return enough.bit_count(), room & (missing - (missing >> FIELD_BITS - 1))

    def unpack(self, vector: int) -> ResourceSlots:
        return ResourceSlots({name: vector >> shift & FIELD_MASK for name, shift in self._shift_of.items()})


def ordinal_of(vector: int) -> int:
    return vector & FIELD_MASK
