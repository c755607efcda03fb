"""When and where a session that finds no room now will find it, by the ends that are known."""

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from heapq import nsmallest

from scheduler.engine.machines import Machines, Until
from scheduler.engine.shapes import Shape
from scheduler.engine.vectors import Layout

Slot = tuple[bool, datetime, int, int]  # nobody knows when; when; after how many known ends; ordinal


@dataclass(frozen=True, slots=True)
class Prospect:
    """Where each kernel of a shape will find room first (ordinals), and when all of it will be there, at the latest; None if
    something must end of which nobody knows when it will."""

    ordinals: list[int]
    until: Until


def soonest(
    machines: Machines, layout: Layout, shape: Shape, now: datetime, *, known_only: bool
) -> Prospect | None:
    """None if there will never be room beside what is kept for others; or if `known_only`, if nobody knows when.

    Kernels of a session that differ are counted as large as the largest in each field.
    """
    if known_only and not machines.has_ends():
        return None
    largest = reduce(layout.greater, (request for request, _ in shape.searches))
    count = len(shape.searches)
    slots: list[Slot] = []
    for ordinal in machines.hosts(shape):
        ends = machines.ends(ordinal)
        # Without an end the room there is what the pass has seen, and that was not enough for all.
        if ends or count > 1 or not known_only:
            slots += _slots_on(machines, layout, ordinal, largest, count, ends, now)
    chosen = nsmallest(count, (slot for slot in slots if not (known_only and slot[0])))
    if len(chosen) < count:
        return None
    is_unknown = any(unknown for unknown, _, _, _ in chosen)
    until = None if is_unknown else max(at for _, at, _, _ in chosen)
    return Prospect([ordinal for _, _, _, ordinal in chosen], until)


def _slots_on(
    machines: Machines,
    layout: Layout,
    ordinal: int,
    request: int,
    count: int,
    ends: list[tuple[datetime, int]],
    now: datetime,
) -> list[Slot]:
    """When this agent will have room for one, two, … up to `count` such requests."""
    slots: list[Slot] = []
    room, at = machines.room(ordinal), now
    for number in range(len(ends) + 1):
        while len(slots) < count and layout.fits(request * (len(slots) + 1), room):
            slots.append((False, at, number, ordinal))
        if number < len(ends):
            ends_at, released = ends[number]
            at = max(at, ends_at)
            room = machines.grown(ordinal, room, released)
    room = machines.capacity(ordinal)
    while len(slots) < count and layout.fits(request * (len(slots) + 1), room):
        slots.append((True, at, len(ends), ordinal))
    return slots
