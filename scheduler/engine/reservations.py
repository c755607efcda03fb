"""When and where a session that finds no room now will find it, by the ends that are known."""

from datetime import datetime
from functools import reduce
from heapq import nsmallest

from scheduler.engine.machines import Machines, Until
from scheduler.engine.shapes import Shape
from scheduler.engine.vectors import Layout

Slot = tuple[bool, datetime, int, int]  # nobody knows when; when; after how many releases; ordinal


def soonest(
    machines: Machines, layout: Layout, shape: Shape, now: datetime
) -> tuple[list[int], Until] | None:
    """Where each kernel of `shape` will find room first (ordinals), and when all of it will be there: at the latest, None
    if that needs something to end of which nobody knows when it will. None altogether if there will never be room beside
    what is kept for others.

    Kernels of a session that differ are counted as large as the largest in each field.
    """
    largest = reduce(layout.greater, (request for request, _ in shape.searches))
    count = len(shape.searches)
    slots: list[Slot] = []
    for ordinal in machines.hosts(shape):
        slots += _slots_on(machines, layout, ordinal, largest, count, now)
    chosen = nsmallest(count, slots)
    if len(chosen) < count:
        return None
    is_unknown = any(unknown for unknown, _, _, _ in chosen)
    return [ordinal for _, _, _, ordinal in chosen], None if is_unknown else max(at for _, at, _, _ in chosen)


def _slots_on(
    machines: Machines, layout: Layout, ordinal: int, request: int, count: int, now: datetime
) -> list[Slot]:
    """When this agent will have room for one, two, … up to `count` such requests."""
    slots: list[Slot] = []
    room, wanted = machines.room(ordinal), request
    is_unknown, at = False, now
    releases = machines.releases(ordinal)
    for number in range(len(releases) + 1):
        while len(slots) < count and layout.fits(wanted, room):
            slots.append((is_unknown, at, number, ordinal))
            wanted += request
        if len(slots) == count or number == len(releases):
            break
        ends_at, released = releases[number]
        is_unknown = ends_at is None
        at = max(at, ends_at) if ends_at is not None else at
        room = machines.grown(ordinal, room, released)
    return slots
